//! What only the memory store can be asked: threads, its ceiling, its sweeping.

use std::sync::Arc;
use std::thread;

use tidegate_core::{Algorithm, HoldId, Key, Quota, Retry, Secret, Span, Take, Timestamp, Verdict};

use super::*;
use crate::clock::ManualClock;

mod flood;
mod in_flight;

const NOW: Timestamp = Timestamp::from_millis(1_704_067_200_000);

fn store(max_keys: usize) -> (MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(NOW));
    (MemoryStore::new(max_keys, clock.clone()), clock)
}

fn quota(algorithm: Algorithm, limit: u64) -> Quota {
    Quota::new(algorithm, limit, Span::from_secs(3_600)).unwrap()
}

fn take<'r>(rule: &'r str, user: &str, quota: Quota) -> Take<'r> {
    let key = Key::new(rule, quota.algorithm(), Secret::new([3; 16]).encode().part(2, user.as_bytes()).tag());
    Take::new(key, quota, 1)
}

fn allowed(store: &MemoryStore, takes: &[Take<'_>], now: Timestamp) -> bool {
    let group: Group<'_> = takes.iter().copied().map(Operation::from).collect();
    store.apply_at(&group, now).iter().all(|outcome| outcome.verdict().unwrap().allowed)
}

/// Runs `work` in eight threads at once and adds up what they return.
fn in_eight_threads(work: impl Fn(usize) -> u64 + Sync) -> u64 {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                scope.spawn({
                    let work = &work;
                    move || work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn exactly_the_limit_is_admitted_under_contention() {
    for algorithm in Algorithm::REFILLING {
        let (store, _) = store(10_000);
        let take = take("r", "alice", quota(algorithm, 5_000));
        let admitted =
            in_eight_threads(|_| (0..1_000).map(|_| u64::from(allowed(&store, &[take], NOW))).sum());
        assert_eq!(admitted, 5_000, "{algorithm}");
    }
}

/// Groups over the same keys in different orders: no deadlock, and the tightest counter decides for all.
#[test]
fn all_or_nothing_under_contention() {
    for algorithm in Algorithm::REFILLING {
        let (store, _) = store(1_000_000);
        let wide = quota(algorithm, 20_000);
        let narrow = quota(algorithm, 50);
        let admitted = in_eight_threads(|number| {
            (0..500)
                .map(|round| {
                    let user = format!("user-{}", (number + round) % 10);
                    let mut group = [
                        take("all", "everybody", wide),
                        take("user", &user, narrow),
                        take("tenant", "acme", wide),
                    ];
                    group.rotate_left(round % 3);
                    u64::from(allowed(&store, &group, NOW))
                })
                .sum()
        });
        assert_eq!(admitted, 500, "{algorithm}: ten users with fifty each");
        let left = |rule, user: &str| {
            let peek = Operation { take: take(rule, user, wide), action: Action::Peek };
            store.apply_at(&[peek], NOW)[0].verdict().unwrap().remaining
        };
        assert_eq!(
            left("all", "everybody"),
            20_000 - admitted,
            "{algorithm}: no refused request was charged"
        );
        assert_eq!(left("tenant", "acme"), 20_000 - admitted, "{algorithm}");
    }
}

#[test]
fn ten_times_as_many_live_keys_as_the_ceiling() {
    const CEILING: usize = 2_000;
    for algorithm in Algorithm::REFILLING {
        let (store, _) = store(CEILING);
        let quota = quota(algorithm, 3);
        let mut admitted = vec![0; CEILING * 10];
        for _ in 0..3 {
            for (user, admitted) in admitted.iter_mut().enumerate() {
                let user = user.to_string();
                *admitted += (0..5).filter(|_| allowed(&store, &[take("r", &user, quota)], NOW)).count();
            }
        }
        assert!(store.keys() <= CEILING, "{algorithm}: {} keys", store.keys());
        assert_eq!(
            admitted.iter().max(),
            Some(&3),
            "{algorithm}: nobody is unlimited, however often evicted"
        );
        assert!(admitted.iter().sum::<usize>() >= CEILING * 3, "{algorithm}");
        assert!(store.evicted() > 0, "{algorithm}: it is metered");
        assert_eq!(store.overflowed(), 0, "{algorithm}: none had to share");
    }
}

/// Counters with holds have to stay, so that new keys share one.
#[test]
fn where_nothing_can_make_room_new_keys_share_a_counter() {
    for algorithm in Algorithm::REFILLING {
        let (store, _) = store(100);
        let quota = quota(algorithm, 3);
        for user in 0..100 {
            let hold = Action::Hold { id: crate::HoldId([user, 0]), ttl: Span::from_secs(60) };
            let op = Operation { take: take("r", &user.to_string(), quota), action: hold };
            assert!(store.apply_at(&[op], NOW)[0].verdict().unwrap().allowed);
        }
        let asked: Vec<Verdict> = (0..10)
            .map(|user| {
                let op = Operation::from(take("r", &format!("new {user}"), quota));
                *store.apply_at(&[op], NOW)[0].verdict().unwrap()
            })
            .collect();
        assert_eq!(asked.iter().filter(|verdict| verdict.allowed).count(), 3, "{algorithm}");
        assert_eq!(asked[9].retry, Retry::After(Span::from_secs(1)), "{algorithm}: not a whole window");
        assert_eq!((store.overflowed(), store.evicted(), store.keys()), (10, 0, 101), "{algorithm}");
    }
}

#[test]
fn keys_at_rest_make_room() {
    let (store, clock) = store(500);
    let quota = quota(Algorithm::FixedWindow, 1);
    for user in 0..500 {
        assert!(allowed(&store, &[take("r", &user.to_string(), quota)], NOW));
    }
    clock.advance(Span::from_secs(3_600));
    for user in 500..1_000 {
        assert!(allowed(&store, &[take("r", &user.to_string(), quota)], clock.now()));
    }
    assert_eq!(store.evicted(), 0, "the old keys were at rest");
    assert!(store.keys() <= 500);
}

#[test]
fn keys_at_rest_make_room_whatever_their_algorithm() {
    let (store, clock) = store(500);
    for user in 0..500 {
        assert!(allowed(&store, &[take("r", &user.to_string(), quota(Algorithm::FixedWindow, 1))], NOW));
    }
    clock.advance(Span::from_secs(3_600));
    for user in 0..500 {
        assert!(allowed(
            &store,
            &[take("s", &user.to_string(), quota(Algorithm::SlidingLog, 1))],
            clock.now()
        ));
    }
    assert_eq!(store.evicted(), 0);
}

#[test]
fn sweeping_forgets_keys_at_rest_and_only_those() {
    for algorithm in Algorithm::REFILLING {
        let (store, clock) = store(100_000);
        let short = Quota::new(algorithm, 2, Span::from_secs(1)).unwrap();
        for user in 0..5_000 {
            let quota = if user % 5 == 0 { quota(algorithm, 2) } else { short };
            assert!(allowed(&store, &[take("r", &user.to_string(), quota)], NOW));
        }
        store.sweep();
        assert_eq!(store.keys(), 5_000, "{algorithm}: all are live");
        clock.advance(Span::from_secs(2));
        store.sweep();
        assert_eq!(store.keys(), 1_000, "{algorithm}: the short ones are at rest");
        let quotas: usize = store.shards.iter().map(|shard| shard.0.lock().quotas()).sum();
        assert!(quotas <= store.shards.len(), "{algorithm}: nothing refers to the short quota any more");
        assert!(allowed(&store, &[take("r", "5", quota(algorithm, 2))], clock.now()));
        assert!(
            !allowed(&store, &[take("r", "5", quota(algorithm, 2))], clock.now()),
            "{algorithm}: the live ones have forgotten nothing"
        );
        clock.advance(Span::from_secs(7_200));
        store.sweep();
        assert_eq!(store.keys(), 0, "{algorithm}");
    }
}

#[test]
fn a_forgotten_hold_does_not_keep_its_key() {
    let (store, clock) = store(100);
    let quota = quota(Algorithm::TokenBucket, 10);
    let hold = Action::Hold { id: crate::HoldId([1, 0]), ttl: Span::from_secs(1) };
    store.apply_at(&[Operation { take: take("r", "alice", quota), action: hold }], NOW);
    store.sweep();
    assert_eq!(store.keys(), 1);
    clock.advance(Span::from_secs(1));
    store.sweep();
    store.sweep();
    assert_eq!(store.keys(), 0, "given back, and so at rest");
}

#[test]
fn holds_are_bounded() {
    let (store, _) = store(10);
    let quota = quota(Algorithm::TokenBucket, 1_000);
    let outcomes: Vec<Outcome> = (0..20)
        .map(|id| {
            let hold = Action::Hold { id: crate::HoldId([id, 0]), ttl: Span::from_secs(9) };
            store.apply_at(&[Operation { take: take("r", "alice", quota), action: hold }], NOW)[0]
        })
        .collect();
    assert!(outcomes[9].verdict().is_some());
    assert_eq!(outcomes[10], Outcome::Unavailable(Failure::Full));
}

/// Logs may hold many entries each; past the shard's share they are joined, and the limit still holds.
#[test]
fn logs_are_bounded_too() {
    let (store, clock) = store(100);
    let quota = Quota::new(Algorithm::SlidingLog, 100_000, Span::from_secs(3_600)).unwrap();
    let mut admitted = 0;
    for _ in 0..5_000 {
        clock.advance(Span::from_millis(1));
        admitted += u64::from(allowed(&store, &[take("r", "alice", quota)], clock.now()));
    }
    assert_eq!(admitted, 5_000);
    assert!(store.shards[0].0.lock().log_entries() <= 800);
    let peek = Operation { take: take("r", "alice", quota), action: Action::Peek };
    assert_eq!(store.apply_at(&[peek], clock.now())[0].verdict().unwrap().remaining, 95_000);
}
