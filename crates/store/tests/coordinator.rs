//! All or nothing over places that may fail, each of them a store in memory.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashSet;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Algorithm, HoldId, Key, Operation, Quota, Secret, Span, Take, Timestamp};
use tidegate_store::coordinator::{Places, apply_group};
use tidegate_store::{Action, Clock, Deadline, Failure, ManualClock, MemoryStore, Outcome, Outcomes};

/// As many places as there are users, some of which are down.
struct World {
    places: Vec<MemoryStore>,
    clock: Arc<ManualClock>,
    down: Mutex<HashSet<u16>>,
    holds: AtomicU64,
    /// Where every hold is gone as soon as it is made.
    forgets: Option<u16>,
}

const USERS: [&str; 3] = ["alice", "acme", "everybody"];

fn tag(user: usize) -> tidegate_core::Tag {
    Secret::new([4; 16]).encode().part(1, USERS[user].as_bytes()).tag()
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
        let places = USERS.iter().map(|_| MemoryStore::new(100, clock.clone())).collect();
        Self { places, clock, down: Mutex::default(), holds: AtomicU64::new(0), forgets: None }
    }

    fn set_down(&self, place: u16) {
        self.down.lock().unwrap().insert(place);
    }

    async fn apply(&self, ops: &[Operation<'_>]) -> Outcomes {
        apply_group(self, ops, Deadline::after(Instant::now(), Duration::from_secs(5))).await
    }

    async fn takes(&self, ops: &[Operation<'_>]) -> bool {
        self.apply(ops).await.iter().all(|outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed))
    }

    fn left(&self, user: usize, quota: Quota) -> u64 {
        let look = Operation { action: Action::Peek, ..take(user, quota, 0) };
        self.places[user].apply_at(&[look], self.clock.now())[0].verdict().unwrap().remaining
    }
}

impl Places for World {
    type Pending = Ready<Outcomes>;

    fn place_of(&self, op: &Operation<'_>) -> u16 {
        let place = (0..USERS.len()).find(|&user| tag(user) == op.take.key.tag).unwrap();
        u16::try_from(place).unwrap()
    }

    fn submit(&self, place: u16, ops: &[Operation<'_>], _deadline: Deadline) -> Self::Pending {
        if self.down.lock().unwrap().contains(&place) {
            return ready(ops.iter().map(|_| Outcome::Unavailable(Failure::Connection)).collect());
        }
        let outcomes = self.places[usize::from(place)].apply_at(ops, self.clock.now());
        if self.forgets == Some(place) {
            let gone: Vec<_> = ops.iter().filter_map(Operation::let_go).collect();
            self.places[usize::from(place)].apply_at(&gone, self.clock.now());
        }
        ready(outcomes)
    }

    fn hold_id(&self) -> HoldId {
        HoldId([1, self.holds.fetch_add(1, Ordering::Relaxed)])
    }
}

fn quota(limit: u64) -> Quota {
    Quota::new(Algorithm::TokenBucket, limit, Span::from_secs(3_600)).unwrap()
}

fn take(user: usize, quota: Quota, cost: u64) -> Operation<'static> {
    Take::new(Key::new("rule", quota.algorithm(), tag(user)), quota, cost).into()
}

