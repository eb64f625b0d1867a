//! Nodes that share a store, which may be away.

mod away;
mod metrics;
mod modes;
mod together;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_redis::RedisStore;
use tidegate_server::{Config, RulesFeed, SharedStore, Thresholds};
use tidegate_testkit::Redis;

use crate::client::{DEADLINE, Running, config, eventually, start_with};

/// By the store's clock, so that a window must be too long to end during a test.
const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 10, window: 52w, on_store_failure: allow,
     match: {path_pattern: /open}}
  - {rule_id: strict, identifier_type: user_id, algorithm: fixed_window, limit: 10, window: 52w, on_store_failure: deny,
     match: {path_pattern: /closed}}
  - {rule_id: local, identifier_type: user_id, algorithm: fixed_window, limit: 10, window: 52w,
     match: {path_pattern: /local}}
";

const OPEN: &str = r#"{"resource":"/open","user":"alice"}"#;
const LOCAL: &str = r#"{"resource":"/local","user":"alice"}"#;
const CLOSED: &str = r#"{"resource":"/closed","user":"alice"}"#;

/// Tests do not wait for seconds that people should.
const SOON: Thresholds = Thresholds {
    degraded_after: Duration::from_millis(150),
    normal_after: Duration::from_millis(300),
    alone_after: Duration::from_millis(600),
};

/// A server on this store is to wait so long that nothing is late on a busy machine.
fn on(redis: &Redis) -> Config {
    let url = redis.url().parse().unwrap();
    let store = RedisStore::builder(url).timeout(DEADLINE).start().unwrap();
    let store = Some(SharedStore::new("redis", Arc::new(store)));
    Config { store, store_timeout: DEADLINE, thresholds: SOON, ..config() }
}

async fn start_on(redis: &Redis) -> Running {
    start_with(on(redis), RulesFeed::fixed("rules.yaml", RULES)).await
}

/// A server on this store that has found it.
async fn connected_to(redis: &Redis) -> Running {
    let server = start_on(redis).await;
    usable(&server).await;
    server
}

/// Waits until the store decides, without deciding anything.
async fn usable(server: &Running) {
    eventually("the store answers", async || server.explain(OPEN).await.json()["status"] == "enforced").await;
    eventually("normal", async || health(server).await["status"] == "normal").await;
}

async fn health(server: &Running) -> Value {
    server.admin("/health").await.json()
}

async fn is_degraded(server: &Running, because: &str) {
    eventually("degraded", async || health(server).await["status"] == "degraded").await;
    let health = health(server).await;
    assert!(health["reasons"].to_string().contains(because), "{health}");
    assert_eq!(server.admin("/readyz").await.status, 200, "it can still decide");
    assert_eq!(server.metric("tidegate_operating_mode").await, Some(1.0));
}

/// The name of a metric about the only shard.
fn series(name: &str, redis: &Redis, labels: &str) -> String {
    format!(r#"tidegate_{name}{{shard="{}"{labels}}}"#, redis.address())
}
