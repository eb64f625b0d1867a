//! A node that knows of no other.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Algorithm, Group, HoldId, Span, Take};
use tidegate_store::{Deadline, Operation, Outcome, Outcomes, Store as _};

use crate::support::{ALGORITHMS, Bench, HOUR, START, take};

#[tokio::test]
async fn counting_goes_on_where_the_store_left_off() {
    for algorithm in ALGORITHMS {
        let bench = Bench::new(1);
        let alice = take("r", "alice", algorithm, 10);
        assert_eq!(bench.admitted(7, alice).await, 7);
        bench.lose(&["r"]);
        assert_eq!(bench.admitted(10, alice).await, 3, "{algorithm:?}: seven were known");
        let outcome = bench.apply(&[alice]).await[0];
        let Outcome::Local(verdict) = outcome else { panic!("{outcome:?}") };
        assert_eq!((verdict.allowed, verdict.remaining, verdict.quota.limit()), (false, 0, 10));
        // Whoever was never seen begins here.
        assert_eq!(bench.admitted(20, take("r", "bob", algorithm, 10)).await, 10, "{algorithm:?}");
        // Time gives it back as ever.
        bench.clock.advance(HOUR + HOUR);
        assert_eq!(bench.admitted(20, alice).await, 10, "{algorithm:?}");
        // The store is asked again as soon as it is there.
        bench.lose(&[]);
        let outcome = bench.apply(&[alice]).await[0];
        assert!(matches!(outcome, Outcome::Verdict(verdict) if !verdict.allowed), "{outcome:?}");
    }
}

#[tokio::test]
async fn what_was_admitted_here_is_taken_there_once_the_store_is_back() {
    for algorithm in ALGORITHMS {
        let bench = Bench::new(1);
        let alice = take("r", "alice", algorithm, 10);
        assert_eq!(bench.admitted(3, alice).await, 3);
        bench.lose(&["r"]);
        assert_eq!(bench.admitted(4, alice).await, 4);
        bench.lose(&[]);
        for left in [2, 1, 0] {
            let outcome = bench.apply(&[alice]).await[0];
            assert!(
                matches!(outcome, Outcome::Verdict(v) if v.allowed && v.remaining == left),
                "{algorithm:?} {outcome:?}"
            );
        }
        assert_eq!((bench.admitted(5, alice).await, bench.store.settled().settled), (0, 4), "{algorithm:?}");

        // Whoever used up a limit without the store finds it used up; however often that happens.
        let bob = take("r", "bob", algorithm, 10);
        for _ in 0..3 {
            bench.lose(&["r"]);
            bench.admitted(20, bob).await;
            bench.lose(&[]);
            assert_eq!(bench.admitted(5, bob).await, 0, "{algorithm:?}");
        }
        // What time has given back is not owed any more.
        let carol = take("r", "carol", algorithm, 10);
        bench.lose(&["r"]);
        assert_eq!(bench.admitted(10, carol).await, 10);
        bench.clock.advance(HOUR + HOUR);
        bench.lose(&[]);
        assert_eq!(bench.admitted(20, carol).await, 10, "{algorithm:?}");
        bench.store.settle_some(100, Deadline::after(Instant::now(), Duration::from_secs(1))).await;
        assert_eq!(bench.store.unsettled(), 0, "{algorithm:?}");
    }
}

#[tokio::test]
async fn debts_are_paid_whether_or_not_anybody_asks() {
    let bench = Bench::new(1);
    let users: Vec<String> = (0..25).map(|number| format!("user-{number}")).collect();
    let take = |user: &str| take("r", user, Algorithm::SlidingWindow, 10);
    bench.lose(&["r"]);
    for user in &users {
        assert_eq!(bench.admitted(4, take(user)).await, 4);
    }
    let deadline = || Deadline::after(Instant::now(), Duration::from_secs(1));
    bench.store.settle_some(10, deadline()).await;
    assert_eq!(
        (bench.store.unsettled(), bench.store.settled().settled),
        (25, 0),
        "nobody is there to be paid"
    );
    bench.lose(&[]);
    // Whoever gives up waiting has not paid, and what was not paid stays owed.
    drop(bench.store.settle_some(10, deadline()));
    assert_eq!(bench.store.unsettled(), 25);
    for left in [15, 5, 0, 0] {
        bench.store.settle_some(10, deadline()).await;
        assert_eq!(bench.store.unsettled(), left);
    }
    assert_eq!(bench.store.settled().settled, 100);
    for user in &users {
        let look = Take { cost: 0, ..take(user) };
        let known = bench.store.inner().memory.apply_at(&[look.into()], START);
        assert_eq!(known[0].verdict().unwrap().remaining, 6);
    }
}

