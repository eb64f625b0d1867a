//! A store that is away, or hangs, and comes back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_redis::RedisStore;
use tidegate_server::{Config, RulesFeed, SharedStore};
use tidegate_testkit::Redis;

use super::{CLOSED, LOCAL, OPEN, RULES, connected_to, health, is_degraded, on, series, start_on, usable};
use crate::client::{Ask, config, eventually, send, start_with};

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

/// Two nodes, of which each knows that there are two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_nodes_count_by_themselves_and_go_on_from_where_it_was() {
    let redis = Redis::start();
    let config = || Config { nodes: std::num::NonZeroU32::new(2).unwrap(), ..on(&redis) };
    let feed = || RulesFeed::fixed("rules.yaml", RULES);
    let nodes = [start_with(config(), feed()).await, start_with(config(), feed()).await];
    for node in &nodes {
        usable(node).await;
    }
    // Both have heard of it: 2 and 4 are left by then.
    for used in 1..=6 {
        let answer = nodes[usize::from(used > 3)].check(LOCAL).await.json();
        assert_eq!((&answer["remaining"], &answer["status"]), (&json!(10 - used), &json!("enforced")));
    }
    redis.kill();
    let mut admitted = [0, 0];
    for (node, admitted) in nodes.iter().zip(&mut admitted) {
        is_degraded(node, &redis.address().to_string()).await;
        for _ in 0..10 {
            let answer = node.check(LOCAL).await;
            assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-status")), (200, None));
            let answer = answer.json();
            assert_eq!(
                (&answer["status"], &answer["limit"], &answer["mode"]),
                (&json!("local"), &json!(10), &json!("degraded"))
            );
            *admitted += u64::from(answer["allowed"] == true);
        }
        let refused = node.authorize(&[("x-original-uri", "/local"), ("x-user-id", "alice")]).await;
        assert_eq!(refused.status, 429);
        assert!(node.metric("tidegate_fallback_requests_total").await >= Some(11.0));
        assert!(node.admin("/v1/status").await.json()["store"]["decided_locally"].as_u64() >= Some(11));
    }
    assert_eq!(admitted, [3, 2], "half of seven and half of four");
    // It comes back empty, and is told what was admitted without it.
    redis.restart();
    for node in &nodes {
        usable(node).await;
        let settled = async || {
            // A store that has just come back is given time by the node's own clock.
            node.clock.advance(tidegate::Span::from_millis(100));
            node.admin("/v1/status").await.json()["store"]["unsettled"] == 0
        };
        eventually("all is settled", settled).await;
    }
    for (node, left) in nodes.iter().zip([10 - 3 - 2 - 1, 10 - 3 - 2 - 1 - 1]) {
        let answer = node.check(LOCAL).await.json();
        assert_eq!((&answer["status"], &answer["remaining"]), (&json!("enforced"), &json!(left)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_without_its_store() {
    let redis = Redis::start();
    redis.kill();
    let server = start_on(&redis).await;
    is_degraded(&server, &redis.address().to_string()).await;
    assert_eq!(server.check(CLOSED).await.status, 503);
    assert_eq!(server.check(OPEN).await.json()["status"], "disabled");
    let local = server.check(LOCAL).await.json();
    assert_eq!((&local["status"], &local["remaining"]), (&json!("local"), &json!(9)));
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
