//! Quota set aside.

use tidegate_core::{Algorithm, Quota, Span, Timestamp};

use super::{Bench, Subject, quota};
use crate::{Action, HoldId, Operation};

const HOLD: HoldId = HoldId([77, 7]);

async fn hold<S: Subject>(bench: &Bench<'_, S>, quota: Quota, cost: u64) -> bool {
    let action = Action::Hold { id: HOLD, ttl: Span::from_secs(5) };
    bench.one(bench.take(0, "alice", quota, cost), action).await.allowed
}

async fn settle<S: Subject>(bench: &Bench<'_, S>, quota: Quota, cost: u64) -> bool {
    bench.one(bench.take(0, "alice", quota, cost), Action::Settle { id: HOLD }).await.allowed
}

pub(super) async fn settled_for_less<S: Subject>(subject: &S) {
    let bench = Bench::new("less", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 60);
        assert!(hold(&bench, quota, 6).await);
        assert_eq!(bench.left(0, "alice", quota).await, 4, "{algorithm}: what is held is gone for others");
        assert!(!bench.takes(0, "alice", quota, 5).await, "{algorithm}");
        assert!(settle(&bench, quota, 1).await);
        assert_eq!(bench.left(0, "alice", quota).await, 9, "{algorithm}");
        assert!(!settle(&bench, quota, 0).await, "{algorithm}: once");
        assert_eq!(bench.left(0, "alice", quota).await, 9, "{algorithm}");
    }
}

pub(super) async fn settled_for_more<S: Subject>(subject: &S) {
    let bench = Bench::new("more", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 60);
        assert!(hold(&bench, quota, 2).await);
        assert!(settle(&bench, quota, 50).await);
        assert_eq!(bench.left(0, "alice", quota).await, 0, "{algorithm}: as far as it fits");
    }
}

pub(super) async fn released<S: Subject>(subject: &S) {
    let bench = Bench::new("released", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 60);
        assert!(hold(&bench, quota, 10).await);
        assert!(!hold(&bench, quota, 1).await, "{algorithm}: a hold that does not fit is refused");
        assert!(settle(&bench, quota, 0).await);
        assert_eq!(bench.left(0, "alice", quota).await, 10, "{algorithm}");
    }
}

pub(super) async fn forgotten<S: Subject>(subject: &S) {
    let bench = Bench::new("forgotten", subject);
    for (number, algorithm) in (0..).zip(Algorithm::REFILLING) {
        let quota = quota(algorithm, 10, 3_600);
        let start = number * 100_000;
        bench.at(start);
        assert!(hold(&bench, quota, 10).await);
        bench.at(start + 4_999);
        assert!(!bench.takes(0, "alice", quota, 1).await, "{algorithm}: held until it expires");
        bench.at(start + 5_000);
        assert_eq!(bench.left(0, "alice", quota).await, 10, "{algorithm}: then given back");
        assert!(!settle(&bench, quota, 1).await, "{algorithm}: too late to settle");
        assert_eq!(bench.left(0, "alice", quota).await, 10, "{algorithm}");
    }
}

/// What comes back is never more than waiting would have given: a bucket has refilled meanwhile, a window has passed.
pub(super) async fn never_more_than_waiting<S: Subject>(subject: &S) {
    let bench = Bench::new("waiting", subject);
    let bucket = quota(Algorithm::TokenBucket, 10, 10);
    assert!(bench.takes(0, "alice", bucket, 6).await);
    assert!(hold(&bench, bucket, 4).await);
    bench.at(3_000);
    assert!(settle(&bench, bucket, 0).await);
    assert_eq!(bench.left(0, "alice", bucket).await, 4, "3 of the held 4 had come back by themselves");

    let window = quota(Algorithm::FixedWindow, 10, 4);
    assert!(hold(&bench, window, 4).await);
    bench.at(4_500);
    assert!(bench.takes(0, "alice", window, 5).await);
    assert!(settle(&bench, window, 0).await);
    assert_eq!(bench.left(0, "alice", window).await, 5, "a passed window is not credited");
}