/// Half an hour of refill pays half of what was admitted.
#[tokio::test]
async fn a_bucket_owes_what_it_has_not_refilled() {
    let bench = Bench::new(1);
    let alice = take("r", "alice", Algorithm::TokenBucket, 10);
    bench.lose(&["r"]);
    assert_eq!(bench.admitted(10, alice).await, 10);
    bench.clock.advance(Span::from_secs(1800));
    bench.lose(&[]);
    let look = Take { cost: 0, ..alice };
    assert_eq!(bench.apply(&[look]).await[0].verdict().unwrap().remaining, 5);
    assert_eq!(bench.apply(&[look]).await[0].verdict().unwrap().remaining, 5, "once");
}

#[tokio::test]
async fn each_of_several_nodes_has_its_share() {
    for algorithm in ALGORITHMS {
        let nodes = [Bench::new(3), Bench::new(3), Bench::new(3)];
        let mut sum = 0;
        for node in &nodes {
            node.lose(&["r"]);
            sum += node.admitted(50, take("r", "alice", algorithm, 31)).await;
        }
        assert_eq!(sum, 30, "{algorithm:?}: never more than the limit");
        // What is known to be used up already is divided, too.
        let node = Bench::new(3);
        assert_eq!(node.admitted(16, take("r", "bob", algorithm, 31)).await, 16);
        node.lose(&["r"]);
        assert_eq!(
            node.admitted(50, take("r", "bob", algorithm, 31)).await,
            5,
            "{algorithm:?}: a third of fifteen"
        );
    }
    let tiny = Bench::new(10);
    tiny.lose(&["r"]);
    assert_eq!(tiny.admitted(5, take("r", "alice", Algorithm::FixedWindow, 3)).await, 1, "never nothing");
    assert_eq!(
        tiny.admitted(5, take("r", "alice", Algorithm::TokenBucket, 0)).await,
        0,
        "but blocked is blocked"
    );
}

#[tokio::test]
async fn while_the_store_is_slow_bursts_are_half_as_large() {
    let bench = Bench::new(1);
    let (alice, bob) =
        (take("r", "alice", Algorithm::TokenBucket, 10), take("r", "bob", Algorithm::FixedWindow, 10));
    bench.lose_slowly(&["r"]);
    assert_eq!(bench.admitted(20, alice).await, 5);
    assert_eq!(bench.admitted(20, bob).await, 10, "a window has no burst");
    // The rate is what it was.
    bench.clock.advance(Span::from_secs(720));
    assert_eq!(bench.admitted(20, alice).await, 2);
    bench.lose(&[]);
    assert_eq!(bench.admitted(20, alice).await, 5, "the other half, and none of what was had");
}

#[tokio::test]
async fn a_request_that_is_turned_away_anyway_counts_nowhere() {
    let bench = Bench::new(1);
    let local = take("local", "alice", Algorithm::FixedWindow, 5);
    let closed =
        Take { on_store_failure: OnStoreFailure::Deny, ..take("closed", "alice", Algorithm::FixedWindow, 5) };
    bench.lose(&["local", "closed"]);
    for _ in 0..20 {
        let outcomes = bench.apply(&[local, closed]).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
    }
    assert_eq!(bench.admitted(20, local).await, 5, "nothing was taken from it");
    let open =
        Take { on_store_failure: OnStoreFailure::Allow, ..take("open", "alice", Algorithm::FixedWindow, 5) };
    bench.lose(&["open"]);
    assert!(matches!(bench.apply(&[open]).await[0], Outcome::Unavailable(_)), "that is for the rule to say");
}

