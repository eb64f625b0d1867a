//! Counters in Redis, by its own clock.

use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::RedisStore;
use tidegate::{Limiter, Rule};
use tidegate_testkit::{Cluster, Redis};

use crate::story::{
    answers_say_what_is_used, log_ins, only_failures_count, refused_by_one_held_by_none, requests, rule_set,
    tokens,
};

/// Long enough that nothing is ever late.
const PATIENT: Duration = Duration::from_secs(20);

async fn limiter(url: &str, rules: Vec<Rule>) -> Limiter {
    let store = RedisStore::builder(url.parse().unwrap()).timeout(PATIENT).start().unwrap();
    let ready = tokio::time::timeout(PATIENT, store.ready()).await;
    assert!(ready.is_ok(), "{:?}", store.problem());
    Limiter::builder(rule_set(rules, 1)).store(Arc::new(store)).store_timeout(PATIENT).build().unwrap()
}

#[tokio::test]
async fn in_one_redis() {
    let redis = Redis::start();
    only_failures_count(&limiter(&redis.url(), vec![log_ins()]).await).await;
    answers_say_what_is_used(&limiter(&redis.url(), vec![tokens(10_000)]).await).await;
    redis.query::<()>(&["FLUSHALL"]);
}

/// The user and the tenant are in different slots, so that what is asked of the two is coordinated.
#[tokio::test]
async fn in_two_slots_of_a_cluster() {
    let cluster = Cluster::start();
    refused_by_one_held_by_none(&limiter(&cluster.url(), vec![tokens(999), requests(3)]).await).await;
}
