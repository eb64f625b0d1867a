//! Nodes that know each other: one of them counts each key.

use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Quota, Retry, Span, Take};
use tidegate_store::{Action, Deadline, FallbackSettings, Group, HoldId, Operation, Outcome, Store};

use crate::fleet::Fleet;
use crate::support::{ALGORITHMS, HOUR, take};

/// A user whose key this node owns.
fn owned_by(fleet: &Fleet, node: usize, limit: u64) -> Take<'static> {
    let users = (0..).map(|number| take("r", &format!("user-{number}"), Algorithm::FixedWindow, limit));
    users.into_iter().find(|take| fleet.owner(take) == node).unwrap()
}

#[tokio::test]
async fn however_many_nodes_there_are_nobody_gets_more_than_the_limit() {
    for algorithm in ALGORITHMS {
        let fleet = Fleet::new(5);
        let alice = take("r", "alice", algorithm, 100);
        assert_eq!(fleet.admitted(60, alice).await, 60);
        fleet.set_all_away(true).await;
        assert_eq!(fleet.admitted(100, alice).await, 40, "{algorithm:?}");
        fleet.set_all_away(false).await;
        assert_eq!(fleet.admitted(20, alice).await, 0, "{algorithm:?}: before all is settled");
        fleet.settle().await;
        assert_eq!((fleet.admitted(20, alice).await, fleet.counted(&alice)), (0, 100), "{algorithm:?}");
        let admitted: u64 = fleet.nodes.iter().map(|node| node.settled().admitted).sum();
        let settled: u64 = fleet.nodes.iter().map(|node| node.settled().settled).sum();
        assert_eq!((admitted, settled), (40, 40), "{algorithm:?}");
    }
}

/// What one node alone has seen is what counts, whoever counts.
#[tokio::test]
async fn counting_goes_on_from_the_worst_that_anybody_knows() {
    let fleet = Fleet::new(5);
    for node in 0..5 {
        let user = owned_by(&fleet, node, 10);
        // The first node hears of all ten, the last one of none.
        for _ in 0..10 {
            assert!(fleet.admits(0, &[user]).await);
        }
        fleet.set_all_away(true).await;
        for asked in (0..5).rev() {
            assert!(!fleet.admits(asked, &[user]).await, "asked {asked}, owned by {node}");
        }
        fleet.set_all_away(false).await;
        fleet.settle().await;
    }
}

#[tokio::test]
async fn a_key_that_nobody_remembers_begins_with_a_share() {
    let fleet = Fleet::new(5);
    fleet.set_all_away(true).await;
    assert_eq!(fleet.admitted(100, take("r", "alice", Algorithm::FixedWindow, 50)).await, 10);
    fleet.clock.advance(HOUR);
    fleet.tend().await;
    assert_eq!(
        fleet.admitted(100, take("r", "alice", Algorithm::FixedWindow, 50)).await,
        50,
        "of the first window"
    );
    // A bucket goes on to refill as ever.
    let bob = take("r", "bob", Algorithm::TokenBucket, 60);
    assert_eq!(fleet.admitted(100, bob).await, 12);
    fleet.clock.advance(Span::from_secs(60));
    assert_eq!(fleet.admitted(100, bob).await, 1);
}

/// Who does not answer might know the worst, so a share is all there is until it does; in this outage, or in the next.
#[tokio::test]
async fn what_was_assumed_of_somebody_silent_is_given_back_once_it_has_spoken() {
    for again in [false, true] {
        let fleet = Fleet::new(3);
        let user = owned_by(&fleet, 0, 90);
        assert_eq!(fleet.admitted(30, user).await, 30);
        let ask = async |count: usize| {
            let mut admitted = 0;
            for _ in 0..count {
                admitted += u64::from(fleet.admits(0, &[user]).await);
            }
            admitted
        };
        fleet.set_all_away(true).await;
        fleet.set_silent(1, true);
        assert_eq!(ask(40).await, 30, "a share");
        fleet.set_silent(1, false);
        if again {
            fleet.set_all_away(false).await;
            fleet.settle().await;
            fleet.set_all_away(true).await;
        }
        assert_eq!(ask(40).await, 30, "the rest");
        fleet.set_all_away(false).await;
        fleet.settle().await;
        assert_eq!((ask(10).await, fleet.counted(&user)), (0, 90));
    }
}

#[tokio::test]
async fn nodes_without_the_store_use_that_of_others() {
    let fleet = Fleet::new(5);
    for algorithm in ALGORITHMS {
        let alice = take("r", "alice", algorithm, 100);
        fleet.set_away(0, true);
        fleet.set_away(1, true);
        fleet.tend().await;
        for number in 0..60 {
            let outcomes = fleet.apply(number % 5, &[alice]).await;
            assert!(matches!(outcomes[0], Outcome::Verdict(verdict) if verdict.allowed), "{outcomes:?}");
        }
        assert_eq!((fleet.admitted(100, alice).await, fleet.counted(&alice)), (40, 100), "{algorithm:?}");
        fleet.set_all_away(false).await;
        assert_eq!(fleet.nodes.iter().map(|node| node.settled().admitted).sum::<u64>(), 0);
    }
}

