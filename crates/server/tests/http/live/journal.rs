//! What is noted down, and how a store looks live.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::core::Span;
use tidegate_redis::RedisStore;
use tidegate_server::{AlertSettings, Config, RulesFeed, SharedStore, Thresholds};
use tidegate_sources::FileSource;
use tidegate_testkit::Redis;

use super::stream::Stream;
use crate::client::{Ask, Connection, DEADLINE, Running, config, eventually, start_with};

fn rules(limit: u64) -> String {
    format!("rules:\n  - {{rule_id: each, identifier_type: user_id, limit: {limit}, window: 52w}}\n")
}

const ALICE: &str = r#"{"user":"alice","resource":"/"}"#;

/// The newest entry with that title, once there is one: at first all are told, then all again with each that is new.
pub(crate) async fn entry(server: &Running, title: &str) -> Value {
    let mut events = Stream::open(server.addresses.admin).await;
    let find = |journal: &Value| {
        let entries = journal["entries"].as_array().unwrap();
        entries.iter().find(|entry| entry["title"] == title).cloned()
    };
    let journal = events.until("journal", |journal| find(journal).is_some()).await;
    find(&journal).unwrap()
}

#[tokio::test]
async fn rules_that_come_and_rules_that_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules(5)).unwrap();
    let server = start_with(config(), RulesFeed::watch(FileSource::new(&path))).await;
    let mut events = Stream::open(server.addresses.admin).await;
    events.until("journal", |_| true).await;
    std::fs::write(&path, rules(6)).unwrap();
    let changed = entry(&server, "other rules in force").await;
    assert_eq!((&changed["kind"], &changed["severity"]), (&json!("rules"), &json!("info")));
    assert_eq!(changed["detail"], "version 2, 1 rules");
    std::fs::write(&path, "rules: [{rule_id: each, limt: 1}]\n").unwrap();
    let refused = entry(&server, "new rules refused").await;
    assert_eq!((&refused["kind"], &refused["severity"]), (&json!("rules"), &json!("warning")));
    assert!(refused["detail"].as_str().unwrap().contains("limt"), "{refused}");
    events.until("tick", |tick| tick["state"]["mode"] == "degraded").await;
}

#[tokio::test]
async fn hot_keys_with_names_that_clients_chose() {
    let hot_key_rate = NonZeroU32::new(50).unwrap();
    let feed = RulesFeed::fixed("rules.yaml", rules(100_000));
    let server = start_with(Config { hot_key_rate, ..config() }, feed).await;
    let mut events = Stream::open(server.addresses.admin).await;
    let mut connection = Connection::open(server.addresses.http).await;
    let long = json!({"user": "x".repeat(5_000), "resource": "/"}).to_string();
    for _ in 0..40 {
        connection.send(Ask::post("/v1/check", &long)).await;
    }
    server.clock.advance(Span::from_millis(500));
    let hot = entry(&server, "hot key").await;
    assert_eq!((&hot["kind"], &hot["severity"]), (&json!("hot_key"), &json!("warning")));
    let detail = hot["detail"].as_str().unwrap();
    assert!(detail.starts_with("xxx") && detail.len() <= 512, "{detail}");
    let tick = events.until("tick", |tick| tick["state"]["hot_keys"][0]["hot"] == true).await;
    assert!(tick["state"]["hot_keys"][0]["identity"].as_str().unwrap().len() <= 256);
}

/// A node on a real store that notices soon what happens to it.
async fn on(redis: &Redis) -> Running {
    let store = RedisStore::builder(redis.url().parse().unwrap()).timeout(DEADLINE).start().unwrap();
    let moment = Duration::from_millis(100);
    let thresholds = Thresholds { degraded_after: moment, normal_after: 3 * moment, alone_after: DEADLINE };
    let alerts = AlertSettings {
        every: moment / 4,
        store_down_for: moment,
        resolves_after: moment,
        ..AlertSettings::default()
    };
    let store = Some(SharedStore::new("redis", Arc::new(store)));
    let config = Config { store, store_timeout: DEADLINE, thresholds, alerts, ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", rules(1_000))).await;
    eventually("the store decides", async || server.explain(ALICE).await.json()["status"] == "enforced")
        .await;
    eventually("normal", async || server.admin("/health").await.json()["status"] == "normal").await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_goes_and_comes_back() {
    let redis = Redis::start();
    let server = on(&redis).await;
    let name = redis.address().to_string();
    let mut events = Stream::open(server.addresses.admin).await;
    events.until("journal", |_| true).await;
    server.check(ALICE).await;
    let tick = events.until("tick", |tick| tick["point"]["shards"][0]["calls"].as_f64() > Some(0.0)).await;
    let (busy, state) = (&tick["point"]["shards"][0], &tick["state"]["store"]);
    assert_eq!(busy["name"], *name);
    assert!(
        busy["operations"].as_f64() > Some(0.0) && busy["p50"].is_f64() && busy["p99"].is_f64(),
        "{busy}"
    );
    assert_eq!((&state["kind"], &state["shards"][0]["name"]), (&json!("redis"), &json!(name)));
    assert_eq!(
        (&state["shards"][0]["breaker"], &state["shards"][0]["problem"]),
        (&json!("closed"), &Value::Null)
    );

    redis.kill();
    let failed = entry(&server, "store failed").await;
    assert_eq!((&failed["kind"], &failed["severity"]), (&json!("store"), &json!("critical")));
    assert!(failed["detail"].as_str().unwrap().contains(&name), "{failed}");
    let mode = entry(&server, "degraded, normal before").await;
    assert_eq!((&mode["kind"], &mode["severity"]), (&json!("mode"), &json!("warning")));
    let alert = entry(&server, "alert store_down").await;
    assert_eq!((&alert["kind"], &alert["severity"]), (&json!("alert"), &json!("critical")));
    assert!(alert["runbook"].as_str().unwrap().ends_with("#store_down"), "{alert}");
    let tick = events.until("tick", |tick| tick["state"]["alerts"][0]["alert"] == "store_down").await;
    assert!(tick["state"]["store"]["shards"][0]["problem"].is_string(), "{tick}");
    assert!(tick["state"]["reasons"][0].is_string(), "{tick}");

    server.check(ALICE).await;
    events.until("tick", |tick| tick["state"]["fallback_total"].as_u64() > Some(0)).await;
    redis.restart();
    entry(&server, "store usable again").await;
    entry(&server, "alert store_down is over").await;
    events.until("tick", |tick| tick["state"]["mode"] == "normal").await;
}
