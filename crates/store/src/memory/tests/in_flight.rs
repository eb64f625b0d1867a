//! Requests in flight, which no passing of time gives back.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const HOLD_FOR: Span = Span::from_secs(60);

fn slots(limit: u64) -> Quota {
    Quota::new(Algorithm::InFlight, limit, HOLD_FOR).unwrap()
}

fn one(store: &MemoryStore, take: Take<'_>, action: Action, now: Timestamp) -> Verdict {
    *store.apply_at(&[Operation { take, action }], now)[0].verdict().unwrap()
}

fn hold(store: &MemoryStore, take: Take<'_>, id: u64, now: Timestamp) -> Verdict {
    one(store, take, Action::Hold { id: HoldId([0, id]), ttl: HOLD_FOR }, now)
}

fn release(store: &MemoryStore, take: Take<'_>, id: u64, now: Timestamp) -> bool {
    one(store, Take { cost: 0, ..take }, Action::Settle { id: HoldId([0, id]) }, now).allowed
}

fn left(store: &MemoryStore, take: Take<'_>, now: Timestamp) -> u64 {
    one(store, Take { cost: 0, ..take }, Action::Peek, now).remaining
}

#[test]
fn a_slot_is_usable_as_soon_as_it_is_given_back() {
    let (store, _) = store(100);
    let take = take("r", "alice", slots(2));
    assert!(hold(&store, take, 1, NOW).allowed && hold(&store, take, 2, NOW).allowed);
    let refused = hold(&store, take, 3, NOW);
    let said = (refused.allowed, refused.remaining, refused.retry, refused.held);
    assert_eq!(said, (false, 0, Retry::After(Span::from_secs(1)), true));
    assert!(release(&store, take, 1, NOW));
    assert!(!release(&store, take, 1, NOW), "once");
    assert!(hold(&store, take, 3, NOW).allowed);
    assert_eq!(left(&store, take, NOW), 0);
}

#[test]
fn a_slot_that_nobody_gives_back_comes_back_by_itself() {
    let (store, _) = store(100);
    let take = take("r", "alice", slots(2));
    // One that nobody can give back, and one that nobody does.
    assert!(one(&store, take, Action::Take, NOW).allowed && hold(&store, take, 1, NOW).allowed);
    let before = NOW + Span::from_millis(HOLD_FOR.as_millis() - 1);
    assert_eq!((left(&store, take, before), left(&store, take, NOW + HOLD_FOR)), (0, 2));
    assert!(!release(&store, take, 1, NOW + HOLD_FOR), "it is gone");
    assert_eq!(left(&store, take, NOW + HOLD_FOR), 2);
}

#[test]
fn settling_gives_all_of_it_back_whatever_it_is_said_to_cost() {
    let (store, _) = store(100);
    let take = Take { cost: 3, ..take("r", "alice", slots(5)) };
    assert!(hold(&store, take, 1, NOW).allowed);
    assert!(one(&store, take, Action::Settle { id: HoldId([0, 1]) }, NOW).allowed);
    assert_eq!(left(&store, take, NOW), 5);
}

#[test]
fn what_is_returned_is_returned_once() {
    let (store, _) = store(100);
    let take = take("r", "alice", slots(3));
    for _ in 0..2 {
        assert!(one(&store, take, Action::Take, NOW).allowed);
    }
    assert!(hold(&store, take, 1, NOW).allowed);
    for left in [1, 2, 2] {
        let returned = one(&store, take, Action::Return { since: Timestamp::LATEST }, NOW);
        assert_eq!(returned.remaining, left, "a hold with a name is only settled by its name");
    }
    assert_eq!(left(&store, take, NOW + HOLD_FOR), 3);
}

#[test]
fn a_retry_is_in_flight_beside_the_request_that_it_repeats() {
    let (store, _) = store(100);
    let request_id = Some(Secret::new([3; 16]).request_id("r-1"));
    let take = Take { request_id, ..take("r", "alice", slots(2)) };
    for allowed in [true, true, false] {
        assert_eq!(one(&store, take, Action::Take, NOW).allowed, allowed);
    }
}

