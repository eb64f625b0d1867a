//! Threads that serve requests, one of which is stuck.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::json;
use tidegate::{TierAnswer, TierLookup, TierOptions};
use tidegate_server::{Config, DataPlane, RulesFeed, UserTiers};

use crate::client::{Ask, Connection, DEADLINE, Running, config, eventually, start_with};

const RULES: &str = "
tiers: {free: {limit: 10, window: 1h}}
default_tier: free
rules: [{rule_id: each, identifier_type: user_id, tiered: true}]
";

/// A look-up that keeps its thread until it is released, where it should only have waited.
#[derive(Default)]
struct Blocking {
    released: Mutex<bool>,
    changed: Condvar,
}

impl Blocking {
    fn release(&self) {
        *self.released.lock() = true;
        self.changed.notify_all();
    }
}

impl TierLookup for Blocking {
    fn tier_of<'a>(&'a self, _: Option<&'a str>, _: &'a str) -> TierAnswer<'a> {
        Box::pin(async {
            self.changed.wait_while(&mut self.released.lock(), |released| !*released);
            Ok(None)
        })
    }
}

async fn start(blocking: &Arc<Blocking>) -> Running {
    let threads = DataPlane::start(NonZeroUsize::new(2).unwrap()).unwrap();
    let tiers = UserTiers::new(
        Arc::clone(blocking) as Arc<dyn TierLookup>,
        TierOptions { timeout: DEADLINE, ..TierOptions::default() },
    );
    let config = Config {
        data_plane: Some(threads.look_every(Duration::from_millis(20))),
        tiers: Some(tiers),
        ..config()
    };
    start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await
}

async fn livez(server: &Running) -> (u16, String) {
    let answer = server.admin("/livez").await;
    (answer.status.as_u16(), answer.text())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_thread_is_noticed_and_named_while_others_go_on() {
    let blocking = Arc::new(Blocking::default());
    let server = start(&blocking).await;
    assert_eq!(livez(&server).await, (200, "alive\n".to_owned()));
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(Connection::open(server.addresses.http).await);
        // Each is on its thread before the next one comes.
        assert_eq!(others.last_mut().unwrap().send(Ask::get("/v1/nothing")).await.status, 404);
    }
    let mut unlucky = Connection::open(server.addresses.http).await;
    let asked = json!({"resource": "/", "user": "alice"}).to_string();
    let waits = tokio::spawn(async move { unlucky.send(Ask::post("/v1/check", asked)).await });
    eventually("it is noticed", async || livez(&server).await.0 == 503).await;

    let (_, text) = livez(&server).await;
    let name = text.split(' ').next().unwrap().to_owned();
    assert!(["data-0", "data-1"].contains(&&*name) && text.contains("has been stuck for"), "{text}");
    eventually("health says so", async || {
        let health = server.admin("/health").await.json();
        health["status"] == "degraded" && health["reasons"].to_string().contains(&format!("threads: {name}"))
    })
    .await;
    let series = format!("tidegate_data_thread_delay_seconds{{thread=\"{name}\"}}");
    assert!(server.metric(&series).await.unwrap() > 0.1);
    // Of four connections, two are on the other thread.
    let others = others.into_iter().map(|mut connection| {
        let check = Ask::post("/v1/check", json!({"resource": "/"}).to_string());
        tokio::spawn(async move { connection.send(check).await })
    });
    let others: Vec<_> = others.collect();
    let served = || others.iter().filter(|other| other.is_finished()).count();
    eventually("the other thread serves", async || served() == 2).await;

    blocking.release();
    assert_eq!(waits.await.unwrap().status, 200);
    for other in others {
        assert_eq!(other.await.unwrap().status, 200);
    }
    eventually("it runs again", async || livez(&server).await.0 == 200).await;
    eventually("health", async || server.admin("/health").await.json()["status"] == "normal").await;
    assert!(server.stopped().await.is_ok());
}
