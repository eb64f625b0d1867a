import assert from 'node:assert/strict';
import test from 'node:test';
import { DASHES, LINES, mix, RAMPS, strength } from '../colour.js';

test('strength goes by order of magnitude', () => {
  assert.equal(strength(1), 1);
  assert.equal(strength(0.01), 0.5);
  assert.equal(strength(0.0001), 0);
  assert.equal(strength(1e-9), 0);
  for (const nothing of [0, -1, NaN, null, undefined]) assert.equal(strength(nothing), null);
});

test('colours between stops', () => {
  const stops = [[0, 0, 0], [100, 200, 50], [200, 0, 50]];
  assert.equal(mix(stops, 0), 'rgb(0, 0, 0)');
  assert.equal(mix(stops, 0.25), 'rgb(50, 100, 25)');
  assert.equal(mix(stops, 0.5), 'rgb(100, 200, 50)');
  assert.equal(mix(stops, 1), 'rgb(200, 0, 50)');
  assert.equal(mix(stops, 7), 'rgb(200, 0, 50)');
  assert.equal(mix(stops, -1), 'rgb(0, 0, 0)');
});

const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;

test('ramps go one way in lightness, so that they can be read without hues', () => {
  const light = RAMPS.light.map(luminance);
  const dark = RAMPS.dark.map(luminance);
  assert.deepEqual(light, [...light].sort((a, b) => b - a));
  assert.deepEqual(dark, [...dark].sort((a, b) => a - b));
});

test('each line has a colour and a dash of its own', () => {
  assert.equal(new Set(LINES).size, LINES.length);
  assert.equal(new Set(DASHES.map(String)).size, LINES.length);
});
