//! Quota consumed for what was admitted already.

use tidegate_core::{Algorithm, Quota, Retry, Span, Take, Verdict};

use super::{Bench, SECRET, Subject, quota};
use crate::{Action, HoldId, Operation};

/// Charges alice `cost`; what she is told.
async fn charge<S: Subject>(bench: &Bench<'_, S>, quota: Quota, cost: u64) -> Verdict {
    told(bench, bench.take(0, "alice", quota, cost)).await
}

/// The same by the name of `id`; what is left then.
async fn charge_once<S: Subject>(bench: &Bench<'_, S>, quota: Quota, cost: u64, id: &str) -> u64 {
    told(bench, named(bench.take(0, "alice", quota, cost), id)).await.remaining
}

fn named<'r>(take: Take<'r>, id: &str) -> Take<'r> {
    Take { request_id: Some(SECRET.request_id(id)), ..take }
}

async fn told<S: Subject>(bench: &Bench<'_, S>, take: Take<'_>) -> Verdict {
    let verdict = bench.one(take, Action::Charge).await;
    let algorithm = take.quota.algorithm();
    assert!(verdict.allowed && verdict.retry == Retry::Now && !verdict.held, "{algorithm}: {verdict:?}");
    verdict
}

/// Whole, in part, or not at all: never below empty.
pub(super) async fn charged_as_far_as_it_fits<S: Subject>(subject: &S) {
    let bench = Bench::new("charged", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 3_600);
        assert_eq!(charge(&bench, quota, 0).await.reset_after, Span::ZERO, "{algorithm}: nothing is nothing");
        // (what is charged, what is left then)
        for (cost, left) in [(3, 7), (7, 0), (5, 0), (u64::MAX, 0)] {
            let verdict = charge(&bench, quota, cost).await;
            assert_eq!((verdict.remaining, verdict.quota), (left, quota), "{algorithm}: charged {cost}");
            let look = bench.one(bench.take(0, "alice", quota, 0), Action::Peek).await;
            assert_eq!(verdict, look, "{algorithm}: what is told is what is there");
        }
        assert!(!bench.takes(0, "alice", quota, 1).await, "{algorithm}: it counts like what is taken");

        let verdict = told(&bench, bench.take(1, "alice", quota, u64::MAX)).await;
        assert_eq!(verdict.remaining, 0, "{algorithm}: a key never used pays all it has");
        let wanted = bench.one(bench.take(2, "alice", quota, 10), Action::Take).await;
        assert_eq!(verdict, wanted, "{algorithm}: as if it had been taken");
    }
}

/// Time gives back what was charged as it does what was taken, and no sooner or later for what did not fit.
pub(super) async fn waiting_pays_back<S: Subject>(subject: &S) {
    let bench = Bench::new("paid", subject);
    // (when, what is left of 10 per 10 s that were all charged after 1 s)
    let cases: [(_, &[(u64, u64)]); 4] = [
        (Algorithm::TokenBucket, &[(1_999, 0), (2_000, 1), (6_000, 5), (11_000, 10)]),
        (Algorithm::FixedWindow, &[(9_999, 0), (10_000, 10)]),
        (Algorithm::SlidingWindow, &[(10_000, 0), (11_000, 1), (15_000, 5), (20_000, 10)]),
        (Algorithm::SlidingLog, &[(10_999, 0), (11_000, 10)]),
    ];
    for (algorithm, lefts) in cases {
        let quota = quota(algorithm, 10, 10);
        bench.at(1_000);
        assert!(bench.takes(0, "alice", quota, 4).await);
        assert_eq!(charge(&bench, quota, 1_000).await.remaining, 0, "{algorithm}");
        for &(ms, left) in lefts {
            bench.at(ms);
            assert_eq!(bench.left(0, "alice", quota).await, left, "{algorithm} after {ms} ms");
        }
        assert_eq!(charge(&bench, quota, 4).await.remaining, 6, "{algorithm}: there is room again");
    }
}

