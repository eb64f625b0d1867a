import assert from "node:assert/strict";
import { test } from "node:test";

import { bodyOf, editHref, formOf, parseRoute, queryOf, ruleHref } from "../rules-address.js";

test("addresses lead to where they were made for", () => {
  for (const id of ["orders", "a.b-c_d", "<script>", "a/b?c#d%", "~new", "מרחבא", "..", "x".repeat(10240)]) {
    if (id !== "~new")
      assert.deepEqual([parseRoute(ruleHref(id)).view, parseRoute(ruleHref(id)).id], ["rule", id]);
    if (id !== "~new")
      assert.deepEqual([parseRoute(editHref(id)).view, parseRoute(editHref(id)).id], ["edit", id]);
  }
  assert.equal(parseRoute("#/rules").view, "list");
  assert.equal(parseRoute("#/rules/").view, "list");
  assert.equal(parseRoute("#/rules/~new").view, "new");
  assert.equal(parseRoute("#/rules/%E0%A4%A").view, "list", "no encoding at all");
  assert.equal(parseRoute("").view, "list");
  assert.equal(parseRoute("#/rules/~explain?path=%2Fa").query, "path=%2Fa");
});

test("a request goes into the address and comes back, but for its secrets", () => {
  const form = {
    ...formOf(""),
    path: "/a b?c=1&d#e",
    user: "al & ice",
    headers: "X-A: 1\nAuthorization: Bearer s\nX-Auth-Token: t",
    cost: "2",
  };
  const back = formOf(queryOf(form));
  assert.deepEqual(back, { ...form, headers: "X-A: 1" });
  assert.ok(!queryOf(form).includes("Bearer"));
  assert.equal(queryOf(formOf("")), "");
});

test("a form becomes the body of a check", () => {
  const { body } = bodyOf({
    ...formOf(""),
    path: "/a",
    method: "GET",
    headers: "X-A: b: c\n\n __proto__ : x",
    cost: "0",
  });
  assert.equal(
    JSON.stringify(body),
    '{"resource":"/a","method":"GET","headers":{"X-A":"b: c","__proto__":"x"},"cost":0}',
  );
});

test("what is wrong with a form is said at its field", () => {
  const { errors } = bodyOf({ ...formOf(""), headers: "A: 1\nnothing", cost: "-3" });
  assert.deepEqual(Object.keys(errors).sort(), ["cost", "headers", "path"]);
  assert.match(errors.headers, /Line 2/);
});