/// Also for keys that were looked at, but not taken from, while nobody had the store.
#[tokio::test]
async fn an_owner_goes_back_to_the_store_as_soon_as_anybody_has_it() {
    let fleet = Fleet::new(4);
    let user = owned_by(&fleet, 3, 10);
    assert_eq!(fleet.admitted(5, user).await, 5);
    fleet.set_all_away(true).await;
    let looked = fleet.apply(3, &[Take { cost: 0, ..user }]).await[0];
    assert!(matches!(looked, Outcome::Local(verdict) if verdict.remaining == 5), "{looked:?}");
    fleet.set_away(1, false);
    fleet.tend().await;
    for node in 0..4 {
        let taken = fleet.apply(node, &[user]).await[0];
        assert!(matches!(taken, Outcome::Verdict(verdict) if verdict.allowed), "{taken:?}");
    }
    assert_eq!((fleet.admitted(10, user).await, fleet.counted(&user)), (1, 10));
}

#[tokio::test]
async fn an_owner_that_is_slow_is_waited_for_another_second() {
    let fleet = Fleet::new(3);
    let user = owned_by(&fleet, 2, 100);
    assert_eq!(fleet.admitted(30, user).await, 30);
    fleet.set_all_away(true).await;
    fleet.set_silent(2, true);
    let outcome = fleet.apply(0, &[user]).await[0];
    let Outcome::Local(verdict) = outcome else { panic!("{outcome:?}") };
    assert_eq!((verdict.allowed, verdict.retry), (false, Retry::After(Span::from_secs(1))));
    fleet.set_silent(2, false);
    assert_eq!(fleet.admitted(100, user).await, 70);
    // Nobody asks the store behind the back of one that may have counted.
    fleet.set_silent(2, true);
    fleet.set_all_away(false).await;
    assert!(!fleet.admits(0, &[user]).await);
    fleet.set_silent(2, false);
    fleet.settle().await;
    assert_eq!((fleet.admitted(10, user).await, fleet.counted(&user)), (0, 100));
}

#[tokio::test]
async fn requests_may_be_refused_where_the_owner_is_not() {
    let fleet = Fleet::with(3, |settings| FallbackSettings { deny_when_not_owner: true, ..settings });
    let user = owned_by(&fleet, 1, 10);
    assert_eq!(fleet.admitted(3, user).await, 3);
    fleet.set_all_away(true).await;
    let calls = fleet.calls();
    assert!(!fleet.admits(0, &[user]).await && !fleet.admits(2, &[user]).await);
    assert_eq!(fleet.calls(), calls, "nobody was asked");
    let mut admitted = 0;
    for _ in 0..20 {
        admitted += u64::from(fleet.admits(1, &[user]).await);
    }
    assert_eq!(admitted, 7);
}

/// All or nothing, wherever the keys of a request are counted.
#[tokio::test]
async fn a_request_with_several_owners_takes_from_all_or_none() {
    let fleet = Fleet::new(3);
    let users: Vec<Take<'static>> = (0..3).map(|node| owned_by(&fleet, node, [5, 8, 20][node])).collect();
    for user in &users {
        assert!(fleet.admits(0, &[*user]).await);
    }
    fleet.set_all_away(true).await;
    let mut admitted = 0;
    for number in 0..30 {
        admitted += u64::from(fleet.admits(number % 3, &users).await);
    }
    assert_eq!(admitted, 4, "as many as the tightest has left");
    // Holds of refused requests are let go of after a moment.
    fleet.clock.advance(Span::from_secs(2));
    assert_eq!((fleet.admitted(30, users[1]).await, fleet.admitted(30, users[2]).await), (3, 15));
    fleet.set_all_away(false).await;
    fleet.settle().await;
    assert_eq!(users.iter().map(|user| fleet.counted(user)).collect::<Vec<_>>(), [5, 8, 20]);
}

/// That a hold is gone says nothing about its counter: it took too long to be settled, and that is all.
#[tokio::test]
async fn a_hold_that_is_gone_has_nothing_forgotten() {
    let fleet = Fleet::new(3);
    let user = owned_by(&fleet, 1, 10);
    for _ in 0..3 {
        assert!(fleet.admits(0, &[user]).await, "which one node alone knows of");
    }
    fleet.set_all_away(true).await;
    let settle = Operation { take: user, action: Action::Settle { id: HoldId([7, 7]) } };
    let groups: [Group<'_>; 1] = [Group::from_elem(settle, 1)];
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(10));
    let outcomes = fleet.nodes[0].apply(&groups, deadline).await.remove(0);
    assert!(outcomes[0].verdict().is_some_and(|verdict| !verdict.allowed), "{outcomes:?}");
    assert_eq!(fleet.admitted(30, user).await, 7, "as if nobody had asked");
}

