import assert from "node:assert/strict";
import { test } from "node:test";

import { idsIn, ruleIn, tiersIn, yamlOf } from "../rules-text.js";

const DOCUMENT = `# all of them
tiers:
  free: { limit: 100, window: 1m, burst: 120 }   # most
  pro:
    limit: 1000
    window_size_seconds: 60
    algorithm: sliding_window
plans: { premium: 3, free: 1.5 }
rules:
  # about orders
  - rule_id: orders
    identifier_type: user_id
    limit: 50   # fifty
    # per minute
    window: 1m

  # about logins
  - identifier_type: ip_address
    rule_id: "logins"
    limit: 5
    window: 15m
    match:
      path_pattern: /login
# the end
`;

const ORDERS = {
  rule_id: "orders",
  identifier_type: "user_id",
  limit: 50,
  window: "1m",
  algorithm: "token_bucket",
  priority: 100,
};
const LOGINS = {
  rule_id: "logins",
  identifier_type: "ip_address",
  limit: 5,
  window: "15m",
  match: { path_pattern: "/login" },
};

test("a rule is found in its document with its comments", () => {
  assert.equal(
    ruleIn(DOCUMENT, ORDERS),
    "rule_id: orders\nidentifier_type: user_id\nlimit: 50   # fifty\n# per minute\nwindow: 1m\n",
  );
  assert.equal(
    ruleIn(DOCUMENT, LOGINS),
    'identifier_type: ip_address\nrule_id: "logins"\nlimit: 5\nwindow: 15m\nmatch:\n  path_pattern: /login\n',
  );
});

test("a rule by itself is all of its document", () => {
  const text = "# mine\nrule_id: orders\nidentifier_type: user_id\nlimit: 50\nwindow: 1m\n";
  assert.equal(ruleIn(text, ORDERS), text);
  assert.equal(ruleIn(`rule_id: a\nlimit: 1\n---\n${text}---\nrule_id: b\n`, ORDERS), text);
});

test("where it is not sure it finds nothing", () => {
  assert.equal(ruleIn(DOCUMENT, { ...ORDERS, rule_id: "order" }), null);
  assert.equal(ruleIn(DOCUMENT, { ...ORDERS, charge: {} }), null, "the rule has more than the text");
  assert.equal(ruleIn(DOCUMENT.replace("limit: 50 ", "max_delay: 50 "), ORDERS), null, "other keys");
  assert.equal(ruleIn(`${DOCUMENT}  - rule_id: orders\n`, ORDERS), null, "twice");
  assert.equal(ruleIn("rules: [{rule_id: orders, limit: 50}]", ORDERS), null, "in braces");
  assert.equal(ruleIn("", ORDERS), null);
});

test("ids are found in YAML and JSON, but not in comments", () => {
  assert.deepEqual(idsIn(DOCUMENT), ["orders", "logins"]);
  assert.deepEqual(idsIn('{"rules":[{"rule_id":"a"},{"limit":1,"rule_id": "b.c-d"}]}'), ["a", "b.c-d"]);
  assert.deepEqual(idsIn("# - rule_id: x\n- {rule_id: y, limit: 1}\n"), ["y"]);
});

test("tiers and plans are read as people write them", () => {
  const free = { name: "free", limit: 100, window: "1m", burst: 120, algorithm: "token_bucket" };
  const pro = { name: "pro", limit: 1000, window: "60s", burst: undefined, algorithm: "sliding_window" };
  const plans = [
    { name: "premium", times: 3 },
    { name: "free", times: 1.5 },
  ];
  assert.deepEqual(tiersIn(DOCUMENT), { tiers: [free, pro], plans });
  const oneLine = "tiers: { free: { limit: 100, window: 1m, burst: 120 }, odd: 3 }\nrules: []";
  assert.deepEqual(tiersIn(oneLine), { tiers: [free], plans: [] });
  assert.deepEqual(tiersIn('{"tiers":{"free":{"limit":100,"window":"1m","burst":120}}}').tiers, [free]);
  assert.deepEqual(tiersIn("rules: []"), { tiers: [], plans: [] });
  assert.deepEqual(
    tiersIn("tiers:\n  __proto__: { limit: 1, window: 1s }\n").tiers.map(({ name }) => name),
    ["__proto__"],
  );
});

test("a rule becomes YAML that says the same", () => {
  assert.equal(
    yamlOf({ ...LOGINS, priority: 100, on_store_failure: "deny" }),
    "rule_id: logins\nidentifier_type: ip_address\nlimit: 5\nwindow: 15m\nmatch: { path_pattern: /login }\non_store_failure: deny\n",
  );
  assert.equal(
    yamlOf({ rule_id: "no", description: 'a: "b" #', overrides: [{ identity: ["1", "x y"], limit: 0 }] }),
    'rule_id: "no"\ndescription: "a: \\"b\\" #"\noverrides: [{ identity: ["1", "x y"], limit: 0 }]\n',
  );
});
