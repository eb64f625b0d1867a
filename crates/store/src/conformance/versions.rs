//! Rules and clocks that change under a counter.

use tidegate_core::{Algorithm, Timestamp};

use super::{Bench, START, Subject, quota};
use crate::Action;

pub(super) async fn newer_rules_reshape<S: Subject>(subject: &S) {
    let bench = Bench::new("newer", subject);
    for algorithm in Algorithm::REFILLING {
        let old = quota(algorithm, 10, 60).at_version(1);
        let new = quota(algorithm, 20, 60).at_version(2);
        assert!(bench.takes(0, "alice", old, 6).await);
        let left = bench.left(0, "alice", new).await;
        let wanted = if algorithm == Algorithm::TokenBucket { 8 } else { 14 };
        assert_eq!(left, wanted, "{algorithm}: consumption is kept, a bucket's in proportion");
    }
}

pub(super) async fn older_rules_do_not<S: Subject>(subject: &S) {
    let bench = Bench::new("older", subject);
    for algorithm in Algorithm::REFILLING {
        let old = quota(algorithm, 10, 60).at_version(1);
        let new = quota(algorithm, 20, 60).at_version(2);
        assert!(bench.takes(0, "alice", new, 6).await);
        let verdict = bench.one(bench.take(0, "alice", old, 1), Action::Take).await;
        assert_eq!(
            (verdict.quota, verdict.remaining),
            (new, 13),
            "{algorithm}: a node with old rules goes by the stored ones"
        );
    }
}

pub(super) async fn clocks_may_step_back<S: Subject>(subject: &S) {
    let bench = Bench::new("clock", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 60);
        let left = async || bench.left(0, "alice", quota).await;
        bench.at(30_000);
        assert!(bench.takes(0, "alice", quota, 10).await);
        bench.at(25_000);
        assert_eq!(left().await, 0, "{algorithm}: five seconds back change nothing");
        subject.set_time(Timestamp::from_millis(START.as_millis() - 86_400_000));
        assert_eq!(left().await, 0, "{algorithm}: nor does a day");
        subject.set_time(Timestamp::from_millis(START.as_millis() - 86_400_000 + 120_000));
        assert_eq!(left().await, 10, "{algorithm}: but from there the counter goes on");
    }
}
