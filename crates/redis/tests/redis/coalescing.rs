//! Many callers, few calls: as Redis itself counts them.

use std::sync::Arc;

use tidegate_core::{Algorithm, Group};
use tidegate_store::Store;
use tidegate_testkit::Redis;

use crate::load::yearly;
use crate::support::{connect, one, patient, quota, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_takes_one_call_for_many_callers_and_admits_no_more_than_the_limit() {
    const CALLERS: u64 = 512;
    const ROUNDS: u64 = 20;
    let redis = Redis::start();
    let store = Arc::new(connect(&redis.url()).await);
    for algorithm in Algorithm::REFILLING {
        let limit = CALLERS * ROUNDS * 3 / 4;
        let quota = quota(algorithm, limit, yearly().window());
        let before = redis.command_calls("evalsha");
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut admitted = 0;
                    for _ in 0..ROUNDS {
                        admitted += u64::from(one(&*store, take("hot", "alice", quota, 1)).await.allowed);
                    }
                    admitted
                })
            })
            .collect();
        let mut admitted = 0;
        for caller in callers {
            admitted += caller.await.unwrap();
        }
        let calls = redis.command_calls("evalsha") - before;
        let per_call = CALLERS * ROUNDS / calls;
        println!("{algorithm}: {admitted} of {limit} admitted, {per_call} decisions per call");
        assert_eq!(admitted, limit, "{algorithm}");
        assert!(per_call >= 20, "{algorithm}: {per_call} decisions per call");
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_in_order_is_decided_in_order() {
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    for algorithm in Algorithm::REFILLING {
        let limit = 1_000;
        let quota = quota(algorithm, limit, yearly().window());
        // Costs that all but use up the limit, so that who is refused depends on who came first.
        let costs: Vec<u64> = (0..600).map(|number: u64| 1 + number * number * 7 % 13).collect();
        let groups: Vec<Group<'_>> = costs
            .iter()
            .map(|&cost| [take("in-order", "alice", quota, cost)].into_iter().collect())
            .collect();
        let outcomes = store.apply(&groups, patient()).await;
        let mut left = limit;
        for (number, (cost, outcome)) in costs.iter().zip(outcomes).enumerate() {
            let verdict = outcome[0].verdict().unwrap();
            let allowed = *cost <= left;
            left -= if allowed { *cost } else { 0 };
            assert_eq!((verdict.allowed, verdict.remaining), (allowed, left), "{algorithm}, number {number}");
        }
        assert_eq!(left, 0, "{algorithm}");
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_many_keys_share_calls_too() {
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    let before = redis.command_calls("evalsha");
    let users: Vec<String> = (0..1_000).map(|number| format!("user-{number}")).collect();
    let groups: Vec<Group<'_>> = users
        .iter()
        .map(|user| ["a", "b"].into_iter().map(|rule| take(rule, user, yearly(), 1)).collect())
        .collect();
    for outcome in store.apply(&groups, patient()).await.iter().flatten() {
        assert!(outcome.verdict().unwrap().allowed);
    }
    let calls = redis.command_calls("evalsha") - before;
    assert!(1_000 / calls >= 20, "{calls} calls for 1,000 groups");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// Quotas of the same figures share a hash, and takes that follow each other share what is at hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn algorithms_with_the_same_figures_share_a_call() {
    const ROUNDS: u64 = 5;
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    let small = Algorithm::REFILLING.into_iter().filter(|&algorithm| algorithm != Algorithm::SlidingLog);
    let takes: Vec<_> = small
        .clone()
        .flat_map(|first| small.clone().map(move |second| [first, second]))
        .flatten()
        .map(|algorithm| take("mixed", "alice", quota(algorithm, 1_000, yearly().window()), 1))
        .collect();
    let groups: Vec<Group<'_>> = takes.iter().map(|&take| [take].into_iter().collect()).collect();
    let mut last = Vec::new();
    for _ in 0..ROUNDS {
        last = store.apply(&groups, patient()).await;
    }
    for algorithm in small {
        let mine = |index: &usize| takes[*index].take.quota.algorithm() == algorithm;
        let (count, latest) = ((0..takes.len()).filter(mine).count(), (0..takes.len()).rfind(mine).unwrap());
        let left = last[latest][0].verdict().unwrap().remaining;
        assert_eq!(left, 1_000 - ROUNDS * count as u64, "{algorithm}");
    }
}
