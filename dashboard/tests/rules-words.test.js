import assert from "node:assert/strict";
import { test } from "node:test";

import {
  agoInWords,
  appliedInWords,
  count,
  countedInWords,
  extrasInWords,
  figuresInWords,
  found,
  haystack,
  matchInWords,
  quotaInWords,
  rate,
  shortVersion,
  spanInWords,
  strictness,
  visible,
  windowInWords,
  windowOf,
} from "../rules-words.js";

test("quotas are said in words", () => {
  const rule = { limit: 100, window: "1m", burst: 120, algorithm: "token_bucket" };
  assert.equal(quotaInWords(rule), "100 per minute, burst 120, token bucket");
  assert.equal(
    quotaInWords({ limit: 5, window: "15m", algorithm: "fixed_window" }),
    "5 per 15 minutes, fixed window",
  );
  assert.equal(quotaInWords({ limit: 5, burst: 5, window: "1d" }), "5 per day");
  assert.equal(quotaInWords({ limit: 0, window: "1d", algorithm: "sliding_log" }), "blocked");
  assert.equal(quotaInWords({ base_limit: 10, window: "1s" }), "10 per second, times the plan");
  assert.equal(
    quotaInWords({ limit: 20, hold_for: "1m", algorithm: "in_flight" }),
    "20 at once, each for at most 1 minute",
  );
  assert.equal(
    quotaInWords({ base_limit: 5, hold_for: "90s", algorithm: "in_flight" }),
    "5 at once, each for at most 90 seconds, times the plan",
  );
  assert.equal(strictness({ limit: 20, hold_for: "1m", algorithm: "in_flight" }), Number.POSITIVE_INFINITY);
  assert.equal(quotaInWords({ tiered: true }), "by tier");
  assert.equal(quotaInWords({ unlimited: true }), "no limit");
  assert.equal(figuresInWords({ limit: 1, window: "odd", algorithm: "new_one" }), "1 per odd, new_one");
});

test("what applies to a request is said with its window", () => {
  const said = { limit: 10, window_ms: 1000, capacity: 40, algorithm: "token_bucket" };
  const figures = "10 per second, burst 40, token bucket";
  assert.equal(appliedInWords(said, { tiered: true }), `${figures}: this request's tier`);
  assert.equal(appliedInWords(said, { base_limit: 5 }), `${figures}: this request's plan`);
  assert.equal(appliedInWords(said, { limit: 10, window: "1s" }), figures);
  assert.equal(appliedInWords(said, { limit: 2, window: "1m" }), `${figures} for this one; 2 per minute otherwise`);
  const inFlight = { limit: 20, window_ms: 60000, capacity: 20, algorithm: "in_flight" };
  assert.equal(
    appliedInWords(inFlight, { tiered: true }),
    "20 at once, each for at most 1 minute: this request's tier",
  );
  assert.equal(appliedInWords(said, undefined), figures, "a rule that is not known here");
  assert.equal(appliedInWords({ ...said, limit: 0, capacity: 0 }, { tiered: true }), "blocked: this request's tier");
});

test("windows and spans are said in words", () => {
  assert.deepEqual([1, 1500, 1000, 90000, 3600000, 172800000, 604800000].map(windowOf), ["1ms", "1500ms", "1s", "90s", "1h", "2d", "1w"]);
  assert.equal(windowInWords("1w"), "week");
  assert.equal(windowInWords("1500ms"), "1,500 milliseconds");
  assert.equal(windowInWords(undefined), "?");
  assert.equal(spanInWords(0), "0 ms");
  assert.equal(spanInWords(1001), "2 s");
  assert.equal(spanInWords(15 * 60e3), "15 min");
  assert.equal(spanInWords(3 * 86400e3), "3 days");
});

test("whom a rule counts and what it is about", () => {
  assert.equal(countedInWords({ identifier_type: "user_id" }), "each user");
  assert.equal(
    countedInWords({ identifier_type: ["tenant_id", "header:x-team"] }),
    "each tenant and header x-team",
  );
  assert.equal(countedInWords({ identifier_type: "global" }), "all together");
  assert.equal(matchInWords({}), "every request");
  const match = {
    methods: ["GET", "POST"],
    path_pattern: "/a/*",
    requires_authentication: true,
    ip_subnet: "10.0.0.0/8",
    required_headers: { a: "*", b: "x" },
  };
  assert.equal(
    matchInWords({ match }),
    "GET, POST /a/*, signed in, with header a, header b: x, from 10.0.0.0/8",
  );
  assert.equal(matchInWords({ match: { methods: "PUT" } }), "PUT any path");
  const descriptor = { domain: "mail", entries: [{ key: "kind", value: "ad" }, { key: "to" }] };
  assert.equal(matchInWords({ descriptor }), "descriptor mail: kind=ad, to=*");
  assert.equal(
    extrasInWords({ overrides: [{}], cost: { header: "x-cost" }, charge: {} }),
    "1 override, takes what header x-cost says, charged by the answer",
  );
});

test("a search has to find all its words", () => {
  const hay = haystack(
    { rule_id: "Orders", identifier_type: "user_id", limit: 7, window: "1h", shadow: true },
    "main.yaml",
  );
  assert.ok(found(hay, "ORD shadow"));
  assert.ok(found(hay, " per  hour "));
  assert.ok(found(hay, "main.yaml"));
  assert.ok(found(hay, ""));
  assert.ok(!found(hay, "orders enforce"));
});

test("numbers are short", () => {
  assert.equal(rate(0), "0");
  assert.equal(rate(Number.NaN), "0");
  assert.equal(rate(0.01), "<0.1");
  assert.equal(rate(2), "2");
  assert.equal(rate(2.34), "2.3");
  assert.equal(rate(9999), "9,999");
  assert.equal(rate(14200), "14.2k");
  assert.equal(rate(3.4e6), "3.4M");
  assert.equal(count(undefined), "?");
  assert.equal(shortVersion(42), "42");
  assert.equal(shortVersion(7572098594437938), "…437938");
  assert.ok(strictness({ limit: 60, window: "1m" }) < strictness({ limit: 2, window: "1s" }));
  assert.equal(strictness({ tiered: true }), Number.POSITIVE_INFINITY);
  assert.equal(agoInWords("2026-01-01T00:00:00Z", Date.parse("2026-01-01T02:10:00Z")), "2 hours ago");
});

test("what cannot be seen is made visible, and all else stays", () => {
  assert.equal(visible("a\u202eb\u200bc\u0007"), "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0007⟩");
  assert.equal(visible("tab\tline\nא مرحبا 😀"), "tab\tline\nא مرحبا 😀");
  assert.equal(visible(undefined), "");
});
