//! Limits that several gateways share, and what happens without the store.

use std::sync::Arc;

use tidegate::redis::RedisStore;
use tidegate_server::{Config, SharedStore};
use tidegate_testkit::{Backend, Redis};

use crate::client::{Client, until};
use crate::support::{DEADLINE, Running, Setup};

const RULES: &str = "
rules:
  - {rule_id: open, identifier_type: ip_address, algorithm: fixed_window, limit: 10, window: 52w, on_store_failure: allow,
     match: {path_pattern: /open}}
  - {rule_id: closed, identifier_type: ip_address, algorithm: fixed_window, limit: 10, window: 52w, on_store_failure: deny,
     match: {path_pattern: /closed}}
  - {rule_id: local, identifier_type: ip_address, algorithm: fixed_window, limit: 3, window: 52w, on_store_failure: local,
     match: {path_pattern: /local}}
";

/// Has limits kept there; so patient that nothing is late on a busy machine.
pub(crate) fn on(redis: &Redis) -> impl FnOnce(&mut Config) + use<> {
    let store = RedisStore::builder(redis.url().parse().unwrap()).timeout(DEADLINE).start().unwrap();
    move |node| {
        node.store = Some(SharedStore::new("redis", Arc::new(store)));
        node.store_timeout = DEADLINE;
    }
}

/// Waits until the store decides about a path, without deciding anything.
pub(crate) async fn usable(gateway: &Running, path: &str) {
    let asked = format!("{{\"resource\":\"{path}\"}}");
    until("the store is connected", async || {
        let told = gateway.explain(&asked).await;
        (told.json()["status"] == "enforced").then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_the_store_each_rule_says_what_is_done() {
    let (redis, backend) = (Redis::start(), Backend::start());
    let gateway = Setup::to(&[backend.address()]).rules(RULES).node(on(&redis)).start().await;
    usable(&gateway, "/open").await;
    let told = gateway.get("/open").await;
    assert_eq!((told.status, told.header("x-ratelimit-status")), (200, None));
    drop(redis);
    for _ in 0..15 {
        let told = gateway.get("/open").await;
        assert_eq!((told.status, told.header("x-ratelimit-status")), (200, Some("disabled")));
    }
    let before = backend.requests();
    for _ in 0..3 {
        let told = gateway.get("/closed").await;
        assert_eq!((told.status, told.header("retry-after")), (503, Some("1")), "{told:?}");
    }
    assert_eq!(backend.requests(), before);
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(gateway.get("/local").await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429], "they are counted here");
    assert_eq!(backend.requests(), before + 3);
}

/// However many gateways and clients there are, the limit is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_share_their_limits() {
    let (redis, backend) = (Redis::start(), Backend::start());
    let rules = "rules:\n  - {rule_id: hundred, identifier_type: ip_address, algorithm: fixed_window, limit: 100, window: 52w}\n";
    let mut gateways = Vec::new();
    for _ in 0..3 {
        let gateway = Setup::to(&[backend.address()]).rules(rules).node(on(&redis)).start().await;
        usable(&gateway, "/").await;
        gateways.push(gateway);
    }
    let clients: Vec<_> = (0..9)
        .map(|client| {
            let at = gateways[client % 3].at.listen;
            tokio::spawn(async move {
                let mut connection =
                    if client % 2 == 0 { Client::http1(at).await } else { Client::http2(at).await };
                let mut allowed = 0;
                for _ in 0..40 {
                    allowed += usize::from(connection.get("/").await.status == 200);
                }
                allowed
            })
        })
        .collect();
    let mut allowed = 0;
    for client in clients {
        allowed += client.await.unwrap();
    }
    assert_eq!((allowed, backend.requests()), (100, 100));
}