pub(super) async fn charged_to_a_block<S: Subject>(subject: &S) {
    let bench = Bench::new("block", subject);
    for algorithm in Algorithm::REFILLING {
        let (open, blocked) = (quota(algorithm, 10, 60), quota(algorithm, 0, 60));
        let wanted = Verdict { allowed: true, retry: Retry::Now, ..Verdict::blocked(blocked) };
        // Nobody comes back to this one: what is remembered must pass by itself.
        let left_behind = named(bench.take(2, "mallory", blocked, 3), "blocked");
        assert_eq!(told(&bench, left_behind).await, wanted, "{algorithm}");
        for rule in [0, 1] {
            let take = |quota, cost| bench.take(rule, "alice", quota, cost);
            // One counter is in use, the other is not.
            let left = if rule == 0 { 8 } else { 10 };
            assert!(rule == 1 || bench.takes(0, "alice", open, 2).await);
            assert_eq!(told(&bench, take(blocked, 3)).await, wanted, "{algorithm}, {rule}");
            assert_eq!(told(&bench, named(take(blocked, 3), "blocked")).await, wanted, "{algorithm}, {rule}");
            assert_eq!(bench.left(rule, "alice", open).await, left, "{algorithm}, {rule}: nothing is taken");
            let again = told(&bench, named(take(open, 3), "blocked")).await;
            assert_eq!(again.remaining, left, "{algorithm}, {rule}: nor later by the same name");
            let other = told(&bench, named(take(open, 3), "open")).await;
            assert_eq!(other.remaining, left - 3, "{algorithm}, {rule}");
        }
    }
}

/// A payment may be tried as often as it takes.
pub(super) async fn charged_once<S: Subject>(subject: &S) {
    let bench = Bench::new("once", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 3_600);
        for round in 0..20 {
            assert_eq!(charge_once(&bench, quota, 3, "one").await, 7, "{algorithm}, round {round}");
        }
        assert_eq!(charge_once(&bench, quota, 3, "two").await, 4, "{algorithm}: another name");
        assert_eq!(charge_once(&bench, quota, 1, "one").await, 3, "{algorithm}: another cost");
        for round in 0..10 {
            assert_eq!(charge_once(&bench, quota, 5, "part").await, 0, "{algorithm}, round {round}");
            assert_eq!(charge_once(&bench, quota, 2, "none").await, 0, "{algorithm}, round {round}");
        }
        let back = Action::Return { since: tidegate_core::Timestamp::LATEST };
        assert_eq!(bench.one(bench.take(0, "alice", quota, 6), back).await.remaining, 6, "{algorithm}");
        for (cost, id) in [(3, "one"), (3, "two"), (5, "part"), (2, "none")] {
            let left = charge_once(&bench, quota, cost, id).await;
            assert_eq!(left, 6, "{algorithm}: the rest of {id} is not taken when there is room");
        }
        assert_eq!(charge(&bench, quota, 1).await.remaining, 5, "{algorithm}");
        assert_eq!(charge(&bench, quota, 1).await.remaining, 4, "{algorithm}: without a name, each counts");
    }
}

/// Charges and admissions by the same name have nothing to do with each other.
pub(super) async fn charges_are_no_admissions<S: Subject>(subject: &S) {
    let bench = Bench::new("apart", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 20, 3_600);
        let act = async |action| {
            let take = named(bench.take(0, "alice", quota, 2), "same");
            bench.one(take, action).await.remaining
        };
        assert_eq!(act(Action::Take).await, 18, "{algorithm}");
        assert_eq!(act(Action::Charge).await, 16, "{algorithm}: what was admitted is charged all the same");
        for round in 0..3 {
            assert_eq!(act(Action::Charge).await, 16, "{algorithm}, round {round}");
            assert_eq!(act(Action::Take).await, 16, "{algorithm}, round {round}: a replay");
        }
        assert_eq!(act(Action::Take).await, 14, "{algorithm}: three replays, whatever was charged");
        assert_eq!(act(Action::Charge).await, 14, "{algorithm}");
    }
}

