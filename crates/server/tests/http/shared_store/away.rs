//! A store that is away, or hangs, and comes back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_redis::RedisStore;
use tidegate_server::{Config, RulesFeed, SharedStore};
use tidegate_testkit::Redis;

use super::{CLOSED, OPEN, RULES, connected_to, health, is_degraded, series, start_on, usable};
use crate::client::{Ask, config, send, start_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_the_rules_decide() {
    let redis = Redis::start();
    let server = connected_to(&redis).await;
    let since = health(&server).await["since"].clone();
    server.clock.advance(tidegate::Span::from_secs(60));
    redis.kill();
    is_degraded(&server, &redis.address().to_string()).await;
    assert_ne!(health(&server).await["since"], since);

    let open = server.check(OPEN).await;
    assert_eq!((open.status.as_u16(), open.header("x-ratelimit-status")), (200, Some("disabled")));
    let expected = json!({
        "allowed": true, "rule_id": "each", "limit": null, "remaining": null, "reset_at": null, "retry_after": 0,
        "status": "disabled", "mode": "degraded", "rules": [],
    });
    assert_eq!(open.json(), expected);
    let closed = server.check(CLOSED).await;
    assert_eq!((closed.status.as_u16(), closed.header("retry-after")), (503, Some("1")));
    let expected = json!({
        "allowed": false, "rule_id": "strict", "limit": null, "remaining": null, "reset_at": null, "retry_after": 1,
        "status": "unavailable", "mode": "degraded", "rules": [],
    });
    assert_eq!(closed.json(), expected);

    let authorize = async |path| server.authorize(&[("x-original-uri", path), ("x-user-id", "alice")]).await;
    let open = authorize("/open").await;
    assert_eq!((open.status.as_u16(), open.header("x-ratelimit-status")), (200, Some("disabled")));
    let closed = authorize("/closed").await;
    assert_eq!((closed.status.as_u16(), closed.json()["error"].as_str()), (503, Some("unavailable")));
    let batch = Ask::post("/v1/check/batch", format!("[{OPEN},{CLOSED}]"));
    let told = send(server.addresses.http, batch).await.json();
    assert_eq!((&told[0]["status"], &told[1]["status"]), (&json!("disabled"), &json!("unavailable")));

    let decisions = |rule: &str, outcome: &str| {
        format!(r#"tidegate_decisions_total{{rule="{rule}",tier="other",outcome="{outcome}"}}"#)
    };
    assert_eq!(server.metric(&decisions("each", "failed_open")).await, Some(3.0));
    assert_eq!(server.metric(&decisions("strict", "unavailable")).await, Some(3.0));
    assert_eq!(server.metric("tidegate_fallback_requests_total").await, Some(6.0));
    let store = server.admin("/v1/status").await.json()["store"].clone();
    let shard = &store["shards"][0];
    assert_eq!((&store["kind"], &shard["name"]), (&json!("redis"), &json!(redis.address().to_string())));
    assert!(shard["problem"].is_string() && shard["calls"].as_u64() > Some(0), "{store}");

    redis.restart();
    usable(&server).await;
    let decision = server.check(CLOSED).await;
    assert_eq!((decision.status.as_u16(), decision.json()["mode"].as_str()), (200, Some("normal")));
    assert_eq!(health(&server).await["reasons"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_without_its_store() {
    let redis = Redis::start();
    redis.kill();
    let server = start_on(&redis).await;
    is_degraded(&server, &redis.address().to_string()).await;
    assert_eq!(server.check(CLOSED).await.status, 503);
    assert_eq!(server.check(OPEN).await.json()["status"], "disabled");
    redis.restart();
    usable(&server).await;
    assert_eq!(server.check(OPEN).await.json()["remaining"], 9);
}

/// A store that hangs answers nobody; whoever asks is not kept waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_longer_than_told() {
    let redis = Redis::start();
    let store = RedisStore::builder(redis.url().parse().unwrap()).start().unwrap();
    let store = Some(SharedStore::new("redis", Arc::new(store)));
    let config = Config { store, store_timeout: Duration::from_millis(50), ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    usable(&server).await;
    redis.pause();
    let answer = server.check(CLOSED).await;
    assert_eq!((answer.status.as_u16(), answer.json()["status"].as_str()), (503, Some("unavailable")));
    assert!(server.metric(&series("store_errors_total", &redis, r#",kind="timeout""#)).await >= Some(1.0));
    redis.resume();
    usable(&server).await;
}
