//! How long things take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::striped::Striped;

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

/// A histogram without a lock: every thread counts in a part of its own, and reading adds them up.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64; BOUNDS],
    stripes: Striped<Stripe>,
}

/// From 1 µs to 100 ms.
impl Default for Histogram {
    fn default() -> Self {
        Self { bounds: &FAST, stripes: Striped::default() }
    }
}

#[derive(Debug, Default)]
struct Stripe {
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
        Self { bounds: &SLOW, stripes: Striped::default() }
    }

    /// Counts something that took this long.
    pub fn observe(&self, duration: Duration) {
        self.observe_many(duration, 1);
    }

    /// Counts so many things that took this long each.
    pub fn observe_many(&self, duration: Duration, many: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.bounds.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS);
        let mine = self.stripes.mine();
        mine.add(|stripe| &stripe.counts[bucket], many);
        mine.add(|stripe| &stripe.sum, nanos.saturating_mul(many));
    }

    /// What was counted so far.
    pub fn read(&self) -> Observed {
        let count = |bucket: usize| -> u64 {
            self.stripes.iter().map(|stripe| stripe.counts[bucket].load(Ordering::Relaxed)).sum()
        };
        let bounds = self.bounds.iter().copied().map(seconds).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip((0..=BOUNDS).map(count)).collect();
        let sum =
            self.stripes.iter().map(|stripe| stripe.sum.load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
        let count = buckets.iter().map(|(_, count)| count).sum();
        Observed { buckets, sum: seconds(sum), count }
    }
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}
