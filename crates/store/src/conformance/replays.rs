//! Request ids.

use tidegate_core::{Algorithm, Quota, Span, Take};

use super::{Bench, SECRET, Subject, quota};
use crate::{Action, HoldId};

async fn with_id<S: Subject>(bench: &Bench<'_, S>, quota: Quota, cost: u64, id: &str) -> bool {
    bench.one(named(bench, quota, cost, id), Action::Take).await.allowed
}

fn named<'r, S: Subject>(bench: &'r Bench<'_, S>, quota: Quota, cost: u64, id: &str) -> Take<'r> {
    Take { request_id: Some(SECRET.request_id(id)), ..bench.take(0, "alice", quota, cost) }
}

pub(super) async fn a_retry_is_free<S: Subject>(subject: &S) {
    let bench = Bench::new("retry", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 3, 60);
        assert!(with_id(&bench, quota, 1, "one").await);
        assert!(with_id(&bench, quota, 1, "one").await);
        assert_eq!(bench.left(0, "alice", quota).await, 2, "{algorithm}: not counted twice");
        assert!(with_id(&bench, quota, 2, "two").await);
        assert!(with_id(&bench, quota, 1, "one").await, "{algorithm}: free even when nothing is left");
        assert!(!with_id(&bench, quota, 2, "one").await, "{algorithm}: another cost is another request");
        assert!(!with_id(&bench, quota, 1, "three").await, "{algorithm}");
        assert!(!with_id(&bench, quota, 1, "three").await, "{algorithm}: only admissions are remembered");
    }
}

pub(super) async fn an_id_is_no_way_around<S: Subject>(subject: &S) {
    let bench = Bench::new("around", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 100, 60);
        let same = std::iter::repeat_n(named(&bench, quota, 1, "same"), 10_000);
        let verdicts = bench.in_order(same, Action::Take).await;
        let admitted = verdicts.iter().filter(|verdict| verdict.allowed).count();
        assert_eq!(admitted, 103, "{algorithm}: the limit and three replays");
    }
}

/// A hold is no admission: what is released was never there, and what is settled counts from then.
pub(super) async fn a_hold_admits_nobody_yet<S: Subject>(subject: &S) {
    let bench = Bench::new("yet", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 3, 60);
        let id = Some(SECRET.request_id("held"));
        let act = async |cost, action| {
            bench.one(Take { request_id: id, ..bench.take(0, "alice", quota, cost) }, action).await.allowed
        };
        let hold = |number| Action::Hold { id: HoldId([1, number]), ttl: Span::from_secs(5) };
        let settle = |number| Action::Settle { id: HoldId([1, number]) };
        assert!(act(1, hold(1)).await && act(0, settle(1)).await);
        assert!(act(1, hold(2)).await, "{algorithm}");
        assert_eq!(bench.left(0, "alice", quota).await, 2, "{algorithm}: released, so not free");
        assert!(act(1, settle(2)).await);
        assert!(act(1, hold(3)).await && act(1, settle(3)).await, "{algorithm}");
        assert_eq!(bench.left(0, "alice", quota).await, 2, "{algorithm}: settled, so a retry is free");
        assert!(act(1, Action::Take).await && act(1, Action::Take).await);
        assert_eq!(bench.left(0, "alice", quota).await, 2, "{algorithm}");
        assert!(act(1, Action::Take).await);
        assert_eq!(bench.left(0, "alice", quota).await, 1, "{algorithm}: three times");
    }
}

pub(super) async fn ids_are_forgotten<S: Subject>(subject: &S) {
    let bench = Bench::new("ids", subject);
    let slow = quota(Algorithm::TokenBucket, 2_000, 3_600);
    let takes = (0..1_100).map(|number| named(&bench, slow, 1, &number.to_string()));
    assert!(bench.in_order(takes, Action::Take).await.iter().all(|verdict| verdict.allowed));
    let left = bench.left(0, "alice", slow).await;
    assert!(with_id(&bench, slow, 1, "1099").await && with_id(&bench, slow, 1, "7").await);
    assert_eq!(bench.left(0, "alice", slow).await, left - 1, "1,024 per key; those beyond count as new");
    bench.at(60_000);
    let left = bench.left(0, "alice", slow).await;
    assert!(with_id(&bench, slow, 1, "8").await);
    assert_eq!(bench.left(0, "alice", slow).await, left - 1, "for a minute at most");
}