/// As long as ids are; and however many ids are remembered.
pub(super) async fn charges_are_forgotten<S: Subject>(subject: &S) {
    let bench = Bench::new("lapsed", subject);
    for (number, algorithm) in (0..).zip(Algorithm::REFILLING) {
        let start = number * 10_000_000;
        let (slow, fast) = (quota(algorithm, 2_000, 3_600), quota(algorithm, 10, 5));
        bench.at(start);
        let takes = (0..1_100).map(|number| named(bench.take(0, "alice", slow, 1), &number.to_string()));
        assert!(bench.in_order(takes, Action::Take).await.iter().all(|verdict| verdict.allowed));
        let left = charge_once(&bench, slow, 200, "payment").await;
        assert_eq!(left, 700, "{algorithm}");
        bench.at(start + 59_999);
        // A bucket has refilled a little meanwhile.
        let before = bench.left(0, "alice", slow).await;
        assert_eq!(charge_once(&bench, slow, 200, "payment").await, before, "{algorithm}: for a minute");
        bench.at(start + 60_000);
        let before = bench.left(0, "alice", slow).await;
        assert_eq!(charge_once(&bench, slow, 200, "payment").await, before - 200, "{algorithm}: no longer");

        // At the end of a window, which the memory of it outlives.
        let charge_fast = async |cost| told(&bench, named(bench.take(1, "alice", fast, cost), "fast")).await;
        bench.at(start + 104_000);
        assert_eq!(charge_fast(9).await.remaining, 1, "{algorithm}");
        bench.at(start + 108_999);
        let before = bench.left(1, "alice", fast).await;
        assert_eq!(charge_fast(9).await.remaining, before, "{algorithm}: for a window");
        bench.at(start + 120_000);
        assert_eq!(charge_fast(9).await.remaining, 1, "{algorithm}: no longer");
    }
}

pub(super) async fn remembered_within_bounds<S: Subject>(subject: &S) {
    let bench = Bench::new("bounds", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 2_000, 3_600);
        let charge = async |number: u64| charge_once(&bench, quota, 1, &number.to_string()).await;
        let charges = (0..1_030).map(|number| named(bench.take(0, "alice", quota, 1), &number.to_string()));
        let left: Vec<u64> =
            bench.in_order(charges, Action::Charge).await.iter().map(|verdict| verdict.remaining).collect();
        assert!(left.iter().copied().eq((970..2_000).rev()), "{algorithm}: {left:?}");
        assert_eq!((charge(0).await, charge(1_023).await), (970, 970), "{algorithm}: 1,024 per key");
        assert_eq!(charge(1_024).await, 969, "{algorithm}: those beyond count as new");
    }
}

/// Wherever in its group a charge is, it is carried out, and nobody is refused for it who would not be refused after it.
pub(super) async fn charged_whatever_the_group<S: Subject>(subject: &S) {
    let bench = Bench::new("anyway", subject);
    for algorithm in Algorithm::REFILLING {
        let (wide, narrow) = (quota(algorithm, 10, 3_600), quota(algorithm, 2, 3_600));
        let mut group = [
            Operation { take: bench.take(0, "everybody", wide, 4), action: Action::Charge },
            Operation { take: bench.take(1, "alice", narrow, 1), action: Action::Take },
            Operation { take: bench.take(2, "acme", wide, 1), action: Action::Take },
        ];
        let rounds = [(true, 6), (true, 2), (false, 0), (false, 0)];
        for (round, (takes, left)) in rounds.into_iter().enumerate() {
            let verdicts = bench.verdicts(&group).await;
            let of = |rule: &str| {
                let at = group.iter().position(|op| op.take.key.rule_id.ends_with(rule));
                verdicts[at.expect("one of the three")]
            };
            assert_eq!(of("b").allowed, takes, "{algorithm}, round {round}");
            assert!(of("c").allowed, "{algorithm}, round {round}: a charge in part holds up nobody");
            assert_eq!((of("a").allowed, of("a").remaining), (true, left), "{algorithm}, round {round}");
            group.rotate_left(1);
        }
        assert_eq!(bench.left(0, "everybody", wide).await, 0, "{algorithm}");
        assert_eq!(bench.left(2, "acme", wide).await, 8, "{algorithm}: the refused took nothing");
    }
}

