// Line diffs: what was removed, what was added, what stayed. Pure, so that it can be tested without a page.

// Beyond so many differences the exact answer costs too much; then the middle is shown as replaced.
const MOST_DIFFERENCES = 1500;

/** The lines of a text; the line end at its end makes no line of its own. */
export function linesOf(text) {
  const whole = String(text ?? "")
    .replace(/\r\n/g, "\n")
    .replace(/\n$/, "");
  return whole === "" ? [] : whole.split("\n");
}

/**
 * How `before` becomes `after`: lines in order, each `{op, text, before, after}` with `op` one of "=", "-", "+" and the
 * numbers of the line on either side (null where it is not).
 */
export function diffLines(before, after, most = MOST_DIFFERENCES) {
  const a = linesOf(before);
  const b = linesOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end])
    end += 1;

  const ops = [];
  for (let i = 0; i < start; i += 1) ops.push("=");
  for (const op of middle(a.slice(start, a.length - end), b.slice(start, b.length - end), most)) ops.push(op);
  for (let i = 0; i < end; i += 1) ops.push("=");
  return numbered(ops, a, b);
}

function numbered(ops, a, b) {
  let i = 0;
  let j = 0;
  return ops.map((op) => {
    if (op === "-") return { op, text: a[i], before: ++i, after: null };
    if (op === "+") return { op, text: b[j], before: null, after: ++j };
    return { op, text: a[i], before: ++i, after: ++j };
  });
}

function replaced(a, b) {
  return [...a.map(() => "-"), ...b.map(() => "+")];
}

// Myers' greedy algorithm: for each number of differences, how far each diagonal gets.
function middle(a, b, most) {
  if (a.length === 0 || b.length === 0) return replaced(a, b);
  const reach = Math.min(a.length + b.length, most);
  const at = reach + 1;
  const furthest = new Int32Array(2 * reach + 3);
  const trace = [];
  for (let d = 0; d <= reach; d += 1) {
    // Only these diagonals are looked at on the way back.
    trace.push(furthest.slice(at - d - 1, at + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && furthest[at + k - 1] < furthest[at + k + 1]);
      let x = down ? furthest[at + k + 1] : furthest[at + k - 1] + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      furthest[at + k] = x;
      if (x >= a.length && y >= b.length) return wayBack(trace, a.length, b.length);
    }
  }
  return replaced(a, b);
}

function wayBack(trace, x, y) {
  const ops = [];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const reached = (k) => trace[d][k + d + 1];
    const k = x - y;
    const down = k === -d || (k !== d && reached(k - 1) < reached(k + 1));
    const from = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : reached(from);
    const fromY = d === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      ops.push("=");
      x -= 1;
      y -= 1;
    }
    if (d > 0) ops.push(down ? "+" : "-");
    x = fromX;
    y = fromY;
  }
  return ops.reverse();
}

/** The lines on the side after (or, with `side` "-", before) a diff. */
export function sideOf(diff, side = "+") {
  return diff.filter(({ op }) => op === "=" || op === side).map(({ text }) => text);
}

/** How many lines a diff adds and removes. */
export function sizeOf(diff) {
  const count = (wanted) => diff.reduce((sum, { op }) => sum + (op === wanted ? 1 : 0), 0);
  return { added: count("+"), removed: count("-") };
}

/** A diff with long stretches without a change left out: `{skipped: n}` stands for n lines. */
export function folded(diff, around = 3) {
  const near = new Uint8Array(diff.length);
  diff.forEach(({ op }, i) => {
    if (op !== "=") near.fill(1, Math.max(0, i - around), i + around + 1);
  });
  const rows = [];
  for (let i = 0; i < diff.length; i += 1) {
    if (near[i]) {
      rows.push(diff[i]);
      continue;
    }
    const from = i;
    while (i + 1 < diff.length && !near[i + 1]) i += 1;
    const skipped = i - from + 1;
    // A note takes a line as well.
    if (skipped === 1) rows.push(diff[from]);
    else rows.push({ skipped });
  }
  return rows;
}
