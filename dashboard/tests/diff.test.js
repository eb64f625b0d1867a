import assert from "node:assert/strict";
import { test } from "node:test";

import { diffLines, folded, linesOf, sideOf, sizeOf } from "../diff.js";

// A small generator with a seed, so that a failure can be seen again.
function dice(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function textOf(roll, longest, words) {
  return Array.from({ length: roll(longest) }, () => `line ${roll(words)}`).join("\n");
}

// The length of the longest common subsequence, the plain way.
function common(a, b) {
  let row = new Array(b.length + 1).fill(0);
  for (const line of a) {
    const next = [0];
    b.forEach((other, j) => next.push(line === other ? row[j] + 1 : Math.max(row[j + 1], next[j])));
    row = next;
  }
  return row[b.length];
}

test("either side of a diff is the text it was made of", () => {
  for (let seed = 1; seed <= 600; seed += 1) {
    const roll = dice(seed);
    const [a, b] = [textOf(roll, 30, 6), textOf(roll, 30, 6)];
    for (const most of [0, 3, 1500]) {
      const diff = diffLines(a, b, most);
      assert.deepEqual(sideOf(diff, "-"), linesOf(a), `before, seed ${seed}, most ${most}`);
      assert.deepEqual(sideOf(diff, "+"), linesOf(b), `after, seed ${seed}, most ${most}`);
      for (const line of diff) {
        if (line.before !== null) assert.equal(linesOf(a)[line.before - 1], line.text);
        if (line.after !== null) assert.equal(linesOf(b)[line.after - 1], line.text);
      }
    }
  }
});

test("a diff is as short as can be", () => {
  for (let seed = 1; seed <= 300; seed += 1) {
    const roll = dice(seed);
    const [a, b] = [textOf(roll, 25, 4), textOf(roll, 25, 4)];
    const { added, removed } = sizeOf(diffLines(a, b));
    const [m, n] = [linesOf(a), linesOf(b)];
    assert.equal(added + removed, m.length + n.length - 2 * common(m, n), `seed ${seed}`);
  }
});

test("texts that have nothing in common stay within bounds", () => {
  const a = Array.from({ length: 20000 }, (_, i) => `a${i}`).join("\n");
  const b = Array.from({ length: 20000 }, (_, i) => `b${i}`).join("\n");
  const diff = diffLines(`same\n${a}\nend`, `same\n${b}\nend`, 50);
  assert.deepEqual(sizeOf(diff), { added: 20000, removed: 20000 });
  assert.equal(diff[0].op, "=");
  assert.equal(diff.at(-1).op, "=");
});

test("a line end at the end, and those of another system, are no change", () => {
  assert.deepEqual(sizeOf(diffLines("a\r\nb\r\n", "a\nb")), { added: 0, removed: 0 });
  assert.deepEqual(diffLines("", ""), []);
  assert.deepEqual(
    diffLines(null, "a").map(({ op }) => op),
    ["+"],
  );
});

test("what did not change is folded, with all lines accounted for", () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    const roll = dice(seed);
    const diff = diffLines(textOf(roll, 60, 40), textOf(roll, 60, 40));
    const rows = folded(diff, 2);
    assert.equal(
      rows.reduce((sum, row) => sum + (row.skipped ?? 1), 0),
      diff.length,
    );
    assert.deepEqual(
      rows.filter(({ op }) => op === "+" || op === "-"),
      diff.filter(({ op }) => op !== "="),
    );
  }
  const long = Array.from({ length: 30 }, (_, i) => `${i}`);
  const rows = folded(diffLines(long.join("\n"), long.with(15, "x").join("\n")), 3);
  assert.deepEqual(
    rows.filter((row) => row.skipped).map((row) => row.skipped),
    [12, 11],
  );
});
