//! What answers carry besides verdicts, and where else they are given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prost_types::Value;
use prost_types::value::Kind;
use serde_json::json;
use tidegate::Span;
use tidegate_redis::RedisStore;
use tidegate_server::{Config, RlsExtras, SharedStore};
use tidegate_testkit::Redis;
use tidegate_wire::HeaderStyle;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::RateLimitResponse;
use tidegate_wire::grpc::protobuf::tidegate::v1;
use tonic::Code;

use super::client::{ask, told};
use super::serve;
use crate::client::{Ask, config, send};

const RULES: &str = "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: open, rate_limit: {unlimited: true}}
";

fn headers(response: &RateLimitResponse) -> BTreeMap<&str, &str> {
    response.response_headers_to_add.iter().map(|header| (&*header.key, &*header.value)).collect()
}

fn metadata(response: &RateLimitResponse, name: &str) -> Vec<String> {
    let text = |value: &Value| match &value.kind {
        Some(Kind::StringValue(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    match response.dynamic_metadata.as_ref().and_then(|fields| fields.fields.get(name)) {
        Some(Value { kind: Some(Kind::ListValue(list)) }) => list.values.iter().map(text).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn seconds_until_reset_are_rounded_up() {
    let (server, client) = serve(config(), RULES).await;
    server.clock.advance(Span::from_millis(14_001));
    let answer = client.ask(ask("d", 0, &["a=1", "none=1"])).await.unwrap();
    let reset = answer.statuses[0].duration_until_reset.unwrap();
    assert_eq!((reset.seconds, reset.nanos), (46, 0));
    assert_eq!(answer.statuses[1].duration_until_reset, None);
}

#[tokio::test]
async fn refusals_have_a_body_and_say_when_to_retry() {
    let (_server, client) = serve(config(), RULES).await;
    let first = client.ask(ask("d", 2, &["a=1"])).await.unwrap();
    assert_eq!((headers(&first), first.raw_body.as_slice()), (BTreeMap::new(), &[][..]));
    let refused = client.ask(ask("d", 0, &["a=1"])).await.unwrap();
    let wanted = BTreeMap::from([("content-type", "application/json"), ("retry-after", "60")]);
    assert_eq!(headers(&refused), wanted);
    let body: serde_json::Value = serde_json::from_slice(&refused.raw_body).unwrap();
    assert_eq!(body["error"], "rate_limit_exceeded");
    assert_eq!(body["message"], "You have made 3 requests. Limit is 2 per minute.");
    assert_eq!(body["retry_after"], 60);
}

#[tokio::test]
async fn headers_can_be_had_and_the_rest_can_be_left_out() {
    let rls_extras = RlsExtras { headers: true, body: false, metadata: false };
    let header_styles = vec![HeaderStyle::XRateLimit, HeaderStyle::Ietf];
    let (_server, client) = serve(Config { rls_extras, header_styles, ..config() }, RULES).await;
    let answer = client.ask(ask("d", 0, &["a=1"])).await.unwrap();
    let told = headers(&answer);
    assert_eq!((told["x-ratelimit-limit"], told["x-ratelimit-remaining"]), ("2", "1"));
    assert_eq!(told["ratelimit-policy"], "\"d.a\";q=2;w=60");
    assert_eq!(answer.dynamic_metadata, None);
    let refused = client.ask(ask("d", 9, &["a=1"])).await.unwrap();
    assert!(refused.raw_body.is_empty());
}

#[tokio::test]
async fn metadata_has_the_ids_of_the_rules() {
    let (_server, client) = serve(config(), RULES).await;
    let answer = client.ask(ask("d", 0, &["a=1", "none=1", "q=1", "s=1", "open=1"])).await.unwrap();
    assert_eq!(metadata(&answer, "rules"), ["d.a", "d.q", "d.s", "d.open"]);
    assert_eq!(metadata(&answer, "exceeded"), ["d.q", "d.s"]);
    let nothing = client.ask(ask("d", 0, &["none=1"])).await.unwrap();
    assert_eq!(nothing.dynamic_metadata, None);
}

#[tokio::test]
async fn everything_is_counted() {
    let rules = format!(
        "{RULES}
  - {{key: detailed, detailed_metric: true, rate_limit: {{unit: minute, requests_per_unit: 1}}}}
  - key: outer
    value_to_metric: true
    descriptors:
      - {{key: inner, rate_limit: {{unit: minute, requests_per_unit: 1}}}}
"
    );
    let (server, client) = serve(config(), &rules).await;
    for descriptors in [
        &["a=1", "s=1"][..],
        &["a=1 @1/MINUTE"],
        &["a=1", "detailed=x"],
        &["detailed=x"],
        &["outer=o, inner=i"],
        &["none=1"],
    ] {
        client.ask(ask("d", 0, descriptors)).await.unwrap();
    }
    client.ask(ask("elsewhere", 0, &["a=1"])).await.unwrap();
    let metric =
        async |name: &str, labels: &str| server.metric(&format!("tidegate_{name}{{{labels}}}")).await;
    let decisions = async |rule: &str, outcome: &str| {
        metric("decisions_total", &format!(r#"rule="{rule}",tier="other",outcome="{outcome}""#)).await
    };
    assert_eq!(decisions("d.a", "allowed").await, Some(2.0));
    assert_eq!(decisions("d.s", "shadow_refused").await, Some(1.0));
    assert_eq!(decisions("d.override", "allowed").await, Some(1.0));
    assert_eq!(decisions("d.detailed", "refused").await, Some(1.0));
    assert_eq!(decisions("", "allowed").await, Some(2.0), "no rule, and no such domain");
    let descriptors = async |rule: &str, text: &str, outcome: &str| {
        metric("descriptors_total", &format!(r#"rule="{rule}",descriptor="{text}",outcome="{outcome}""#))
            .await
    };
    assert_eq!(descriptors("d.detailed", "detailed_x", "ok").await, Some(1.0));
    assert_eq!(descriptors("d.detailed", "detailed_x", "over_limit").await, Some(1.0));
    assert_eq!(descriptors("d.outer.inner", "outer_o.inner", "ok").await, Some(1.0));
}

#[tokio::test]
async fn giving_back_needs_permission() {
    let server = crate::client::start(RULES).await;
    let client = super::Client::connect(server.addresses.grpc).await;
    let status = client.ask(ask("d", 0, &["a=1", "a=2 -1"])).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains("--credits allow"), "{status}");
    let answer = client.ask(ask("d", 0, &["a=1 +0"])).await.unwrap();
    assert_eq!(told(&answer).1, ["OK 2 of 2 per MINUTE"], "nothing was taken");
}

#[tokio::test]
async fn the_same_over_json() {
    let (server, _client) = serve(config(), RULES).await;
    let post = async |body: &str| {
        let answer = send(server.addresses.http, Ask::post("/json", body)).await;
        (answer.status.as_u16(), answer.json())
    };
    let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}]}]}"#;
    let limit = json!({"requestsPerUnit": 2, "unit": "MINUTE"});
    let wanted = json!({"overallCode": "OK", "statuses": [
        {"code": "OK", "currentLimit": limit, "limitRemaining": 1, "durationUntilReset": "60s"}]});
    assert_eq!(post(body).await, (200, wanted));
    let more = r#"{"domain":"d","hitsAddend":"2","descriptors":[{"entries":[{"key":"a","value":"1"}],
        "limit":{"requestsPerUnit":1,"unit":"HOUR"}},{"entries":[{"key":"b"}]}]}"#;
    let limit = json!({"requestsPerUnit": 1, "unit": "HOUR"});
    let wanted = json!({"overallCode": "OVER_LIMIT", "statuses": [
        {"code": "OVER_LIMIT", "currentLimit": limit, "limitRemaining": 1, "durationUntilReset": "0s"},
        {"code": "OK"}]});
    assert_eq!(post(more).await, (429, wanted));
    for (bad, text) in [
        ("", "EOF"),
        ("{}", "domain"),
        (r#"{"domain":"d"}"#, "no descriptors"),
        (r#"{"domain":"d","descriptors":[{"entries":[{"key":""}]}]}"#, "no key"),
        (r#"{"domain":"d","nonsense":1,"descriptors":[]}"#, "nonsense"),
        (r#"{"domain":"d","hits_addend":-1,"descriptors":[]}"#, "whole number"),
        (r#"{"domain":"d","hits_addend":4294967296,"descriptors":[]}"#, "4294967295"),
        (r#"{"domain":"d","descriptors":[{"entries":[{"key":"a"}],"limit":{"unit":"EON"}}]}"#, "EON"),
        (r#"{"domain":"d","descriptors":[{"entries":[{"key":"a"}],"limit":{"unit":0}}]}"#, "unit"),
    ] {
        let (status, answer) = post(bad).await;
        assert_eq!(status, 400, "{bad}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{bad}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_store_is_away_the_rules_decide() {
    let redis = Redis::start();
    let store = RedisStore::builder(redis.url().parse().unwrap()).start().unwrap();
    let shared = SharedStore::new("redis", Arc::new(store));
    let config = Config { store: Some(shared), store_timeout: Duration::from_millis(50), ..config() };
    let rules = "
domain: d
descriptors:
  - {key: open, on_store_failure: allow, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: closed, on_store_failure: deny, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: shadow, on_store_failure: deny, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 5}}
";
    let (server, client) = serve(config, rules).await;
    redis.pause();
    let open = client.ask(ask("d", 0, &["open=1", "shadow=1"])).await.unwrap();
    assert_eq!(told(&open), ("OK", vec!["OK".to_owned(), "OK".to_owned()]));
    assert_eq!(headers(&open), BTreeMap::from([("x-ratelimit-status", "disabled")]));
    let closed = client.ask(ask("d", 0, &["open=1", "closed=1"])).await.unwrap_err();
    assert_eq!(closed.code(), Code::Unavailable, "so that the proxy's own failure mode decides");
    let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"closed"}]}]}"#;
    assert_eq!(send(server.addresses.http, Ask::post("/json", body)).await.status, 500);
    redis.resume();
}

#[tokio::test]
async fn the_check_api_in_protobuf() {
    let rules =
        "rules: [{rule_id: each, identifier_type: user_id, limit: 2, window: 1m, algorithm: fixed_window}]";
    let (_server, client) = serve(config(), rules).await;
    let alice = v1::CheckRequest {
        resource: "/orders/7".to_owned(),
        user: Some("alice".to_owned()),
        headers: BTreeMap::from([("x-a".to_owned(), "b".to_owned())]),
        ..v1::CheckRequest::default()
    };
    let check = async |request: v1::CheckRequest| {
        client.call::<_, v1::CheckResponse>("/tidegate.v1.Limiter/Check", request).await
    };
    let first = check(alice.clone()).await.unwrap();
    assert!(first.allowed);
    assert_eq!((first.rule_id.as_deref(), first.limit, first.remaining), (Some("each"), Some(2), Some(1)));
    assert_eq!((first.status(), first.mode()), (v1::Status::Enforced, v1::Mode::Normal));
    assert_eq!((first.retry_after, first.rules.len()), (Some(0), 1));
    let look = check(v1::CheckRequest { cost: Some(0), ..alice.clone() }).await.unwrap();
    assert_eq!(look.remaining, Some(1));
    let refused = check(v1::CheckRequest { cost: Some(2), ..alice.clone() }).await.unwrap();
    assert_eq!((refused.allowed, refused.retry_after), (false, Some(60)));
    let never = check(v1::CheckRequest { cost: Some(3), ..alice.clone() }).await.unwrap();
    assert_eq!((never.allowed, never.retry_after, never.rules[0].retry_after_ms), (false, None, None));
    let nobody = check(v1::CheckRequest::default()).await.unwrap_err();
    assert_eq!(nobody.code(), Code::InvalidArgument);
    let address = check(v1::CheckRequest { ip: Some("x".to_owned()), ..alice.clone() }).await.unwrap_err();
    assert!(address.message().contains("ip"), "{address}");

    let bad = v1::CheckRequest { ip: Some("x".to_owned()), ..alice.clone() };
    let requests = vec![alice.clone(), bad, alice.clone()];
    let batch: v1::CheckBatchResponse =
        client.call("/tidegate.v1.Limiter/CheckBatch", v1::CheckBatchRequest { requests }).await.unwrap();
    let said: Vec<_> = batch
        .items
        .into_iter()
        .map(|item| match item.result.unwrap() {
            v1::check_batch_item::Result::Decision(decision) => decision.allowed.to_string(),
            v1::check_batch_item::Result::Error(error) => error.field.unwrap(),
        })
        .collect();
    assert_eq!(said, ["true", "ip", "false"]);
    let requests = vec![alice; 1_001];
    let many: Result<v1::CheckBatchResponse, _> =
        client.call("/tidegate.v1.Limiter/CheckBatch", v1::CheckBatchRequest { requests }).await;
    assert_eq!(many.unwrap_err().code(), Code::InvalidArgument);
}