/// What a caller holds lasts as long as it says, under the name it gives, also in a group with takes from counters that may be
/// elsewhere; if those are refused, nothing is held.
pub(super) async fn beside_takes<S: Subject>(subject: &S) {
    let bench = Bench::new("beside", subject);
    for (number, algorithm) in (0..).zip(Algorithm::REFILLING) {
        let quota = quota(algorithm, 10, 3_600);
        let start = number * 100_000;
        bench.at(start);
        let ask = async |taken: u64| {
            let held = Action::Hold { id: HOLD, ttl: Span::from_secs(5) };
            let group = [
                Operation { take: bench.take(0, "alice", quota, 6), action: held },
                bench.take(1, "acme", quota, taken).into(),
                bench.take(2, "everybody", quota, 1).into(),
            ];
            let outcomes = bench.apply(&group).await;
            outcomes.iter().all(|outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed))
        };
        let left = async || {
            let alice = bench.left(0, "alice", quota).await;
            (alice, bench.left(1, "acme", quota).await, bench.left(2, "everybody", quota).await)
        };
        assert!(!ask(11).await, "{algorithm}");
        assert_eq!(left().await, (10, 10, 10), "{algorithm}: nothing is held or taken");
        assert!(!settle(&bench, quota, 6).await, "{algorithm}: there is no hold");
        assert!(ask(2).await, "{algorithm}");
        bench.at(start + 4_999);
        assert!(!bench.takes(0, "alice", quota, 5).await, "{algorithm}: still held");
        assert!(settle(&bench, quota, 1).await, "{algorithm}: settled long after the takes");
        assert_eq!(left().await, (9, 8, 9), "{algorithm}");
        assert!(ask(2).await, "{algorithm}");
        bench.at(start + 9_999);
        assert_eq!(left().await, (9, 6, 8), "{algorithm}: given back, and nothing else");
    }
}

/// Waiting for what is only held may be a mistake, so nobody should remember such a refusal.
pub(super) async fn a_refusal_while_held_says_so<S: Subject>(subject: &S) {
    let bench = Bench::new("pending", subject);
    let told = async |quota: Quota, cost, action| {
        let verdict = bench.one(bench.take(0, "alice", quota, cost), action).await;
        (verdict.allowed, verdict.held)
    };
    for (number, algorithm) in (0..).zip(Algorithm::REFILLING) {
        let quota = quota(algorithm, 10, 3_600);
        let start = number * 100_000;
        bench.at(start);
        assert!(bench.takes(0, "alice", quota, 4).await);
        assert_eq!(told(quota, 7, Action::Take).await, (false, false), "{algorithm}: nothing is held");
        assert!(hold(&bench, quota, 5).await);
        assert_eq!(told(quota, 2, Action::Take).await, (false, true), "{algorithm}");
        assert_eq!(told(quota, 2, Action::Peek).await, (false, true), "{algorithm}: a look is told as well");
        assert_eq!(told(quota, 11, Action::Take).await, (false, false), "{algorithm}: this will never fit");
        let past = Action::Return { since: Timestamp::EPOCH };
        assert_eq!(told(quota, 2, past).await, (true, false), "{algorithm}: a return is never refused");
        assert_eq!(told(quota, 1, Action::Take).await, (true, false), "{algorithm}: this is no refusal");
        assert!(settle(&bench, quota, 5).await);
        assert_eq!(told(quota, 1, Action::Take).await, (false, false), "{algorithm}: settled");

        let again = bench.take(1, "alice", quota, 10);
        let action = Action::Hold { id: HOLD, ttl: Span::from_secs(5) };
        assert!(bench.one(again, action).await.allowed);
        assert!(bench.one(again, Action::Take).await.held, "{algorithm}");
        bench.at(start + 5_000);
        assert!(bench.takes(1, "alice", quota, 10).await, "{algorithm}: given back");
        let verdict = bench.one(again, Action::Take).await;
        assert!(!verdict.allowed && !verdict.held, "{algorithm}: nobody holds it now");
    }
}
