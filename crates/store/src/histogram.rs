//! How long things take.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets in nanoseconds, from 1 µs to 100 ms: for decisions.
static FAST: [u64; BOUNDS] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
];

/// From 100 µs to a minute: for what others do.
static SLOW: [u64; BOUNDS] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
    60_000_000_000,
];

/// How many bounds there are.
const BOUNDS: usize = 16;

/// Enough that the threads of a server seldom share one.
pub(crate) const SHARDS: usize = 16;

/// A histogram without a lock: every thread counts in a part of its own, and reading adds them up.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64; BOUNDS],
    shards: [Shard; SHARDS],
}

/// From 1 µs to 100 ms.
impl Default for Histogram {
    fn default() -> Self {
        Self { bounds: &FAST, shards: Default::default() }
    }
}

/// On cache lines of its own, so that two threads never wait for each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    counts: [AtomicU64; BOUNDS + 1],
    sum: AtomicU64,
}

/// What a histogram has seen so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The upper bound of each bucket in seconds, the last one infinite, and how much fell into it.
    pub buckets: Vec<(f64, u64)>,
    /// All of it together, in seconds.
    pub sum: f64,
    /// How often.
    pub count: u64,
}

impl Histogram {
    /// From 100 µs to a minute, for what takes longer than a decision.
    pub fn slow() -> Self {
        Self { bounds: &SLOW, shards: Default::default() }
    }

    /// Counts something that took this long.
    pub fn observe(&self, duration: Duration) {
        self.observe_many(duration, 1);
    }

    /// Counts so many things that took this long each.
    pub fn observe_many(&self, duration: Duration, many: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.bounds.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS);
        let shard = &self.shards[thread_number() % SHARDS];
        shard.counts[bucket].fetch_add(many, Ordering::Relaxed);
        shard.sum.fetch_add(nanos.saturating_mul(many), Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn read(&self) -> Observed {
        let count = |bucket: usize| -> u64 {
            self.shards.iter().map(|shard| shard.counts[bucket].load(Ordering::Relaxed)).sum()
        };
        let bounds = self.bounds.iter().copied().map(seconds).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip((0..=BOUNDS).map(count)).collect();
        let sum =
            self.shards.iter().map(|shard| shard.sum.load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
        let count = buckets.iter().map(|(_, count)| count).sum();
        Observed { buckets, sum: seconds(sum), count }
    }
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// A number of this thread's own, counted up from 0.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) });
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