/// What is known of the owner that is gone is what others heard from it.
#[tokio::test]
async fn an_owner_that_dies_takes_with_it_only_what_it_told_nobody() {
    let fleet = Fleet::new(5);
    let user = owned_by(&fleet, 3, 100);
    assert_eq!(fleet.admitted(20, user).await, 20);
    fleet.set_all_away(true).await;
    let mut admitted = 20;
    for _ in 0..10 {
        // Whoever asked another node has heard what is left.
        admitted += u64::from(fleet.admits(0, &[user]).await);
    }
    let mut unheard = 0;
    for _ in 0..7 {
        unheard += u64::from(fleet.admits(3, &[user]).await);
    }
    assert_eq!((admitted, unheard), (30, 7));
    fleet.cut(&[3]);
    fleet.set_silent(3, true);
    for number in 0..200 {
        admitted += u64::from(fleet.admits([0, 1, 2, 4][number % 4], &[user]).await);
    }
    // Of a hundred, four nodes of five may hand out eighty, of which those that were heard of are gone in proportion.
    assert!((80..=100).contains(&admitted), "{admitted}");
    assert!(admitted + unheard <= 100 + 7, "no more than the limit and what nobody was told");
}

/// The bound while nodes are parted: the side with the owner has the whole limit, the other one its share of it.
#[tokio::test]
async fn parted_nodes_exceed_a_limit_by_the_share_of_the_smaller_side_at_most() {
    for (side, most) in [(vec![0, 1], 140), (vec![0, 1, 2], 160)] {
        let fleet = Fleet::new(5);
        let user = owned_by(&fleet, 4, 100);
        assert_eq!(fleet.admitted(5, user).await, 5);
        fleet.set_all_away(true).await;
        assert_eq!(fleet.admitted(5, user).await, 5);
        fleet.cut(&side);
        fleet.tend().await;
        let mut admitted = 10 + fleet.admitted(500, user).await;
        assert!((101..=most).contains(&admitted), "{side:?}: {admitted}");
        // Together again, and with the store, nobody gets any more.
        fleet.heal();
        admitted += fleet.admitted(100, user).await;
        assert!(admitted <= most, "{side:?}: {admitted}");
        fleet.set_all_away(false).await;
        fleet.settle().await;
        assert_eq!((fleet.admitted(20, user).await, fleet.counted(&user)), (0, 100));
    }
}

#[tokio::test]
async fn in_an_emergency_each_key_has_a_small_allowance() {
    let cap = Quota::new(Algorithm::FixedWindow, 3, Span::from_secs(60)).unwrap();
    let fleet = Fleet::with(1, |settings| FallbackSettings { emergency: cap, ..settings });
    let alice = take("r", "alice", Algorithm::TokenBucket, 100);
    let other = take("other", "alice", Algorithm::TokenBucket, 100);
    let refusing = Take {
        on_store_failure: tidegate_core::rule::OnStoreFailure::LocalOrDeny,
        ..take("refusing", "alice", Algorithm::TokenBucket, 100)
    };
    fleet.set_all_away(true).await;
    assert_eq!(fleet.admitted(10, refusing).await, 10);
    fleet.nodes[0].set_emergency(true);
    assert_eq!(fleet.admitted(50, alice).await, 3);
    assert_eq!(fleet.admitted(50, other).await, 3, "each rule by itself");
    assert_eq!(fleet.admitted(50, refusing).await, 0, "unless a rule will have none of it");
    fleet.clock.advance(Span::from_secs(60));
    assert_eq!(fleet.admitted(50, alice).await, 3);
    fleet.nodes[0].set_emergency(false);
    assert_eq!(
        fleet.admitted(500, alice).await,
        94 + 1,
        "what was used of the limit itself is used, and a minute gave back one"
    );
}

#[tokio::test]
async fn a_payment_whose_answer_is_lost_is_made_once() {
    let fleet = Fleet::new(3);
    let user = owned_by(&fleet, 0, 100);
    assert_eq!(fleet.admitted(10, user).await, 10);
    fleet.set_all_away(true).await;
    assert_eq!(fleet.admitted(20, user).await, 20);
    fleet.set_mute(0, true);
    fleet.set_all_away(false).await;
    // Paid, but nobody knows.
    for _ in 0..3 {
        let deadline =
            tidegate_store::Deadline::after(std::time::Instant::now(), std::time::Duration::from_secs(1));
        fleet.nodes[0].settle_some(10, deadline).await;
    }
    assert_eq!((fleet.counted(&user), fleet.nodes[0].unsettled()), (30, 1));
    fleet.set_mute(0, false);
    fleet.settle().await;
    assert_eq!((fleet.counted(&user), fleet.nodes[0].settled().settled), (30, 20), "once");
}
