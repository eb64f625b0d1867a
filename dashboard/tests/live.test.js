import assert from 'node:assert/strict';
import test from 'node:test';
import { byTier, columns, decided, highest, mean, roundUp, within, worstBreaker } from '../columns.js';
import { nothingYet, reduce, startLive, waitBefore } from '../live.js';

const at = (...times) => times.map((time) => ({ at: time }));

test('history and ticks become points in order, without doubles, at most 900', () => {
  let live = reduce(nothingYet, 'history', { bounds: [1], points: at(1000, 2000) });
  live = reduce(live, 'tick', { point: { at: 3000 }, state: { mode: 'normal' } });
  assert.deepEqual(live.points, at(1000, 2000, 3000));
  assert.equal(live.state.mode, 'normal');
  live = reduce(live, 'history', { bounds: [1], points: at(2000, 3000, 4000) });
  assert.deepEqual(live.points, at(1000, 2000, 3000, 4000));
  for (let time = 5; time < 2000; time++) live = reduce(live, 'tick', { point: { at: time * 1000 }, state: null });
  assert.equal(live.points.length, 900);
  assert.equal(live.points.at(-1).at, 1_999_000);
});

test('a restarted node without history does not take the past away', () => {
  const live = reduce({ ...nothingYet, points: at(1000) }, 'history', { bounds: [], points: [] });
  assert.deepEqual(live.points, at(1000));
});

test('a point of no time is left out', () => {
  const live = reduce({ ...nothingYet, points: at(1000) }, 'tick', { point: { at: 0 }, state: { mode: 'degraded' } });
  assert.deepEqual(live.points, at(1000));
  assert.equal(live.state.mode, 'degraded');
});

test('unknown messages change nothing', () => assert.equal(reduce(nothingYet, 'new', {}), nothingYet));

test('waits grow from half a second to ten', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map(waitBefore), [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
});

const answer = (text, status = 200) => new Response(text, { status });
const until = (open, enough) => new Promise((resolve) => {
  const seen = [];
  let stop = () => {};
  const see = (what) => {
    seen.push(what);
    if (enough(seen)) {
      queueMicrotask(() => stop());
      resolve(seen);
    }
  };
  stop = startLive({ open, onChange: ({ phase, problem, state }) => see({ phase, problem, state }), onDenied: () => see('denied') });
});

test('an answer that ends is a connection lost, and is asked for again', async () => {
  let asked = 0;
  const seen = await until(async () => {
    asked += 1;
    return answer('event: tick\ndata: {"point": {"at": 1}, "state": {"mode": "normal"}}\n\n');
  }, (all) => all.filter(({ phase }) => phase === 'live').length === 2);
  assert.deepEqual(seen.map(({ phase }) => phase), ['live', 'lost', 'live']);
  assert.equal(seen[1].state.mode, 'normal', 'what was known stays');
  assert.equal(asked, 2);
});

test('a message that is no JSON is a connection lost, not a broken page', async () => {
  const [first] = await until(async () => answer('data: {\n\n'), (all) => all.length === 1);
  assert.equal(first.phase, 'lost');
});

test('an error of the node is told', async () => {
  const [first] = await until(async () => answer('no', 503), (all) => all.length === 1);
  assert.deepEqual([first.phase, first.problem], ['lost', 'it answered 503']);
  const [second] = await until(async () => answer('{"error": "too_many_watchers", "message": "too many watch"}', 503), (all) => all.length === 1);
  assert.equal(second.problem, 'too many watch');
});

test('401 asks for a token and ends it', async () => {
  assert.deepEqual(await until(async () => answer('', 401), (all) => all.length === 1), ['denied']);
});

test('columns have holes where nobody looked', () => {
  const points = [{ at: 1000, n: 1 }, { at: 2000, n: null }, { at: 9000, n: 3 }];
  assert.deepEqual(columns(points, [(p) => p.n]), [[1, 2, 3, 9], [1, null, null, 3]]);
  assert.deepEqual(columns([], [(p) => p.n]), [[], []]);
});

test('windows end with the newest point', () => {
  assert.deepEqual(within(at(1000, 2000, 3000, 4000), 2), at(3000, 4000));
  assert.deepEqual(within([], 2), []);
});

test('tiers are means over the seconds, most refusals first', () => {
  const points = [{ tiers: [{ tier: 'a', allowed: 4, refused: 0 }, { tier: 'b', allowed: 2, refused: 2 }] }, { tiers: [{ tier: 'b', allowed: 2, refused: 4 }] }];
  assert.deepEqual(byTier(points), [{ tier: 'b', allowed: 2, refused: 3 }, { tier: 'a', allowed: 2, refused: 0 }]);
});

test('shadow refusals are no decisions', () => {
  assert.equal(decided({ decisions: { allowed: 1, refused: 2, shadow_refused: 100, failed_open: 3, unavailable: 4 } }), 10);
});

test('what is not known is neither 0 nor well', () => {
  assert.equal(mean([{ n: 4 }, { n: null }, {}, { n: 2 }], (p) => p.n), 3);
  assert.equal(mean([{}], (p) => p.n), null);
  const worst = (...kinds) => worstBreaker(kinds.map((breaker) => ({ breaker })));
  assert.equal(worst('closed', 'closed'), 'closed');
  assert.equal(worst('closed', 'half-open', 'open'), 'open');
  assert.equal(worst('closed', 'half-open', 'strange'), 'half-open');
  assert.equal(worst('closed', undefined), undefined);
});

test('axes end at round numbers, and the highest is of what is known', () => {
  assert.deepEqual([0, 0.3, 1, 11, 21, 5001].map(roundUp), [1, 0.5, 1, 20, 50, 10_000]);
  assert.equal(highest([{ n: null }, { n: 2 }, { n: 1 }], (p) => p.n), 2);
  assert.equal(highest([], (p) => p.n), null);
});