fn on_failure(op: Operation<'static>, what: OnStoreFailure) -> Operation<'static> {
    Operation { take: Take { on_store_failure: what, ..op.take }, ..op }
}

#[tokio::test]
async fn what_is_settled_stays_and_what_is_refused_leaves_nothing() {
    let world = World::new();
    let group = [take(0, quota(10), 2), take(1, quota(3), 2), take(2, quota(10), 1)];
    assert!(world.takes(&group).await);
    assert!(!world.takes(&group).await, "the second has one left");
    assert_eq!([world.left(0, quota(10)), world.left(1, quota(3)), world.left(2, quota(10))], [8, 1, 9]);
    world.clock.advance(Span::from_secs(5));
    assert_eq!(world.left(0, quota(10)), 8, "and nothing expires that was settled");
}

/// What the caller itself holds goes on being held under its own name, for as long as it said.
#[tokio::test]
async fn a_hold_of_the_callers_own_outlives_the_group() {
    let world = World::new();
    let mine = HoldId([9, 9]);
    let hold = |cost| {
        let action = Action::Hold { id: mine, ttl: Span::from_secs(60) };
        Operation { action, ..take(0, quota(10), cost) }
    };
    assert!(!world.takes(&[hold(4), take(1, quota(1), 2)]).await);
    assert_eq!([world.left(0, quota(10)), world.left(1, quota(1))], [10, 1], "let go of at once");
    assert!(world.takes(&[hold(4), take(1, quota(1), 1)]).await);
    world.clock.advance(Span::from_millis(59_999));
    assert_eq!([world.left(0, quota(10)), world.left(1, quota(1))], [6, 0]);
    let settle = Operation { action: Action::Settle { id: mine }, ..take(0, quota(10), 1) };
    assert!(world.takes(&[settle]).await);
    assert_eq!(world.left(0, quota(10)), 9);
}

#[tokio::test]
async fn a_hold_of_the_callers_own_goes_with_a_group_that_is_refused_at_the_last_moment() {
    let world = World { forgets: Some(1), ..World::new() };
    let action = Action::Hold { id: HoldId([9, 9]), ttl: Span::from_secs(60) };
    let hold = Operation { action, ..take(0, quota(10), 4) };
    assert!(!world.takes(&[hold, take(1, quota(5), 1)]).await, "its hold is gone before it is settled");
    assert_eq!(world.left(0, quota(10)), 10);
}

#[tokio::test]
async fn a_refused_group_is_told_what_each_would_have_been_told_alone() {
    let world = World::new();
    assert!(world.takes(&[take(0, quota(10), 4), take(1, quota(1), 1)]).await);
    let outcomes = world.apply(&[take(0, quota(10), 3), take(1, quota(1), 1)]).await;
    let verdicts: Vec<_> = outcomes.iter().map(|outcome| *outcome.verdict().unwrap()).collect();
    assert_eq!((verdicts[0].allowed, verdicts[0].remaining), (true, 6));
    assert!(!verdicts[1].allowed);
}

/// A place that refuses one operation has not touched the others it was asked about with it.
#[tokio::test]
async fn what_was_never_held_is_not_given_back_in_figures() {
    let world = World::new();
    let other = |quota: Quota, cost| {
        let key = Key::new("other", quota.algorithm(), tag(0));
        Operation::from(Take::new(key, quota, cost))
    };
    assert!(world.takes(&[take(0, quota(1), 1), other(quota(9), 1), take(1, quota(9), 1)]).await);
    let outcomes = world.apply(&[take(0, quota(1), 1), other(quota(9), 1), take(1, quota(9), 1)]).await;
    let left: Vec<_> = outcomes.iter().map(|outcome| outcome.verdict().unwrap().remaining).collect();
    assert_eq!(left, [0, 8, 8]);
}

#[tokio::test]
async fn a_dead_place_leaves_the_others_to_decide_if_its_rule_lets_pass() {
    let world = World::new();
    world.set_down(1);
    let group = [take(0, quota(2), 1), on_failure(take(1, quota(1), 1), OnStoreFailure::Allow)];
    for left in [1, 0] {
        let outcomes = world.apply(&group).await;
        assert!(outcomes[0].verdict().unwrap().allowed);
        assert_eq!(outcomes[1], Outcome::Unavailable(Failure::Connection));
        assert_eq!(world.left(0, quota(2)), left, "it counts");
    }
    assert!(!world.apply(&group).await[0].verdict().unwrap().allowed, "and it refuses");
}

#[tokio::test]
async fn a_dead_place_takes_nothing_from_the_others_if_its_rule_insists() {
    let world = World::new();
    world.set_down(1);
    let group = [take(0, quota(2), 1), on_failure(take(1, quota(1), 1), OnStoreFailure::Deny)];
    let outcomes = world.apply(&group).await;
    assert_eq!(outcomes[1], Outcome::Unavailable(Failure::Connection));
    assert_eq!(world.left(0, quota(2)), 2, "the request is turned away, so nothing is taken");
    let shadow = Operation { take: Take { shadow: true, ..group[1].take }, ..group[1] };
    world.apply(&[group[0], shadow]).await;
    assert_eq!(world.left(0, quota(2)), 1, "a rule that only watches turns nobody away");
}

#[tokio::test]
async fn a_shadow_counts_only_if_the_request_goes_ahead() {
    let world = World::new();
    let shadow =
        Operation { take: Take { shadow: true, ..take(1, quota(1), 1).take }, ..take(1, quota(1), 1) };
    let group = [take(0, quota(3), 1), shadow];
    for round in 0..4 {
        let outcomes = world.apply(&group).await;
        assert_eq!(outcomes[0].verdict().unwrap().allowed, round < 3, "round {round}");
        assert_eq!(outcomes[1].verdict().unwrap().allowed, round < 1, "round {round}");
    }
    assert_eq!((world.left(0, quota(3)), world.left(1, quota(1))), (0, 0));
}

/// A charge is never held: it is done once it is heard, whatever the others say and whoever is down.
#[tokio::test]
async fn a_charge_goes_to_its_place_as_it_is() {
    let world = World::new();
    let charge = Operation { action: Action::Charge, ..take(0, quota(10), 4) };
    let outcomes = world.apply(&[charge, take(1, quota(1), 1), take(2, quota(10), 1)]).await;
    assert!(outcomes.iter().all(|outcome| outcome.verdict().unwrap().allowed), "{outcomes:?}");
    let outcomes = world.apply(&[take(1, quota(1), 1), charge, take(2, quota(10), 1)]).await;
    assert!(!outcomes[0].verdict().unwrap().allowed);
    assert_eq!(outcomes[1].verdict().map(|verdict| (verdict.allowed, verdict.remaining)), Some((true, 2)));
    world.set_down(1);
    world.apply(&[on_failure(take(1, quota(1), 1), OnStoreFailure::Deny), charge]).await;
    world.clock.advance(Span::from_secs(5));
    let left = [world.left(0, quota(10)), world.left(2, quota(10))];
    assert_eq!(left, [0, 9], "nothing of it expires or is let go of");
    let outcomes = world.apply(&[charge, Operation { action: Action::Charge, ..take(1, quota(1), 1) }]).await;
    assert_eq!(outcomes[1], Outcome::Unavailable(Failure::Connection));
}

proptest! {
    /// One after the other, groups over several places are decided as if they were in one.
    #[test]
    fn places_are_as_one(
        groups in prop::collection::vec(([0u64..4, 0..4, 0..4], 0usize..6), 1..60),
        steps in 0u64..3_000,
    ) {
        let world = World::new();
        let one = MemoryStore::new(100, Arc::new(ManualClock::default()));
        let quotas = [quota(20), quota(30), quota(40)];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (costs, charged) in groups {
            world.clock.advance(Span::from_millis(steps));
            let mut ops: Vec<_> =
                (0..3).filter(|&user| costs[user] > 0).map(|user| take(user, quotas[user], costs[user])).collect();
            if let Some(op) = ops.get_mut(charged) {
                op.action = Action::Charge;
            }
            let wanted = one.apply_at(&ops, world.clock.now());
            let found = runtime.block_on(world.apply(&ops));
            let said = |outcomes: &Outcomes| -> Vec<(bool, u64)> {
                outcomes.iter().map(|outcome| outcome.verdict().unwrap()).map(|v| (v.allowed, v.remaining)).collect()
            };
            prop_assert_eq!(said(&found), said(&wanted));
        }
    }
}
