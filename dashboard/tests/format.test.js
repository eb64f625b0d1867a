import assert from 'node:assert/strict';
import test from 'node:test';
import * as format from '../format.js';

const check = (name, make, cases) => test(name, () => {
  for (const [input, expected] of cases) assert.equal(make(...[input].flat()), expected, `${name} of ${input}`);
});

check('count', format.count, [[0, '0'], [0.004, '<0.01'], [1.234, '1.23'], [12.34, '12.3'], [999.4, '999'], [999.6, '1k'], [1234, '1.23k'], [14200, '14.2k'],
  [999_999, '1M'], [2.5e9, '2.5G'], [null, '–'], [NaN, '–'], [Infinity, '–'], ['12', '–']]);
check('rate', format.rate, [[1234, '1.23k/s'], [0, '0/s'], [undefined, '–']]);
check('bytes', format.bytes, [[0, '0 B'], [512, '512 B'], [1_310_720, '1.31 MB'], [12_345, '12.3 kB'], [null, '–']]);
check('exact', format.exact, [[1234567, '1,234,567'], [0, '0'], [null, '–']]);
check('duration', format.duration, [[12e-6, '12 µs'], [0.0034, '3.4 ms'], [1.2, '1.2 s'], [5e-7, '500 ns'], [0.9996e-3, '1 ms'], [0, '0'], [null, '–']]);
check('percent', format.percent, [[0.035, '3.5 %'], [1, '100 %'], [0, '0 %'], [0.00001, '<0.01 %'], [0.99999, '>99.9 %'], [null, '–']]);
check('share', format.share, [[[1, 4], 0.25], [[1, 0], null], [[null, 4], null]]);
check('span', format.span, [[45, '45 s'], [60, '1 min'], [200, '3 min 20 s'], [7500, '2 h 5 min'], [273_600, '3 d 4 h'], [-3, '0 s'], [null, '–']]);
check('plural', format.plural, [[[1, 'rule'], '1 rule'], [[0, 'rule'], '0 rules'], [[2, 'entry', 'entries'], '2 entries']]);

const NOW = Date.parse('2026-03-01T12:00:00Z');
check('ago', (when) => format.ago(when, NOW), [['2026-03-01T11:59:59Z', 'just now'], ['2026-03-01T12:00:30Z', 'just now'], ['2026-03-01T11:59:48Z', '12 s ago'],
  ['2026-03-01T11:55:00Z', '5 min ago'], ['2026-03-01T08:59:00Z', '3 h ago'], ['2026-02-27T11:00:00Z', '2 d ago'], ['rubbish', '–'], [NOW - 3000, '3 s ago']]);

check('age', (when) => format.age(when, NOW), [['2026-03-01T11:59:59Z', '1 s'], ['2026-03-01T11:55:01Z', '4 min'], ['2026-03-01T12:00:30Z', '0 s'], [null, '–']]);

test('clock is the reader’s time of day', () => {
  assert.equal(format.clock(new Date(2026, 2, 1, 4, 5, 9)), '04:05:09');
  assert.equal(format.clock('rubbish'), '–');
});

test('buckets are named by their bounds', () => {
  const bounds = [1e-6, 1e-3];
  assert.deepEqual([0, 1, 2].map((i) => format.bucketName(bounds, i)), ['up to 1 µs', '1 µs – 1 ms', 'over 1 ms']);
});

test('only http, https and relative links are followed', () => {
  for (const good of ['https://example.org/runbook#a', 'http://10.0.0.1/x', 'docs/operations/runbooks.md#store_down', '/docs', '#a']) {
    assert.equal(format.safeLink(good), good);
  }
  for (const bad of ['javascript:alert(1)', ' JaVaScript:alert(1)', 'java\tscript:alert(1)', '\u0001javascript:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd',
    'blob:http://x/y', 'http://[', '', '  ', null, undefined, 7, {}]) {
    assert.equal(format.safeLink(bad), null, String(bad));
  }
});
