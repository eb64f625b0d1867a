//! Bytes per live key at a million keys, counted by the allocator, beside governor on the same keys.
#![allow(missing_docs, clippy::cast_precision_loss, reason = "a benchmark")]

use std::num::NonZeroU32;
use std::sync::Arc;

use allocation_counter::measure;
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use tidegate::core::{Key, Secret, Take};
use tidegate::store::{Action, MemoryStore, Operation};
use tidegate::{Algorithm, Quota, Span, SystemClock, Timestamp};

const KEYS: usize = 1_000_000;

fn main() {
    println!("memory: bytes per live key at {KEYS} keys, allocated and kept\n");
    println!("| store | key text | bytes per key |");
    println!("|---|---|---|");
    for length in [16, 100] {
        let name = |number: usize| format!("{number:0length$}");
        governor_row(length, name);
        for algorithm in
            [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog]
        {
            ours_row(algorithm, length, name);
        }
    }
    println!(
        "\nA sliding log also keeps 16 bytes for each millisecond of the last window that saw a request (here: one, in"
    );
    println!("the four slots that its first request allocates).");
}

fn row(label: &str, length: usize, bytes: i64) {
    println!("| {label} | {length} | {:.0} |", bytes as f64 / KEYS as f64);
}

fn governor_row(length: usize, name: impl Fn(usize) -> String) {
    let limiter: DefaultKeyedRateLimiter<String> =
        RateLimiter::keyed(governor::Quota::per_second(NonZeroU32::new(10).expect("not zero")));
    let info = measure(|| (0..KEYS).for_each(|number| drop(limiter.check_key(&name(number)))));
    row("governor, text", length, info.bytes_current);
}

fn ours_row(algorithm: Algorithm, length: usize, name: impl Fn(usize) -> String) {
    let quota = Quota::new(algorithm, 10, Span::from_secs(3_600)).expect("in range");
    let store = MemoryStore::new(2 * KEYS, Arc::new(SystemClock));
    let now = Timestamp::from_millis(1_704_067_200_000);
    let info = measure(|| {
        for number in 0..KEYS {
            let key = Key::new(
                "bench",
                algorithm,
                Secret::new([9; 16]).encode().part(2, name(number).as_bytes()).tag(),
            );
            let take = Take::new(key, quota, 1);
            store.apply_at(&[Operation { take, action: Action::Take }], now);
        }
    });
    assert_eq!(store.keys(), KEYS);
    row(&format!("tidegate, {algorithm}"), length, info.bytes_current);
}
