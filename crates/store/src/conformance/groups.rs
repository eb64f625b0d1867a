//! Several takes at once.

use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Take};

use super::{Bench, Subject, quota};
use crate::{Action, Deadline, Group, Operation, Outcome};

fn take(take: Take<'_>) -> Operation<'_> {
    Operation { take, action: Action::Take }
}

pub(super) async fn all_or_nothing<S: Subject>(subject: &S) {
    let bench = Bench::new("groups", subject);
    for algorithm in Algorithm::REFILLING {
        let (wide, narrow) = (quota(algorithm, 10, 60), quota(algorithm, 2, 60));
        // The rules count different users, so that the takes live in different places of the store.
        let takes = [(0, "everybody", wide), (1, "alice", narrow), (2, "acme", wide)];
        let group = takes.map(|(rule, user, quota)| take(bench.take(rule, user, quota, 1)));
        for round in 0..5 {
            let verdicts = bench.verdicts(&group).await;
            let allowed: Vec<bool> = verdicts.iter().map(|verdict| verdict.allowed).collect();
            assert_eq!(allowed, [true, round < 2, true], "{algorithm}, round {round}");
            let used = (round + 1).min(2);
            assert_eq!(
                verdicts[0].remaining,
                10 - used,
                "{algorithm}, round {round}: a refused request consumes nothing"
            );
            assert_eq!(verdicts[2].remaining, 10 - used, "{algorithm}, round {round}");
        }
        assert_eq!(bench.left(0, "everybody", wide).await, 8, "{algorithm}");
        assert_eq!(bench.left(2, "acme", wide).await, 8, "{algorithm}");
    }
}

pub(super) async fn a_shadow_holds_up_nobody<S: Subject>(subject: &S) {
    let bench = Bench::new("shadow", subject);
    for algorithm in Algorithm::REFILLING {
        let (wide, narrow) = (quota(algorithm, 3, 60), quota(algorithm, 1, 60));
        for round in 0..5 {
            let shadow = Take { shadow: true, ..bench.take(1, "alice", narrow, 1) };
            let verdicts = bench.verdicts(&[take(shadow), take(bench.take(0, "alice", wide, 1))]).await;
            assert_eq!(verdicts[0].allowed, round < 1, "{algorithm}, round {round}: it reports");
            assert_eq!(verdicts[1].allowed, round < 3, "{algorithm}, round {round}: it does not refuse");
        }
        assert_eq!(bench.left(1, "alice", narrow).await, 0, "{algorithm}: it counts");
    }
}

pub(super) async fn one_counter_named_twice<S: Subject>(subject: &S) {
    let bench = Bench::new("twice", subject);
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 5, 60);
        let twice =
            |cost| [take(bench.take(0, "alice", quota, cost)), take(bench.take(0, "alice", quota, cost))];
        let verdicts = bench.verdicts(&twice(3)).await;
        assert!(verdicts[0].allowed && !verdicts[1].allowed, "{algorithm}: 3 + 3 is more than 5");
        assert_eq!(bench.left(0, "alice", quota).await, 5, "{algorithm}");
        let looks = twice(3).map(|op| Operation { action: Action::Peek, ..op });
        assert!(
            bench.verdicts(&looks).await.iter().all(|verdict| verdict.allowed),
            "{algorithm}: looks take nothing"
        );
        let verdicts = bench.verdicts(&twice(2)).await;
        assert!(verdicts[0].allowed && verdicts[1].allowed, "{algorithm}");
        assert_eq!(bench.left(0, "alice", quota).await, 1, "{algorithm}");
    }
}

pub(super) async fn groups_are_independent<S: Subject>(subject: &S) {
    let bench = Bench::new("independent", subject);
    let quota = quota(Algorithm::TokenBucket, 3, 60);
    let groups: Vec<Group<'_>> = [2, 2, 1, 1]
        .iter()
        .map(|&cost| [take(bench.take(0, "alice", quota, cost))].into_iter().collect())
        .collect();
    let outcomes =
        subject.store().apply(&groups, Deadline::after(Instant::now(), Duration::from_secs(10))).await;
    let allowed: Vec<bool> =
        outcomes.iter().map(|group| group[0].verdict().is_some_and(|verdict| verdict.allowed)).collect();
    assert_eq!(allowed, [true, false, true, false], "one after the other, in order");
}

pub(super) async fn too_late_is_not_applied<S: Subject>(subject: &S) {
    let bench = Bench::new("late", subject);
    let quota = quota(Algorithm::FixedWindow, 5, 60);
    let groups: Vec<Group<'_>> = vec![[take(bench.take(0, "alice", quota, 1))].into_iter().collect()];
    let outcomes = subject.store().apply(&groups, Deadline::after(Instant::now(), Duration::ZERO)).await;
    assert!(matches!(outcomes[0][0], Outcome::Unavailable(_)), "{:?}", outcomes[0]);
    assert_eq!(bench.left(0, "alice", quota).await, 5);
}
