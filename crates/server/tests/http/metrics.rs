//! `GET /metrics`

use crate::client::{Ask, send, start};

const RULES: &str = "
tiers: {free: {limit: 2, window: 1h}, premium: {limit: 20, window: 1h}}
default_tier: free
rules:
  - {rule_id: tiered, identifier_type: user_id, tiered: true, match: {path_pattern: /tiered}}
  - {rule_id: watch, identifier_type: user_id, limit: 1, window: 1h, shadow: true, match: {path_pattern: /tiered}}
  - {rule_id: unused, identifier_type: user_id, limit: 1, window: 1h, match: {path_pattern: /unused}}
";

fn decisions(rule: &str, tier: &str, outcome: &str) -> String {
    format!("tidegate_decisions_total{{rule=\"{rule}\",tier=\"{tier}\",outcome=\"{outcome}\"}}")
}

#[tokio::test]
async fn every_decision_is_counted_once() {
    let server = start(RULES).await;
    for user in ["a", "b"] {
        for _ in 0..3 {
            server.check(&format!(r#"{{"user":"{user}","resource":"/tiered"}}"#)).await;
        }
    }
    let premium = r#"{"user":"p","tier":"premium","resource":"/tiered"}"#;
    let batch = format!("[{premium},{premium},{{\"usr\":1}},{{\"resource\":\"/none\"}}]");
    send(server.addresses.http, Ask::post("/v1/check/batch", batch)).await;
    server.authorize(&[("x-original-uri", "/tiered"), ("x-user-id", "p")]).await;
    for (rule, tier, outcome, count) in [
        ("tiered", "free", "allowed", Some(5.0)),
        ("tiered", "free", "refused", Some(2.0)),
        ("tiered", "premium", "allowed", Some(2.0)),
        ("tiered", "premium", "refused", Some(0.0)),
        ("watch", "free", "shadow_refused", Some(5.0)),
        ("watch", "premium", "shadow_refused", Some(1.0)),
        ("", "free", "allowed", Some(1.0)),
        ("unused", "free", "allowed", None),
        ("tiered", "free", "failed_open", None),
    ] {
        let series = decisions(rule, tier, outcome);
        assert_eq!(
            server.metric(&series).await,
            count,
            "{series}\n{}",
            server.admin("/metrics").await.text()
        );
    }
    assert_eq!(server.metric("tidegate_decision_seconds_count").await, Some(10.0));
    assert_eq!(server.metric("tidegate_decision_seconds_bucket{le=\"+Inf\"}").await, Some(10.0));
}

#[tokio::test]
async fn the_others_are_there_too() {
    let server = start(RULES).await;
    server.check(r#"{"user":"a","resource":"/tiered"}"#).await;
    let answer = server.admin("/metrics").await;
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"));
    for (series, value) in [
        ("tidegate_operating_mode", 0.0),
        ("tidegate_rules_version", 1.0),
        ("tidegate_rules_load_errors_total", 0.0),
        ("tidegate_keys", 2.0),
        ("tidegate_overflowed_total", 0.0),
        ("tidegate_evicted_keys_total", 0.0),
        ("tidegate_delays_turned_away_total{share=\"address\"}", 0.0),
        (concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
    ] {
        assert_eq!(server.metric(series).await, Some(value), "{series}\n{text}");
    }
    let bounds = text
        .lines()
        .filter_map(|line| line.strip_prefix("tidegate_decision_seconds_bucket{le=\"")?.split('"').next());
    let bounds: Vec<f64> = bounds.map(|bound| bound.parse().unwrap()).collect();
    assert_eq!((bounds[0], bounds[bounds.len() - 2]), (1e-6, 0.1), "from 1 µs to 100 ms");
    assert!(bounds.is_sorted() && bounds.last() == Some(&f64::INFINITY), "{bounds:?}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.starts_with("tidegate_"), "{line}");
    }
}

#[tokio::test]
async fn labels_are_bounded_whatever_clients_send() {
    let server = start(RULES).await;
    let series = async || server.admin("/metrics").await.text().lines().count();
    let ask = async |n: usize| {
        let body = format!(
            r#"{{"user":"user-{n}","tenant":"tenant-{n}","tier":"tier-{n}","ip":"10.0.0.{n}","resource":"/tiered"}}"#
        );
        for _ in 0..3 {
            server.check(&body).await;
        }
    };
    ask(0).await;
    let before = series().await;
    for n in 1..50 {
        ask(n).await;
    }
    assert_eq!(series().await, before);
    let text = server.admin("/metrics").await.text();
    for client in ["user-", "tenant-", "tier-", "10.0.0."] {
        assert!(!text.contains(client), "{text}");
    }
}
