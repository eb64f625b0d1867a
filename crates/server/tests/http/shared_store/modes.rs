//! How a node calls itself while its store and its peers come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_server::{Config, RulesFeed, Thresholds};
use tidegate_testkit::Redis;

use super::{OPEN, RULES, SOON, connected_to, health, on, usable};
use crate::client::{Running, eventually, start_with};

async fn start(config: Config) -> Running {
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    usable(&server).await;
    server
}

async fn is(server: &Running, status: &str) {
    eventually(status, async || health(server).await["status"] == status).await;
}

async fn changed_to(server: &Running, mode: &str) -> Option<f64> {
    server.metric(&format!(r#"tidegate_mode_changes_total{{to="{mode}"}}"#)).await
}

fn steps(health: &Value) -> Vec<[&str; 2]> {
    let changes = health["changes"].as_array().unwrap();
    changes.iter().map(|change| [&change["from"], &change["to"]].map(|mode| mode.as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_problem_is_shown_before_it_changes_the_mode() {
    let redis = Redis::start();
    let patient = Thresholds { degraded_after: Duration::from_secs(3_600), ..SOON };
    let server = start(Config { thresholds: patient, ..on(&redis) }).await;
    assert_eq!(health(&server).await["store_unwell_since"], Value::Null);
    redis.kill();
    eventually("a reason", async || health(&server).await["reasons"] != json!([])).await;
    let shown = health(&server).await;
    assert!(shown["reasons"].to_string().contains(&redis.address().to_string()), "{shown}");
    assert_eq!(shown["status"], "normal");
    assert!(shown["store_unwell_since"].is_string(), "{shown}");
    assert_eq!(server.check(OPEN).await.json()["mode"], "normal");
    redis.restart();
    let forgotten = async || {
        let shown = health(&server).await;
        shown["store_unwell_since"] == Value::Null && shown["reasons"] == json!([])
    };
    eventually("it is forgotten", forgotten).await;
    assert_eq!(health(&server).await["changes"], json!([]));
    assert_eq!(changed_to(&server, "degraded").await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_told() {
    let redis = Redis::start();
    let server = connected_to(&redis).await;
    // What happened while it started, if anything did.
    let (earlier, normal) = (changed_to(&server, "degraded").await, changed_to(&server, "normal").await);
    redis.kill();
    is(&server, "degraded").await;
    redis.restart();
    is(&server, "normal").await;
    let shown = health(&server).await;
    assert_eq!(steps(&shown)[..2], [["degraded", "normal"], ["normal", "degraded"]], "newest first: {shown}");
    let why = &shown["changes"][1];
    assert!(why["reasons"].to_string().contains(&redis.address().to_string()), "{shown}");
    assert!(why["at"].as_str().unwrap().starts_with("2024-01-01T"), "{shown}");
    assert_eq!(changed_to(&server, "degraded").await, earlier.map(|count| count + 1.0));
    assert_eq!(changed_to(&server, "normal").await, normal.map(|count| count + 1.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_store_and_peers_it_is_an_emergency_and_that_ends_by_itself() {
    let redis = Redis::start();
    let heard = Arc::new(AtomicBool::new(true));
    let peers_heard = {
        let (heard, last) = (Arc::clone(&heard), parking_lot::Mutex::new(None));
        move || {
            let mut last = last.lock();
            if heard.load(Ordering::Relaxed) {
                *last = Some(Instant::now());
            }
            *last
        }
    };
    let server = start(Config { peers_heard: Some(Arc::new(peers_heard)), ..on(&redis) }).await;
    redis.kill();
    is(&server, "degraded").await;
    heard.store(false, Ordering::Relaxed);
    is(&server, "emergency").await;
    let shown = health(&server).await;
    assert!(shown["reasons"].to_string().contains("peers: none has been heard"), "{shown}");
    assert_eq!(server.metric("tidegate_operating_mode").await, Some(2.0));
    assert_eq!(server.check(OPEN).await.json()["mode"], "emergency");
    assert_eq!(server.admin("/readyz").await.status, 200);
    heard.store(true, Ordering::Relaxed);
    is(&server, "degraded").await;
    heard.store(false, Ordering::Relaxed);
    is(&server, "emergency").await;
    redis.restart();
    is(&server, "normal").await;
    let shown = health(&server).await;
    let wanted = [
        ["degraded", "normal"],
        ["emergency", "degraded"],
        ["degraded", "emergency"],
        ["emergency", "degraded"],
        ["degraded", "emergency"],
        ["normal", "degraded"],
    ];
    assert_eq!(steps(&shown)[..wanted.len()], wanted, "{shown}");
    assert_eq!(changed_to(&server, "emergency").await, Some(2.0));
}