#[tokio::test]
async fn what_the_store_has_counted_for_a_refused_request_is_given_back() {
    let bench = Bench::new(1);
    let (there, here) =
        (take("there", "a", Algorithm::FixedWindow, 100), take("here", "b", Algorithm::FixedWindow, 3));
    bench.lose(&["here"]);
    let mut admitted = 0;
    for _ in 0..50 {
        let outcomes = bench.apply(&[there, here]).await;
        admitted += u64::from(outcomes.iter().all(|outcome| outcome.verdict().unwrap().allowed));
    }
    let look = Take { cost: 0, ..there };
    assert_eq!((admitted, bench.apply(&[look]).await[0].verdict().unwrap().remaining), (3, 97));
    // A refusal by the store leaves what is counted here alone.
    let none = take("none", "a", Algorithm::FixedWindow, 0);
    let fresh = take("here", "c", Algorithm::FixedWindow, 3);
    for _ in 0..10 {
        assert!(!bench.apply(&[none, fresh]).await[0].verdict().unwrap().allowed);
    }
    assert_eq!(bench.admitted(10, fresh).await, 3);
}

#[tokio::test]
async fn what_the_store_holds_for_a_refused_request_is_let_go_of() {
    let bench = Bench::new(1);
    let (there, none) =
        (take("there", "a", Algorithm::FixedWindow, 3), take("here", "b", Algorithm::FixedWindow, 0));
    bench.lose(&["here"]);
    for number in 0..10 {
        let action = Action::Hold { id: HoldId([7, number]), ttl: HOUR };
        let group: Group<'_> = [Operation { take: there, action }, none.into()].into_iter().collect();
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(1));
        let outcomes = bench.store.apply(&[group], deadline).await.remove(0);
        assert!(!outcomes[1].verdict().unwrap().allowed);
    }
    assert_eq!(bench.admitted(10, there).await, 3);
}

/// What is held of a share is given back to the share.
#[tokio::test]
async fn what_is_held_here_is_settled_by_the_share_it_was_held_by() {
    for algorithm in ALGORITHMS {
        let bench = Bench::new(2);
        let alice = take("r", "alice", algorithm, 10);
        bench.lose(&["r"]);
        let act = async |cost, action| {
            let op = Operation { take: Take { cost, ..alice }, action };
            let deadline = Deadline::after(Instant::now(), Duration::from_secs(1));
            bench.store.apply(&[Group::from_elem(op, 1)], deadline).await.remove(0)[0]
        };
        let id = HoldId([7, 7]);
        let held = act(5, Action::Hold { id, ttl: Span::from_secs(60) }).await;
        assert!(held.verdict().unwrap().allowed, "{algorithm:?}: all of its half");
        assert!(!act(1, Action::Take).await.verdict().unwrap().allowed, "{algorithm:?}");
        let settle = Operation { take: Take { cost: 1, ..alice }, action: Action::Settle { id } };
        assert!(matches!(bench.store.settle_alone(&settle), Some(Outcome::Local(said)) if said.allowed));
        assert_eq!(bench.store.settle_alone(&settle), None, "{algorithm:?}: once");
        assert_eq!(bench.admitted(10, alice).await, 4, "{algorithm:?}");
        bench.lose(&[]);
        let told = bench.apply(&[Take { cost: 0, ..alice }]).await[0];
        assert_eq!(told.verdict().unwrap().remaining, 5, "{algorithm:?}: five are known there");
    }
}

#[tokio::test]
async fn a_store_that_was_never_reached_is_stood_in_for() {
    let bench = Bench::new(2);
    let group = [Operation::from(take("r", "alice", Algorithm::TokenBucket, 10))];
    let allowed = |outcomes: &Outcomes| outcomes[0].verdict().is_some_and(|verdict| verdict.allowed);
    let admitted = (0..20).filter(|_| allowed(&bench.store.decide_alone(&group))).count();
    assert_eq!((admitted, bench.store.decided()), (5, 20));
    assert_eq!(bench.store.unsettled(), 0, "nobody else knows these keys");
    assert_eq!(bench.store.inner().asked.load(Ordering::Relaxed), 0);
}
