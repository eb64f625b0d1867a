//! Quota given back.

use tidegate_core::{Algorithm, Quota, Retry, Span, Timestamp, Verdict};

use super::{Bench, START, Subject, quota};
use crate::{Action, Operation};

/// A return of what was consumed `ms` after the start.
fn since(ms: u64) -> Action {
    Action::Return { since: START + Span::from_millis(ms) }
}

/// Gives `cost` back that alice consumed `ms` after the start; what is left then.
async fn give_back<S: Subject>(bench: &Bench<'_, S>, quota: Quota, cost: u64, ms: u64) -> u64 {
    let verdict = bench.one(bench.take(0, "alice", quota, cost), since(ms)).await;
    assert!(verdict.allowed && verdict.retry == Retry::Now, "{}: {verdict:?}", quota.algorithm());
    verdict.remaining
}

pub(super) async fn returned<S: Subject>(subject: &S) {
    let bench = Bench::new("returned", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 3_600);
        bench.at(0);
        assert!(bench.takes(0, "alice", quota, 6).await);
        bench.at(1_000);
        assert_eq!(give_back(&bench, quota, 4, 0).await, 8, "{algorithm}");
        assert_eq!(bench.left(0, "alice", quota).await, 8, "{algorithm}");
        assert_eq!(give_back(&bench, quota, 50, 0).await, 10, "{algorithm}: never above the capacity");
        assert!(bench.takes(0, "alice", quota, 10).await, "{algorithm}");
        assert!(!bench.takes(0, "alice", quota, 1).await, "{algorithm}: nor anything on account");
    }
}

/// What was consumed last comes back first, whenever that was, and never more than was consumed.
pub(super) async fn returned_of_the_latest<S: Subject>(subject: &S) {
    let bench = Bench::new("latest", subject);
    let latest = Action::Return { since: Timestamp::LATEST };
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 3_600);
        for (ms, cost) in [(0, 3), (1_000, 2), (2_000, 4)] {
            bench.at(ms);
            assert!(bench.takes(0, "alice", quota, cost).await);
        }
        let verdict = bench.one(bench.take(0, "alice", quota, 5), latest).await;
        assert_eq!((verdict.allowed, verdict.remaining), (true, 6), "{algorithm}");
        assert_eq!(bench.left(0, "alice", quota).await, 6, "{algorithm}");
        let verdict = bench.one(bench.take(0, "alice", quota, u64::MAX), latest).await;
        assert_eq!((verdict.remaining, verdict.reset_after), (10, Span::ZERO), "{algorithm}");
        assert!(!bench.takes(0, "alice", quota, 11).await, "{algorithm}: nothing on account");
    }
}

pub(super) async fn nothing_to_return_to<S: Subject>(subject: &S) {
    let bench = Bench::new("unknown", subject);
    for algorithm in Algorithm::REFILLING {
        let open = quota(algorithm, 10, 3_600);
        let verdict = bench.one(bench.take(0, "alice", open, 3), since(0)).await;
        let look = bench.one(bench.take(0, "alice", open, 0), Action::Peek).await;
        assert_eq!(verdict, look, "{algorithm}: a key never used stays one");
        assert_eq!((look.remaining, look.reset_after), (10, Span::ZERO), "{algorithm}");
        assert!(bench.takes(0, "alice", open, 10).await, "{algorithm}");
        assert!(!bench.takes(0, "alice", open, 1).await, "{algorithm}");

        let blocked = quota(algorithm, 0, 3_600);
        let verdict = bench.one(bench.take(0, "alice", blocked, 3), since(0)).await;
        let wanted = Verdict { allowed: true, retry: Retry::Now, ..Verdict::blocked(blocked) };
        assert_eq!(verdict, wanted, "{algorithm}");
        assert_eq!(bench.left(0, "alice", open).await, 0, "{algorithm}: a block gives nothing back");
    }
}

/// What is taken may come back before anybody has heard of it.
pub(super) async fn returned_in_the_same_call<S: Subject>(subject: &S) {
    let bench = Bench::new("same-call", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 3_600);
        let take = bench.take(0, "alice", quota, 3);
        let group = [Action::Take, since(0)].map(|action| Operation { take, action });
        let left: Vec<u64> = bench.verdicts(&group).await.iter().map(|verdict| verdict.remaining).collect();
        assert_eq!(left, [7, 10], "{algorithm}");
        assert!(bench.takes(0, "alice", quota, 10).await, "{algorithm}");
    }
}

/// What comes back is never more than waiting would have given.
pub(super) async fn too_late_to_return<S: Subject>(subject: &S) {
    let bench = Bench::new("outwaited", subject);
    let bucket = quota(Algorithm::TokenBucket, 10, 10);
    assert!(bench.takes(0, "alice", bucket, 10).await);
    bench.at(3_000);
    assert_eq!(give_back(&bench, bucket, 2, 0).await, 3, "both had come back by themselves");
    assert_eq!(give_back(&bench, bucket, 4, 0).await, 4, "3 of these 4 had");

    // (when the window or the entry is over, what is left after taking 5 more then)
    for (algorithm, end, left) in [
        (Algorithm::FixedWindow, 4_500, 5),
        // 7/8 of the 4 still weigh.
        (Algorithm::SlidingWindow, 4_500, 1),
        (Algorithm::SlidingLog, 7_000, 5),
    ] {
        let quota = quota(algorithm, 10, 4);
        bench.at(3_000);
        assert!(bench.takes(0, "alice", quota, 4).await, "{algorithm}");
        bench.at(end);
        assert!(bench.takes(0, "alice", quota, 5).await, "{algorithm}");
        assert_eq!(give_back(&bench, quota, 4, 3_000).await, left, "{algorithm}: it is past");
    }
}

pub(super) async fn returned_whatever_the_group<S: Subject>(subject: &S) {
    let bench = Bench::new("regardless", subject);
    for algorithm in Algorithm::REFILLING {
        let (wide, narrow) = (quota(algorithm, 10, 3_600), quota(algorithm, 2, 3_600));
        assert!(bench.takes(0, "everybody", wide, 10).await);
        assert!(bench.takes(1, "alice", narrow, 1).await);
        let mut group = [
            Operation { take: bench.take(0, "everybody", wide, 2), action: since(0) },
            Operation { take: bench.take(1, "alice", narrow, 1), action: Action::Take },
            Operation { take: bench.take(2, "acme", wide, 1), action: Action::Take },
        ];
        for (round, (takes, left)) in [(true, 2), (false, 4), (false, 6)].into_iter().enumerate() {
            let verdicts = bench.verdicts(&group).await;
            let at = |rule: &str| {
                group.iter().position(|op| op.take.key.rule_id.ends_with(rule)).expect("one of the three")
            };
            assert_eq!(verdicts[at("b")].allowed, takes, "{algorithm}, round {round}");
            let returned = verdicts[at("a")];
            assert!(
                returned.allowed && returned.remaining == left,
                "{algorithm}, round {round}: {returned:?}"
            );
            group.rotate_left(1);
        }
        assert_eq!(bench.left(0, "everybody", wide).await, 6, "{algorithm}");
        assert_eq!(bench.left(2, "acme", wide).await, 9, "{algorithm}: the refused took nothing");
    }
}
