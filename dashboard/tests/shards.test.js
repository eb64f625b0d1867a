import assert from 'node:assert/strict';
import test from 'node:test';
import { inOrder, shown } from '../shards.js';

const well = (name) => ({ name, breaker: 'closed', problem: null });
const open = (name) => ({ name, breaker: 'open', problem: null });
const names = (shards) => shards.map(({ name }) => name).join('');

test('those that suffer come first only where there is no room for all', () => {
  const shards = [well('a'), well('b'), open('c'), { ...well('d'), problem: 'refused' }, well('e')];
  assert.equal(names(inOrder(shards, 5)), 'abcde');
  assert.equal(names(inOrder(shards, 4)), 'cdabe');
});

test('a table has all that suffer, and some of the others', () => {
  const shards = [well('a'), well('b'), open('c'), well('d'), { ...well('e'), breaker: 'half-open' }];
  assert.equal(names(shown(shards, 9)), 'abcde');
  assert.equal(names(shown(shards, 3)), 'cea');
  assert.equal(names(shown(shards, 1)), 'ce');
});