/// The takes of a group go by what its charges of the same counter leave.
pub(super) async fn charged_and_taken_at_once<S: Subject>(subject: &S) {
    let bench = Bench::new("both", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 10, 3_600);
        let take = |cost, action| Operation { take: bench.take(0, "alice", quota, cost), action };
        let pay = |cost, id| Operation {
            take: named(bench.take(0, "alice", quota, cost), id),
            action: Action::Charge,
        };
        let said = async |group: &[Operation<'_>]| -> Vec<(bool, u64)> {
            let verdicts = bench.verdicts(group).await;
            verdicts.iter().map(|verdict| (verdict.allowed, verdict.remaining)).collect()
        };
        let both = said(&[pay(4, "one"), take(3, Action::Take)]).await;
        assert_eq!(both, [(true, 6), (true, 3)], "{algorithm}");
        let both = said(&[take(2, Action::Take), pay(2, "two")]).await;
        assert_eq!(both, [(false, 1), (true, 1)], "{algorithm}: what was admitted before goes first");
        let both = said(&[pay(2, "two"), take(1, Action::Take), pay(2, "two")]).await;
        assert_eq!(both, [(true, 1), (true, 0), (true, 0)], "{algorithm}: and once");

        let hold = Action::Hold { id: HoldId([3, 3]), ttl: Span::from_secs(5) };
        let op = |cost, action| Operation { take: bench.take(1, "alice", quota, cost), action };
        assert_eq!(said(&[op(6, Action::Charge), op(4, hold)]).await, [(true, 4), (true, 0)], "{algorithm}");
        assert_eq!(
            said(&[op(3, Action::Charge)]).await,
            [(true, 0)],
            "{algorithm}: what is held is not there"
        );
        assert_eq!(said(&[op(0, Action::Settle { id: HoldId([3, 3]) })]).await, [(true, 4)], "{algorithm}");
    }
}

pub(super) async fn charged_by_other_rules<S: Subject>(subject: &S) {
    let bench = Bench::new("charges", subject);
    for algorithm in Algorithm::REFILLING {
        let bucket = algorithm == Algorithm::TokenBucket;
        let old = quota(algorithm, 10, 60).at_version(1);
        let new = quota(algorithm, 20, 60).at_version(2);
        assert_eq!(charge(&bench, old, 6).await.remaining, 4, "{algorithm}");
        let verdict = charge(&bench, new, 1).await;
        let left = if bucket { 7 } else { 13 };
        assert_eq!((verdict.remaining, verdict.quota), (left, new), "{algorithm}: newer rules reshape first");
        let verdict = charge(&bench, old, 2).await;
        assert_eq!((verdict.remaining, verdict.quota), (left - 2, new), "{algorithm}: older ones do not");
        assert_eq!(charge_once(&bench, old, 3, "id").await, left - 5, "{algorithm}");
        assert_eq!(charge_once(&bench, new, 3, "id").await, left - 5, "{algorithm}: known by any rules");

        // More is consumed than the new rules allow.
        let less = quota(algorithm, 4, 60).at_version(3);
        let verdict = charge(&bench, less, 4).await;
        assert_eq!((verdict.remaining, verdict.quota), (0, less), "{algorithm}");
    }
}
