// Points as columns of numbers, which is how charts take them.

const GAP = 2500;
const number = (value) => (typeof value === 'number' && Number.isFinite(value) ? value : null);

/** `[times in seconds, values of the first getter, …]`. Where nobody looked for a while there is a hole, not a straight line. */
export function columns(points, getters) {
  const all = [[], ...getters.map(() => [])];
  let last = null;
  for (const point of points) {
    if (last !== null && point.at - last > GAP) {
      all[0].push((last + 1000) / 1000);
      getters.forEach((_, i) => all[i + 1].push(null));
    }
    all[0].push(point.at / 1000);
    getters.forEach((get, i) => all[i + 1].push(number(get(point))));
    last = point.at;
  }
  return all;
}

/** The points of the last `seconds`, by the newest one's clock. */
export function within(points, seconds) {
  const end = points.at(-1)?.at ?? 0;
  return points.filter((point) => point.at > end - seconds * 1000);
}

const known = (points, get) => points.map((point) => number(get(point))).filter((value) => value !== null);

/** The mean of what is known, or null: what nobody knows is not 0. */
export function mean(points, get) {
  const values = known(points, get);
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

/** The largest of what is known, or null. */
export function highest(points, get) {
  const values = known(points, get);
  return values.length ? Math.max(...values) : null;
}

/** The breaker that speaks for all: closed only if every one is known to be. */
export function worstBreaker(shards) {
  const kinds = shards.map((shard) => shard.breaker);
  return ['open', 'half-open'].find((kind) => kinds.includes(kind)) ?? (kinds.every((kind) => kind === 'closed') ? 'closed' : kinds.find((kind) => kind !== 'closed'));
}

/** All that was decided in a second: shadow rules count beside decisions, not as decisions. */
export const decided = ({ decisions: d }) => d.allowed + d.refused + d.failed_open + d.unavailable;

/** What happened by tier over `points`, per second, most refusals first. */
export function byTier(points) {
  const sums = new Map();
  for (const { tier, allowed, refused } of points.flatMap((point) => point.tiers ?? [])) {
    const sum = sums.get(tier) ?? { tier, allowed: 0, refused: 0 };
    sums.set(tier, { tier, allowed: sum.allowed + allowed, refused: sum.refused + refused });
  }
  return [...sums.values()]
    .map(({ tier, allowed, refused }) => ({ tier, allowed: allowed / points.length, refused: refused / points.length }))
    .sort((a, b) => b.refused - a.refused || b.allowed - a.allowed);
}

/** The end of an axis that has room for `value`: 1, 2 or 5 and zeros. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((n) => n * size >= value * 0.999999);
  return step * size;
}
