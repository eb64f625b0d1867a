//! Envoy's rate limit service.

mod answers;
mod cases;
pub(crate) mod client;
mod hostile;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tidegate_redis::RedisStore;
use tidegate_server::{Config, RulesFeed, SharedStore};
use tidegate_testkit::{Cluster, Redis};

use crate::client::{Running, config, start_with};
use cases::CASES;
use client::Client;

/// Time limit of a store that is not meant to be away.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server with these rules, that lets its callers give back.
async fn serve(config: Config, rules: &str) -> (Running, Client) {
    let config = Config { credits: true, ..config };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", rules)).await;
    let client = Client::connect(server.addresses.grpc).await;
    (server, client)
}

/// Runs a case with counters in memory.
async fn in_memory(name: &str) {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let (_server, client) = serve(config(), &case.rules()).await;
    case.run(&client).await;
}

/// Runs all cases with counters elsewhere, where time is long enough.
async fn shared(url: &str) {
    // The same for the breaker, whose own default of 5 ms a busy machine can miss.
    let store = RedisStore::builder(url.parse().unwrap()).timeout(PATIENCE).start().unwrap();
    let store = Arc::new(store);
    let shared = SharedStore::new("redis", store.clone());
    let config = Config { store: Some(shared), store_timeout: PATIENCE, ..config() };
    let rules: Vec<String> = CASES.iter().map(cases::Case::rules).collect();
    store.ready().await;
    let (_server, client) = serve(config, &rules.join("\n---\n")).await;
    for case in CASES {
        case.run(&client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_in_redis() {
    let redis = Redis::start();
    shared(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_in_a_cluster() {
    let cluster = Cluster::start();
    shared(&cluster.url()).await;
}
