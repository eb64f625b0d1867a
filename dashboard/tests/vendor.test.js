import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';

const folder = new URL('../', import.meta.url);
const read = (file) => readFileSync(new URL(file, folder));
const own = readdirSync(folder).filter((file) => /\.(js|css|html)$/.test(file));
const listed = JSON.parse(read('vendor.json'));

test('files of others are what vendor.json says', () => {
  assert.deepEqual(own.filter((file) => file.startsWith('vendor-')).sort(), listed.map(({ file }) => file).sort());
  for (const { file, sha256 } of listed) assert.equal(createHash('sha256').update(read(file)).digest('hex'), sha256, file);
});

test('imports are relative files that are there', () => {
  for (const file of own.filter((name) => name.endsWith('.js'))) {
    for (const [, from] of read(file).toString().matchAll(/^\s*(?:import|export)\b[^'"]*?from\s*['"]([^'"]+)['"]/gm)) {
      assert.ok(from.startsWith('./') && own.includes(from.slice(2)), `${file} imports ${from}`);
    }
  }
});

test('the page has no inline scripts or styles, and all it names is there', () => {
  const page = read('index.html').toString();
  assert.doesNotMatch(page, /\sstyle=|<style|\son\w+=/);
  for (const [, attributes, body] of page.matchAll(/<script([^>]*)>([^<]*)<\/script>/g)) {
    assert.match(attributes, /src=/);
    assert.equal(body, '');
  }
  for (const [, file] of page.matchAll(/(?:src|href)="dashboard\/([^"]+)"/g)) assert.ok(own.includes(file), file);
});

test('nothing of the server becomes markup', () => {
  for (const file of own.filter((name) => !name.startsWith('vendor-'))) {
    assert.doesNotMatch(read(file).toString(), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|setAttribute\('style'|\beval\(/, file);
  }
});

test('everything together stays under 300 KB', () => {
  const size = own.reduce((sum, file) => sum + read(file).length, 0);
  assert.ok(size < 300_000, `${size} bytes`);
});
