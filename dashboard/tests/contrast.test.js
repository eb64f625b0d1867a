import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const css = readFileSync(new URL('../app.css', import.meta.url), 'utf8');
const colours = (selector) => Object.fromEntries(
  [...css.slice(css.indexOf(selector)).split('}')[0].matchAll(/--([\w-]+): (#[0-9a-f]{6})/g)].map(([, name, value]) => [name, value]));

function luminance(hex) {
  const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}

function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

const LEVELS = ['ok', 'info', 'warning', 'critical', 'unknown'];
const TEXT = [['ink', 'surface'], ['ink', 'ground'], ['ink', 'raised'], ['ink-2', 'surface'], ['ink-2', 'ground'], ['ink-2', 'raised'], ['link', 'surface'], ['surface', 'link'],
  ...LEVELS.flatMap((level) => [[level, `${level}-tint`], [level, 'surface'], ['ink', `${level}-tint`]])];
const SHAPES = ['blue', 'sky', 'orange', 'green', 'purple', 'red', 'yellow', 'grey', 'edge', 'focus'].map((name) => [name, 'surface']);

for (const [theme, selector] of [['light', ':root {'], ['dark', ':root[data-theme="dark"] {']]) {
  test(`${theme}: words have 4.5:1 and shapes 3:1`, () => {
    const all = colours(selector);
    for (const [pairs, least] of [[TEXT, 4.5], [SHAPES, 3]]) {
      for (const [front, back] of pairs) {
        assert.ok(all[front] && all[back], `${front} and ${back} are there`);
        const found = contrast(all[front], all[back]);
        assert.ok(found >= least, `${front} on ${back}: ${found.toFixed(2)}`);
      }
    }
  });
}
