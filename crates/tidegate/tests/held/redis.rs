//! Counters in Redis, by its own clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::redis::RedisStore;
use tidegate::{Limiter, Rule, Span};
use tidegate_testkit::{Cluster, Redis};

use crate::story::{
    answers_say_what_is_used, ask, hold, left, log_ins, many_balance, only_failures_count,
    refused_by_one_held_by_none, requests, rule_set, somebody, tell, tokens,
};

/// Long enough that nothing is ever late.
const PATIENT: Duration = tidegate_testkit::wait::HANG_LIMIT;

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
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test]
async fn without_an_answer_it_is_given_back() {
    let redis = Redis::start();
    let mut rule = tokens(500);
    rule.charge.as_mut().unwrap().within = Span::from_secs(1);
    let limiter = limiter(&redis.url(), vec![rule]).await;
    let start = Instant::now();
    let lost = hold(&limiter, &somebody()).await;
    assert!(!ask(&limiter, &somebody()).await.allowed || start.elapsed() >= Duration::from_secs(1));
    while left(&limiter).await != [500] {
        assert!(start.elapsed() < PATIENT, "held for ever");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Redis counts whole milliseconds, the last of which may have begun before the hold.
    assert!(start.elapsed() >= Duration::from_millis(999), "not before its time");
    assert!(!tell(&limiter, lost, 200, Some("7")).await);
    assert_eq!(left(&limiter).await, [500]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_the_same_time() {
    let redis = Redis::start();
    many_balance(limiter(&redis.url(), vec![tokens(20_000), requests(10_000)]).await, 30).await;
}

/// The user and the tenant are in different slots, so that what is asked of the two is coordinated.
#[tokio::test]
async fn in_two_slots_of_a_cluster() {
    let cluster = Cluster::start();
    refused_by_one_held_by_none(&limiter(&cluster.url(), vec![tokens(999), requests(3)]).await).await;
    let others = vec![tokens(20_000), requests(10_000)]
        .into_iter()
        .map(|rule| Rule { id: format!("{}_more", rule.id).into(), ..rule });
    many_balance(limiter(&cluster.url(), others.collect()).await, 30).await;
}
