//! `GET /v1/insight`

use std::num::NonZeroU32;

use serde_json::{Value, json};
use tidegate::core::Span;
use tidegate_server::{Config, RulesFeed, Server};

use crate::client::{Ask, Connection, Running, config, eventually, send, start, start_with};

const RULES: &str = "
tiers: {free: {limit: 2, window: 1h}, premium: {limit: 20, window: 1h}}
default_tier: free
rules:
  - {rule_id: tiered, identifier_type: user_id, tiered: true, match: {path_pattern: /tiered}}
  - {rule_id: keys, identifier_type: api_key, limit: 1, window: 1h, match: {path_pattern: /keys}}
  - {rule_id: free_for_all, identifier_type: user_id, limit: 1000000, window: 1h, match: {path_pattern: /open}}
  - {rule_id: described, limit: 1, window: 1h, descriptor: {domain: edge, entries: [{key: a}]}}
";

async fn insight(server: &Running) -> Value {
    let answer = server.admin("/v1/insight").await;
    assert_eq!(answer.status, 200);
    answer.json()
}

#[tokio::test]
async fn nothing_has_its_shape() {
    let server = start(RULES).await;
    let none =
        json!({"users": [], "addresses": [], "tenants": [], "descriptors": [], "rules": [], "tiers": []});
    let expected = json!({
        "hot_keys": [], "not_counted": 0,
        "refusals": {"5m": none, "1h": none, "24h": none, "by_hour": vec![0; 24]},
    });
    assert_eq!(insight(&server).await, expected);
}

#[tokio::test]
async fn whoever_is_refused_appears_with_how_often() {
    let server = start(RULES).await;
    let alice = r#"{"tenant":"acme","user":"alice","resource":"/tiered","ip":"2001:db8:1:2:3::4"}"#;
    let batch = format!("[{}]", [alice; 5].join(","));
    send(server.addresses.http, Ask::post("/v1/check/batch", batch)).await;
    server.check(alice).await;
    for _ in 0..3 {
        server.authorize(&[("x-original-uri", "/tiered"), ("x-user-id", "bob")]).await;
    }
    let refused = |name: &str, count: u64| json!({"name": name, "count": count, "error": 0});
    let body = insight(&server).await;
    for period in ["5m", "1h", "24h"] {
        let seen = &body["refusals"][period];
        assert_eq!(seen["users"], json!([refused("acme/alice", 4), refused("bob", 1)]));
        assert_eq!(seen["tenants"], json!([refused("acme", 4)]));
        assert_eq!(seen["rules"], json!([refused("tiered", 5)]));
        assert_eq!(seen["tiers"], json!([refused("free", 5)]));
        assert_eq!(seen["addresses"][0], refused("2001:db8:1:2::/64", 4));
        assert!(seen.get("countries").is_none(), "nothing is known of them");
    }
    assert_eq!(body["refusals"]["by_hour"][0], 5, "it is midnight");
    server.clock.advance(Span::from_secs(2 * 3600));
    let body = insight(&server).await;
    assert_eq!(body["refusals"]["1h"]["users"], json!([]));
    assert_eq!(body["refusals"]["24h"]["users"][0], refused("acme/alice", 4));
}

#[tokio::test]
async fn names_are_bounded_and_keys_secret() {
    let server = start(RULES).await;
    let long = "x".repeat(10 * 1024);
    for user in [&*long, "<script>alert(1)</script>"] {
        for _ in 0..3 {
            let body = json!({"user": user, "tenant": user, "resource": "/tiered", "tier": user});
            server.check(&body.to_string()).await;
            server.check(&json!({"api_key": "hunter2", "resource": "/keys"}).to_string()).await;
        }
    }
    let answer = server.admin("/v1/insight").await;
    assert_eq!(answer.header("content-type"), Some("application/json"), "which no browser runs");
    assert!(!answer.text().contains("hunter2"));
    let users = answer.json()["refusals"]["5m"]["users"].clone();
    let names: Vec<_> = users.as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.len() <= 256), "{names:?}");
    let metrics = server.admin("/metrics").await.text();
    assert!(!metrics.contains("<script") && !metrics.contains("xxx"), "names are no labels");
}

#[tokio::test]
async fn a_hammered_key_becomes_hot_and_cools_down() {
    let hot_key_rate = NonZeroU32::new(50).unwrap();
    let server = start_with(Config { hot_key_rate, ..config() }, RulesFeed::fixed("rules.yaml", RULES)).await;
    let mut connection = Connection::open(server.addresses.http).await;
    let hammer = Ask::post("/v1/check", r#"{"user":"alice","resource":"/open"}"#);
    for _ in 0..40 {
        connection.send(hammer.clone()).await;
    }
    connection.send(Ask::post("/v1/check", r#"{"user":"bob","resource":"/open"}"#)).await;
    assert_eq!(server.metric("tidegate_hot_keys").await, Some(0.0));
    server.clock.advance(Span::from_millis(500));
    eventually("it is hot", async || server.metric("tidegate_hot_keys").await == Some(1.0)).await;
    let expected = json!([{
        "rule": "free_for_all", "identity": "alice", "rate_per_second": 80, "since": "2024-01-01T00:00:00Z", "hot": true,
    }]);
    assert_eq!(insight(&server).await["hot_keys"], expected);
    eventually("it is cool", async || {
        server.clock.advance(Span::from_millis(500));
        server.metric("tidegate_hot_keys").await == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn requests_that_a_proxy_describes_are_seen_too() {
    let server = start(RULES).await;
    let body = |value: &str| {
        let entry = |key: &str, value: &str| json!({"entries": [{"key": key, "value": value}]});
        let descriptors = json!([entry("remote_address", "203.0.113.7"), entry("a", value)]);
        json!({"domain": "edge", "descriptors": descriptors}).to_string()
    };
    let mut statuses = Vec::new();
    for value in ["b", "b", "c", "b", "<script>"] {
        statuses.push(send(server.addresses.http, Ask::post("/json", body(value))).await.status.as_u16());
    }
    assert_eq!(statuses, [200, 429, 200, 429, 200]);
    let seen = insight(&server).await["refusals"]["1h"].clone();
    let twice = |name: &str| json!([{"name": name, "count": 2, "error": 0}]);
    assert_eq!(seen["descriptors"], twice("a=b"));
    assert_eq!(seen["rules"], twice("described"));
    assert_eq!(seen["addresses"], twice("203.0.113.7"));
    assert_eq!(seen["users"], json!([]));
    server.clock.advance(Span::from_millis(500));
    let busiest = async || insight(&server).await["hot_keys"].clone();
    eventually("keys are seen", async || busiest().await != json!([])).await;
    let expected =
        json!([{"rule": "described", "identity": "a=b", "rate_per_second": 6, "since": null, "hot": false}]);
    assert_eq!(busiest().await, expected);
}

#[tokio::test]
async fn a_file_of_countries_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("countries.mmdb");
    std::fs::write(&file, "no such thing").unwrap();
    let config = Config { geoip: Some(file), ..config() };
    let error = Server::bind(config, RulesFeed::fixed("rules.yaml", RULES)).await.unwrap_err();
    assert!(error.to_string().contains("countries.mmdb"), "{error}");
}
