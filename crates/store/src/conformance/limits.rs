//! One take on one counter.

use tidegate_core::algorithm::AnyCounter;
use tidegate_core::{Algorithm, Quota, Retry, Span, Timestamp, Verdict};

use super::{Bench, START, Subject, quota};
use crate::Action;

pub(super) async fn admits_exactly_the_limit<S: Subject>(subject: &S) {
    let bench = Bench::new("limits", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 100, 60);
        let mut admitted = 0;
        for _ in 0..130 {
            admitted += u64::from(bench.takes(0, "alice", quota, 1).await);
        }
        assert_eq!(admitted, 100, "{algorithm}");
        assert!(bench.takes(0, "bob", quota, 100).await, "{algorithm}: another key is another counter");
        assert!(bench.takes(1, "alice", quota, 100).await, "{algorithm}: another rule is another counter");
    }
}

/// The same history through the core's counter and through the store: the same verdicts to the last figure.
pub(super) async fn agrees_with_the_core<S: Subject>(subject: &S) {
    let bench = Bench::new("core", subject);
    let bucket = Quota::token_bucket(7, Span::from_millis(1_300), 11).expect("in range");
    let quotas = [
        bucket,
        quota(Algorithm::FixedWindow, 9, 2),
        quota(Algorithm::SlidingWindow, 9, 2),
        quota(Algorithm::SlidingLog, 9, 2),
    ];
    for quota in quotas {
        let mut core = Core::new(quota);
        let (mut ms, mut dice) = (0u64, 0x2545_f491_4f6c_dd1d_u64);
        for number in 0..400 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            ms += dice % 400;
            let cost = dice / 400 % 4;
            bench.at(ms);
            let action = if cost == 0 { Action::Peek } else { Action::Take };
            let verdict = bench.one(bench.take(0, "alice", quota, cost), action).await;
            let wanted = core.step(cost, START + Span::from_millis(ms));
            assert_eq!(verdict, wanted, "{}, step {number} at +{ms} ms, cost {cost}", quota.algorithm());
        }
    }
}

struct Core(Quota, AnyCounter);

impl Core {
    fn new(quota: Quota) -> Self {
        Self(quota, AnyCounter::new(quota.algorithm()))
    }

    fn step(&mut self, cost: u64, now: Timestamp) -> Verdict {
        self.1.step(&self.0, cost, now)
    }
}

pub(super) async fn a_look_takes_nothing<S: Subject>(subject: &S) {
    let bench = Bench::new("look", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 5, 60);
        for _ in 0..20 {
            let verdict = bench.one(bench.take(0, "alice", quota, 3), Action::Peek).await;
            assert!(verdict.allowed && verdict.remaining == 5, "{algorithm}: {verdict:?}");
        }
        let verdict = bench.one(bench.take(0, "alice", quota, 6), Action::Peek).await;
        assert!(!verdict.allowed && verdict.remaining == 5, "{algorithm}: {verdict:?}");
    }
}

pub(super) async fn zero_blocks<S: Subject>(subject: &S) {
    let bench = Bench::new("zero", subject);
    for algorithm in Algorithm::REFILLING {
        let open = quota(algorithm, 5, 60);
        assert!(bench.takes(0, "alice", open, 2).await);
        let verdict = bench.one(bench.take(0, "alice", quota(algorithm, 0, 60), 1), Action::Take).await;
        assert!(!verdict.allowed && verdict.retry == Retry::Never, "{algorithm}: {verdict:?}");
        assert_eq!(
            bench.left(0, "alice", open).await,
            3,
            "{algorithm}: a block that is lifted has forgotten nothing"
        );
    }
}

pub(super) async fn too_much_never_fits<S: Subject>(subject: &S) {
    let bench = Bench::new("never", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 5, 60);
        for cost in [6, 1 << 53, u64::MAX] {
            let verdict = bench.one(bench.take(0, "alice", quota, cost), Action::Take).await;
            assert!(!verdict.allowed && verdict.retry == Retry::Never, "{algorithm}, {cost}: {verdict:?}");
        }
        assert_eq!(bench.left(0, "alice", quota).await, 5, "{algorithm}");
    }
}
