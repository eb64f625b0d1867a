//! `POST /v1/check`

use serde_json::json;
use tidegate::Span;
use tidegate_server::{Config, RulesFeed};
use tidegate_wire::HeaderStyle;

use crate::client::{START_MS, config, start, start_with};

const RULES: &str = "
tiers:
  free: {limit: 2, window: 1s}
  premium: {limit: 20, window: 1s}
default_tier: free
rules:
  - {rule_id: orders, description: Orders, identifier_type: user_id, algorithm: fixed_window, limit: 50, window: 60s,
     priority: 10, match: {path_pattern: /orders/*, methods: [GET]}}
  - {rule_id: all, identifier_type: user_id, algorithm: fixed_window, limit: 1000, window: 1h, priority: 20,
     match: {path_pattern: /orders/**}}
  - {rule_id: watch, identifier_type: user_id, algorithm: fixed_window, limit: 1, window: 1h, shadow: true, priority: 5,
     match: {path_pattern: /shadow}}
  - {rule_id: blocked, identifier_type: global, limit: 0, window: 1s, match: {path_pattern: /blocked}}
  - {rule_id: tiered, identifier_type: user_id, tiered: true, match: {path_pattern: /tiered}}
  - {rule_id: mobile, identifier_type: ip_address, algorithm: fixed_window, limit: 3, window: 1m,
     match: {path_pattern: /mobile, required_headers: {X-Client-Type: mobile}}}
";

#[tokio::test]
async fn the_whole_answer() {
    let server = start(RULES).await;
    let answer = server
        .check(r#"{"tenant":"acme","user":"alice","resource":"/orders/7","method":"GET","ip":"203.0.113.7"}"#)
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let expected = json!({
        "allowed": true, "rule_id": "orders", "limit": 50, "remaining": 49, "reset_at": START_MS / 1000 + 60,
        "retry_after": 0, "status": "enforced", "mode": "normal",
        "rules": [
            {"rule_id": "orders", "allowed": true, "limit": 50, "remaining": 49, "reset_after_ms": 60_000,
             "retry_after_ms": 0, "shadow": false},
            {"rule_id": "all", "allowed": true, "limit": 1000, "remaining": 999, "reset_after_ms": 3_600_000,
             "retry_after_ms": 0, "shadow": false},
        ],
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(answer.header("x-ratelimit-limit"), Some("50"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("49"));
    assert_eq!(answer.header("x-ratelimit-reset"), Some("1704067260"));
    for absent in ["retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-status"] {
        assert_eq!(answer.header(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn no_rule_applies() {
    let server = start(RULES).await;
    let answer = server.check(r#"{"resource":"/elsewhere"}"#).await;
    assert_eq!(answer.status, 200);
    let expected = json!({
        "allowed": true, "rule_id": null, "limit": null, "remaining": null, "reset_at": null, "retry_after": 0,
        "status": "enforced", "mode": "normal", "rules": [],
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(answer.header("x-ratelimit-limit"), None);
}

#[tokio::test]
async fn a_refusal_is_an_answer_like_any_other() {
    let server = start(RULES).await;
    let body = r#"{"user":"alice","resource":"/orders/7","method":"GET","cost":30}"#;
    assert_eq!(server.check(body).await.json()["allowed"], true);
    server.clock.advance(Span::from_millis(59_001));
    let answer = server.check(body).await;
    assert_eq!(answer.status, 200);
    let decision = answer.json();
    assert_eq!(decision["allowed"], false);
    assert_eq!(decision["rule_id"], "orders");
    assert_eq!(decision["remaining"], 20);
    assert_eq!(decision["retry_after"], 1);
    assert_eq!(decision["rules"][0]["retry_after_ms"], 999);
    assert_eq!(
        decision["rules"][1]["remaining"], 970,
        "the rule that would have let it pass was not charged"
    );
    assert_eq!(answer.header("retry-after"), Some("1"));
    server.clock.advance(Span::from_millis(999));
    assert_eq!(server.check(body).await.json()["allowed"], true);
}

#[tokio::test]
async fn cost_0_only_looks() {
    let server = start(RULES).await;
    let body = r#"{"user":"alice","resource":"/orders/7","method":"GET","cost":0}"#;
    for _ in 0..3 {
        let decision = server.check(body).await.json();
        assert_eq!((decision["allowed"].as_bool(), decision["remaining"].as_u64()), (Some(true), Some(50)));
    }
}

#[tokio::test]
async fn what_can_never_fit_is_not_told_to_wait() {
    let server = start(RULES).await;
    for body in [
        r#"{"user":"alice","resource":"/orders/7","method":"GET","cost":51}"#,
        r#"{"user":"alice","resource":"/orders/7","method":"GET","cost":18446744073709551615}"#,
        r#"{"resource":"/blocked"}"#,
    ] {
        let answer = server.check(body).await;
        assert_eq!(answer.status, 200, "{body}");
        let decision = answer.json();
        assert_eq!(decision["allowed"], false, "{body}");
        assert!(decision["retry_after"].is_null(), "{body}");
        assert!(decision["rules"][0]["retry_after_ms"].is_null(), "{body}");
        assert_eq!(answer.header("retry-after"), None, "{body}");
    }
    assert_eq!(server.remaining(r#"{"user":"alice","resource":"/orders/7","method":"GET"}"#).await, 50);
}

#[tokio::test]
async fn shadow_rules_report_and_never_refuse() {
    let server = start(RULES).await;
    let body = r#"{"user":"alice","resource":"/shadow"}"#;
    server.check(body).await;
    let decision = server.check(body).await.json();
    assert_eq!(decision["allowed"], true);
    assert_eq!(decision["rule_id"], json!(null));
    assert_eq!(decision["rules"][0]["allowed"], false);
    assert_eq!(decision["rules"][0]["shadow"], true);
}

#[tokio::test]
async fn facts_reach_the_rules() {
    let server = start(RULES).await;
    let limit = async |body: &str| server.check(body).await.json()["limit"].clone();
    assert_eq!(limit(r#"{"user":"alice","resource":"/tiered"}"#).await, 2);
    assert_eq!(limit(r#"{"user":"alice","resource":"/tiered","tier":"premium"}"#).await, 20);
    assert_eq!(limit(r#"{"user":"alice","resource":"/tiered","tier":"nonsense"}"#).await, 2);
    assert_eq!(limit(r#"{"resource":"/mobile","headers":{"x-client-type":"mobile"}}"#).await, 3);
    assert_eq!(limit(r#"{"resource":"/mobile","headers":{"x-client-type":"desktop"}}"#).await, json!(null));
    assert_eq!(limit(r#"{"resource":"//orders/./7?q#f","method":"get","user":"u"}"#).await, 50);
}

#[tokio::test]
async fn a_retry_with_the_same_id_is_free() {
    let server = start(RULES).await;
    let body = r#"{"user":"alice","resource":"/orders/7","method":"GET","request_id":"r-1"}"#;
    assert_eq!(server.check(body).await.json()["remaining"], 49);
    assert_eq!(server.check(body).await.json()["remaining"], 49);
    assert_eq!(server.check(&body.replace("r-1", "r-2")).await.json()["remaining"], 48);
}

#[tokio::test]
async fn the_content_type_does_not_matter() {
    let server = start(RULES).await;
    for content_type in ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"]
    {
        let ask = crate::client::Ask::post("/v1/check", r#"{"resource":"/orders/1"}"#);
        let answer =
            crate::client::send(server.addresses.http, ask.headers(&[("content-type", content_type)])).await;
        assert_eq!(answer.status, 200, "{content_type}");
    }
}

#[tokio::test]
async fn both_styles_of_headers() {
    let config = Config { header_styles: vec![HeaderStyle::XRateLimit, HeaderStyle::Ietf], ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let answer = server.check(r#"{"user":"alice","resource":"/orders/7","method":"GET"}"#).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("49"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""orders";q=50;w=60, "all";q=1000;w=3600"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""orders";r=49;t=60, "all";r=999;t=3600"#));

    let config = Config { header_styles: vec![HeaderStyle::Ietf], ..crate::client::config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let answer = server.check(r#"{"user":"alice","resource":"/orders/7","method":"GET"}"#).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), None);
    assert!(answer.header("ratelimit").is_some());
}
