//! Clients that make up identities.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const CEILING: usize = 256;

/// What a client does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// An identity that was never used before, so many times.
    Invented(u8),
    /// One of a few that come again and again.
    Regular(u8),
    /// The attacker's own.
    Own,
    /// Time passes, in tenths of the window.
    Wait(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        30 => (1u8..=3).prop_map(Act::Invented),
        3 => (0u8..8).prop_map(Act::Regular),
        3 => Just(Act::Own),
        1 => (1u8..4).prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 1..3_000)
}

/// Asks for one more request of `user`.
fn ask(store: &MemoryStore, user: &str, quota: Quota, now: Timestamp) -> Verdict {
    *store.apply_at(&[take("r", user, quota).into()], now)[0].verdict().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is flooded, nobody is admitted more often in any window than the limit says.
    #[test]
    fn nobody_gains_by_being_evicted(
        acts in acts(),
        limit in 1u64..12,
        algorithm in prop::sample::select(Algorithm::REFILLING.to_vec()),
    ) {
        let (store, clock) = store(CEILING);
        let quota = quota(algorithm, limit);
        let window = quota.window().as_millis();
        let mut admitted: HashMap<String, Vec<u64>> = HashMap::new();
        let mut invented = 0;
        for act in acts {
            let (user, times) = match act {
                Act::Invented(times) => {
                    invented += 1;
                    (format!("invented {invented}"), times)
                }
                Act::Regular(number) => (format!("regular {number}"), 1),
                Act::Own => ("own".to_owned(), 1),
                Act::Wait(tenths) => {
                    clock.advance(Span::from_millis(window / 10 * u64::from(tenths)));
                    store.sweep();
                    continue;
                }
            };
            for _ in 0..times {
                let now = clock.now();
                if ask(&store, &user, quota, now).allowed {
                    admitted.entry(user.clone()).or_default().push(now.as_millis());
                }
            }
            prop_assert!(store.keys() <= CEILING);
        }
        for (user, times) in admitted {
            let most = most_in_a_window(&times, window, algorithm);
            // A bucket is refilled while the window lasts.
            let allowed = if algorithm == Algorithm::TokenBucket { 2 * limit } else { limit };
            prop_assert!(most as u64 <= allowed, "{user}: {most} of {limit} by {algorithm}");
        }
    }
}

/// Returns how many of the `times` are in the window that has most of them.
fn most_in_a_window(times: &[u64], window: u64, algorithm: Algorithm) -> usize {
    let ends_with = |start: u64| match algorithm {
        // Their windows are those of the clock.
        Algorithm::FixedWindow | Algorithm::SlidingWindow => (start / window + 1) * window,
        Algorithm::TokenBucket | Algorithm::SlidingLog | Algorithm::InFlight => start + window,
    };
    let counts = times
        .iter()
        .enumerate()
        .map(|(index, start)| times[index..].iter().take_while(|at| **at < ends_with(*start)).count());
    counts.max().unwrap_or_default()
}

/// An attacker uses up an identity, has its counter evicted, and tries again, in no time.
#[test]
fn having_a_counter_evicted_gains_nothing() {
    for algorithm in Algorithm::REFILLING {
        for limit in [1, 2, 5, 100, 1_000] {
            let (store, _) = store(CEILING);
            let quota = quota(algorithm, limit);
            let (mut admitted, mut invented) = (0, 0);
            for _ in 0..limit + 20 {
                admitted += u64::from(ask(&store, "own", quota, NOW).allowed);
                for _ in 0..CEILING / 4 {
                    invented += 1;
                    ask(&store, &format!("invented {invented}"), quota, NOW);
                }
            }
            assert!(admitted <= limit, "{algorithm}: {admitted} of {limit}");
            assert!(store.evicted() > 0);
        }
    }
}

/// While ten times as many identities are made up as there is room for, others are served as if nobody did.
#[test]
fn a_flood_keeps_nobody_from_being_served() {
    for algorithm in Algorithm::REFILLING {
        let (store, _) = store(CEILING);
        let quota = quota(algorithm, 20);
        for round in 0..10 {
            for number in 0..CEILING {
                ask(&store, &format!("invented {round} {number}"), quota, NOW);
                if number % 32 == 0 {
                    let newcomer = format!("newcomer {round} {number}");
                    assert!(ask(&store, &newcomer, quota, NOW).allowed, "{algorithm}: {newcomer}");
                }
            }
            for user in 0..8 {
                let user = format!("regular {user}");
                assert!(ask(&store, &user, quota, NOW).allowed, "{algorithm}: {user} for the {round}th time");
            }
        }
        assert!(store.evicted() > 2_000 && store.keys() <= CEILING);
    }
}

/// Once more has been evicted than can be told apart, a newcomer may be refused for what strangers have used: for a second, and not
/// longer than those are remembered.
#[test]
fn newcomers_are_never_told_to_wait_for_strangers() {
    for algorithm in Algorithm::REFILLING {
        let (store, clock) = store(CEILING);
        let quota = quota(algorithm, 2);
        for number in 0..20 * CEILING {
            ask(&store, &format!("invented {number}"), quota, NOW);
        }
        let newcomers = (0..1_000).map(|number| ask(&store, &format!("newcomer {number}"), quota, NOW));
        let refused: Vec<Verdict> = newcomers.filter(|verdict| !verdict.allowed).collect();
        assert!(!refused.is_empty(), "{algorithm}");
        let second = Retry::After(Span::from_secs(1));
        assert_eq!(refused.iter().find(|verdict| verdict.retry != second), None, "{algorithm}");
        clock.advance(Span::from_secs(2 * 3_600));
        for number in 0..CEILING {
            let verdict = ask(&store, &format!("late {number}"), quota, clock.now());
            assert!(verdict.allowed && verdict.remaining == 1, "{algorithm}");
        }
    }
}

/// What was used of a counter that keys had to share counts towards those that they have later.
#[test]
fn a_shared_counter_is_not_left_behind() {
    for algorithm in Algorithm::REFILLING {
        let (store, clock) = store(CEILING);
        let quota = quota(algorithm, 3);
        for user in 0..CEILING as u64 {
            let hold = Action::Hold { id: crate::HoldId([user, 0]), ttl: Span::from_secs(1) };
            let op = Operation { take: take("r", &user.to_string(), quota), action: hold };
            assert!(store.apply_at(&[op], NOW)[0].verdict().unwrap().allowed);
        }
        let shared = (0..5).filter(|_| ask(&store, "own", quota, NOW).allowed).count();
        assert_eq!((shared, store.overflowed()), (3, 5), "{algorithm}");
        clock.advance(Span::from_secs(2));
        store.sweep();
        store.sweep();
        assert!(store.keys() < CEILING, "{algorithm}: there is room again");
        assert!(!ask(&store, "own", quota, clock.now()).allowed, "{algorithm}");
    }
}

/// Explaining what would be decided changes nothing.
#[test]
fn looking_evicts_nothing() {
    let (store, _) = store(CEILING);
    let quota = quota(Algorithm::FixedWindow, 5);
    for number in 0..CEILING {
        ask(&store, &number.to_string(), quota, NOW);
    }
    let peek = Operation { take: take("r", "somebody", quota), action: Action::Peek };
    let verdict = *store.apply_at(&[peek], NOW)[0].verdict().unwrap();
    assert!(verdict.allowed && verdict.remaining == 5);
    assert_eq!((store.keys(), store.evicted(), store.overflowed()), (CEILING, 0, 0));
}