#[test]
fn a_group_that_is_refused_holds_nothing() {
    let (store, _) = store(100);
    let (slot, blocked) = (take("r", "alice", slots(2)), take("b", "bob", quota(Algorithm::FixedWindow, 0)));
    let hold = Action::Hold { id: HoldId([0, 1]), ttl: HOLD_FOR };
    let group = [Operation { take: slot, action: hold }, Operation::from(blocked)];
    assert!(!store.apply_at(&group, NOW)[1].verdict().unwrap().allowed);
    assert_eq!(left(&store, slot, NOW), 2);
}

/// There is room for two holds.
#[test]
fn what_cannot_be_kept_track_of_is_refused() {
    let (store, _) = store(2);
    let alice = take("r", "alice", slots(10));
    for id in 1..=2 {
        assert!(hold(&store, alice, id, NOW).allowed);
    }
    for action in [Action::Hold { id: HoldId([0, 3]), ttl: HOLD_FOR }, Action::Take] {
        let refused = one(&store, alice, action, NOW);
        assert_eq!((refused.allowed, refused.retry), (false, Retry::After(Span::from_secs(1))));
    }
    assert!(release(&store, alice, 1, NOW));
    assert!(hold(&store, alice, 3, NOW).allowed);
}

#[derive(Clone, Debug)]
enum Event {
    Begin { user: usize, cost: u64, named: bool },
    End { which: prop::sample::Index },
    Wait { ms: u64 },
    Sweep,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..6usize, 1..3u64, prop::bool::weighted(0.8))
            .prop_map(|(user, cost, named)| Event::Begin { user, cost, named }),
        4 => any::<prop::sample::Index>().prop_map(|which| Event::End { which }),
        1 => (0..40_000u64).prop_map(|ms| Event::Wait { ms }),
        1 => Just(Event::Sweep),
    ];
    prop::collection::vec(event, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Against a list of all that is in flight: never more than the limit of anybody, exactly that where there is room for all keys,
    /// and in the end all of it is back. With fewer places than keys, some share a counter.
    #[test]
    fn never_more_than_the_limit(events in events(), max_keys in prop::sample::select(vec![2usize, 5, 1_000]), limit in 1u64..5) {
        let (store, clock) = store(max_keys);
        let users = ["a", "b", "c", "d", "e", "f"];
        let takes = users.map(|user| take("r", user, slots(limit)));
        let mut open: HashMap<u64, (usize, u64, Timestamp, bool)> = HashMap::new();
        let mut ids = 0u64;
        for event in events {
            let now = clock.now();
            open.retain(|_, (.., until, _)| *until > now);
            match event {
                Event::Begin { user, cost, named } => {
                    ids += 1;
                    let take = Take { cost, ..takes[user] };
                    let verdict = match named {
                        true => hold(&store, take, ids, now),
                        false => one(&store, take, Action::Take, now),
                    };
                    let used: u64 = open.values().filter(|(by, ..)| *by == user).map(|(_, cost, ..)| cost).sum();
                    prop_assert!(!verdict.allowed || used + cost <= limit, "{used} and {cost} of {limit}");
                    if max_keys == 1_000 {
                        prop_assert_eq!(verdict.allowed, used + cost <= limit);
                    }
                    if verdict.allowed {
                        open.insert(ids, (user, cost, now + HOLD_FOR, named));
                    }
                }
                Event::End { which } => {
                    let mut named: Vec<u64> =
                        open.iter().filter(|(_, (.., named))| *named).map(|(id, _)| *id).collect();
                    named.sort_unstable();
                    if !named.is_empty() {
                        let id = named[which.index(named.len())];
                        let (user, ..) = open.remove(&id).unwrap();
                        prop_assert!(release(&store, takes[user], id, now));
                    }
                }
                Event::Wait { ms } => clock.advance(Span::from_millis(ms)),
                Event::Sweep => store.sweep(),
            }
        }
        clock.advance(HOLD_FOR);
        for take in takes {
            prop_assert_eq!(left(&store, take, clock.now()), limit);
        }
        // The first round gives back what has expired, the second forgets it.
        store.sweep();
        store.sweep();
        prop_assert_eq!(store.keys(), 0);
    }
}
