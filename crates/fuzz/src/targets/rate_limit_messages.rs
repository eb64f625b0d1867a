//! Messages of Envoy's rate limit protocol and checks, as anybody may send them to the decision service.

use std::sync::LazyLock;

use bytes::Bytes;
use tidegate::Limiter;
use tidegate_rules::{Source, load};
use tidegate_wire::CheckBody;
use tidegate_wire::grpc::rate_limit::RateLimitAsked;
use tidegate_wire::grpc::rate_limit_json::RateLimitJson;

const RULES: &str = "
domain: edge
descriptors:
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 10}
    descriptors:
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: tenant, value: acme, rate_limit: {unlimited: true}}
---
rules:
  - {rule_id: bucket, identifier_type: user_id, algorithm: token_bucket, limit: 100, burst: 200, window: 1s}
  - {rule_id: window, identifier_type: [tenant_id, path], limit: 10, window: 1h}
  - {rule_id: header, identifier_type: 'header:x-key', limit: 10, window: 1m, match: {path_pattern: '/a/{id}/**'}}
";

static LIMITER: LazyLock<Limiter> = LazyLock::new(|| {
    let rules = load(&[Source { name: "rules.yaml", text: RULES }], 1);
    let limiter =
        Limiter::builder(rules.unwrap_or_else(|problems| panic!("{problems}"))).max_keys(10_000).build();
    limiter.unwrap_or_else(|error| panic!("{error}"))
});

/// What can be read is decided, and the figures of a decision hold together.
pub(crate) fn run(bytes: &[u8]) {
    if let Ok(asked) = RateLimitAsked::read(Bytes::copy_from_slice(bytes)) {
        asked.asked().ok();
    }
    if let Ok(asked) = RateLimitJson::parse(bytes) {
        asked.asked().ok();
    }
    let Ok(body) = CheckBody::parse(bytes) else { return };
    let Ok(checked) = LIMITER.try_check(&body.request()) else { return };
    for verdict in checked.verdicts.iter().map(|of| of.verdict) {
        assert!(verdict.remaining <= verdict.quota.capacity(), "{verdict:?}");
    }
}
