import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { blocks, inline, section } from '../markdown.js';

const runbooks = readFileSync(new URL('../../docs/operations/runbooks.md', import.meta.url), 'utf8');

test('a section ends where the next one begins', () => {
  const text = '# A\n\n## one\n\nfirst\n\n## two\n\nsecond\n';
  assert.equal(section(text, 'one'), 'first');
  assert.equal(section(text, 'two'), 'second');
  assert.equal(section(text, 'three'), null);
  assert.equal(section(text, 'on'), null);
});

test('paragraphs and lists', () => {
  assert.deepEqual(blocks('a\nb\n\n- c\n  d\n- e\n'), [{ text: 'a b' }, { items: ['c d', 'e'] }]);
});

test('what is within a line', () => {
  assert.deepEqual(inline('*W.* See `x*y` and [there](#z).'), [
    { kind: 'em', text: 'W.' },
    { kind: 'text', text: ' See ' },
    { kind: 'code', text: 'x*y' },
    { kind: 'text', text: ' and ' },
    { kind: 'link', text: 'there', to: '#z' },
    { kind: 'text', text: '.' },
  ]);
  assert.deepEqual(inline('<b>1 < 2</b>'), [{ kind: 'text', text: '<b>1 < 2</b>' }]);
});

test('nothing of the runbooks is left as it is written', () => {
  const names = [...runbooks.matchAll(/^## (\S+)$/gm)].map((match) => match[1]);
  assert.ok(names.length > 10);
  for (const name of names) {
    const lines = blocks(section(runbooks, name)).flatMap((block) => block.items ?? [block.text]);
    assert.ok(lines.length > 0, name);
    for (const piece of lines.flatMap(inline)) {
      if (piece.kind === 'text') assert.doesNotMatch(piece.text, /[`*]|\]\(/, name);
      if (piece.kind === 'link' && piece.to.startsWith('#')) assert.ok(names.includes(piece.to.slice(1)), piece.to);
    }
  }
});
