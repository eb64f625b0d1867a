//! Nodes that count together.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate_server::RulesFeed;
use tidegate_sources::FileSource;
use tidegate_testkit::Redis;

use super::{OPEN, connected_to, health, on, series, usable};
use crate::client::{Ask, Running, START_MS, eventually, send, start_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_enforce_one_limit() {
    let redis = Redis::start();
    let servers = [connected_to(&redis).await, connected_to(&redis).await];
    assert_eq!(health(&servers[0]).await["store"], "redis");
    for (number, server) in (0..12_u64).zip(servers.iter().cycle()) {
        let decision = server.check(OPEN).await.json();
        let expected = (json!(number < 10), json!(9_u64.saturating_sub(number)), json!("enforced"));
        let told = (&decision["allowed"], &decision["remaining"], &decision["status"]);
        assert_eq!(told, (&expected.0, &expected.1, &expected.2), "{number}: {decision}");
    }
    let refused = servers[0].authorize(&[("x-original-uri", "/open"), ("x-user-id", "alice")]).await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()["error"].as_str()),
        (429, Some("rate_limit_exceeded"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_goes_through() {
    let redis = Redis::start();
    let server = connected_to(&redis).await;
    let calls = server.metric(&series("store_calls_total", &redis, "")).await.unwrap();
    let mut items: Vec<Value> = (0..1_000)
        .map(|number| json!({"resource": "/open", "user": format!("user-{}", number % 99)}))
        .collect();
    items[500] = json!({"resource": "/open", "usr": "x"});
    items[501] = json!({"resource": "/%", "user": "x"});
    items[502] = json!({"resource": "/nothing", "user": "x"});
    let batch = Ask::post("/v1/check/batch", Value::from(items).to_string());
    let answer = send(server.addresses.http, batch).await;
    assert_eq!(answer.status, 200);
    let told: Vec<Value> = serde_json::from_value(answer.json()).unwrap();
    assert_eq!(told.len(), 1_000);
    assert_eq!((&told[500]["field"], &told[501]["field"]), (&json!("usr"), &json!("resource")));
    assert_eq!((&told[502]["allowed"], &told[502]["rule_id"]), (&json!(true), &json!(null)));
    let allowed = |item: &&Value| item["allowed"] == true && item["status"] == "enforced";
    assert_eq!(told.iter().filter(allowed).count(), 99 * 10 + 1, "ten for each of 99");
    let called = server.metric(&series("store_calls_total", &redis, "")).await.unwrap() - calls;
    assert!(called < 100.0, "they travel together: {called} calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explaining_consumes_nothing() {
    let redis = Redis::start();
    let server = connected_to(&redis).await;
    server.check(OPEN).await;
    for _ in 0..3 {
        let explained = server.explain(OPEN).await.json();
        assert_eq!(
            (&explained["remaining"], &explained["rules"][0]["identity"]),
            (&json!(9), &json!("alice"))
        );
    }
}

/// Rules from a file that was modified `seconds` into 2024.
async fn start_with_file(redis: &Redis, path: &Path, limit: u64, seconds: u64) -> Running {
    write(path, limit, seconds);
    let server = start_with(on(redis), RulesFeed::watch(FileSource::new(path))).await;
    usable(&server).await;
    server
}

fn write(path: &Path, limit: u64, seconds: u64) {
    let new = path.with_extension("new");
    let rule = format!("{{rule_id: each, identifier_type: user_id, limit: {limit}, window: 52w}}");
    std::fs::write(&new, format!("rules: [{rule}]")).unwrap();
    let time = UNIX_EPOCH + Duration::from_millis(START_MS) + Duration::from_secs(seconds);
    std::fs::File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// The limit alice is told, having taken some of it.
async fn limit(server: &Running) -> u64 {
    server.check(OPEN).await.json()["limit"].as_u64().unwrap()
}

/// However often each node has read its own file: the newest rules shape what they share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_rules_count_whoever_has_them() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    let first = start_with_file(&redis, &old, 100, 10).await;
    assert_eq!(limit(&first).await, 100);
    for (generation, reloaded) in [(2, 200), (3, 300)] {
        write(&old, reloaded, 10 + generation);
        eventually("reloaded", async || health(&first).await["rules_version"] == generation).await;
        assert_eq!(limit(&first).await, reloaded);
    }
    let second = start_with_file(&redis, &folder.path().join("new.yaml"), 400, 20).await;
    assert_eq!(health(&second).await["rules_version"], 1);
    assert_eq!(limit(&second).await, 400, "its first generation is newer than the other's third");
    assert_eq!(limit(&first).await, 400, "which goes by it from then on");
    let third = start_with_file(&redis, &folder.path().join("older.yaml"), 50, 1).await;
    assert_eq!(limit(&third).await, 400);
    write(&old, 150, 30);
    eventually("reloaded", async || health(&first).await["rules_version"] == 4).await;
    assert_eq!((limit(&first).await, limit(&second).await), (150, 150));
}
