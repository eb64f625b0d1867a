//! Response times of a stretch of time, counted without a lock.

use std::array;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Bits of a response time that tell its bucket within a power of two: eight buckets each.
const STEP_BITS: u32 = 3;
const STEP_MASK: u64 = (1 << STEP_BITS) - 1;

/// Response times below this power of two nanoseconds (8 µs) share the first bucket.
const FIRST_POWER: u32 = 13;

/// Response times of this power of two nanoseconds (275 s) and more share the last bucket.
const LAST_POWER: u32 = 38;

/// Fewer responses than this are too few to go by.
const FEW: u32 = 10;

const BUCKETS: usize = ((LAST_POWER - FIRST_POWER) << STEP_BITS) as usize + 2;

/// Figures of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowSummary {
    /// Time that it covers.
    pub length: Duration,
    /// Median response time.
    pub latency: Duration,
    /// Average number of requests in flight when those that were answered had been admitted.
    pub in_flight: f64,
    /// Greatest number of requests in flight.
    pub peak: u32,
    /// Number of requests that were not admitted.
    pub refused: u32,
}

/// Counts what happens until it is [taken](Self::take).
#[derive(Debug, Default)]
pub struct Window {
    responses: Samples,
    abandoned: Samples,
    peak: AtomicU32,
    refused: AtomicU32,
}

/// Response times, and the requests in flight when those that they belong to were admitted.
#[derive(Debug)]
struct Samples {
    buckets: [AtomicU32; BUCKETS],
    count: AtomicU32,
    in_flight: AtomicU64,
}

/// Samples that were taken out of a window.
struct Taken {
    buckets: [u32; BUCKETS],
    count: u32,
    in_flight: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            buckets: array::from_fn(|_| AtomicU32::new(0)),
            count: AtomicU32::new(0),
            in_flight: AtomicU64::new(0),
        }
    }
}

impl Samples {
    fn add(&self, latency: Duration, in_flight: u32) {
        self.buckets[bucket(latency)].fetch_add(1, Relaxed);
        self.in_flight.fetch_add(u64::from(in_flight), Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    fn take(&self) -> Taken {
        Taken {
            buckets: array::from_fn(|index| self.buckets[index].swap(0, Relaxed)),
            count: self.count.swap(0, Relaxed),
            in_flight: self.in_flight.swap(0, Relaxed),
        }
    }
}

impl Taken {
    fn with(mut self, other: &Self) -> Self {
        for (own, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *own = own.saturating_add(*others);
        }
        self.count = self.count.saturating_add(other.count);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self
    }
}

impl Window {
    /// Counts a request that was admitted as the `in_flight`th.
    pub fn admitted(&self, in_flight: u32) {
        if self.peak.load(Relaxed) < in_flight {
            self.peak.fetch_max(in_flight, Relaxed);
        }
    }

    /// Counts a request that was not admitted.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Counts a response, `latency` after its request had been admitted as the `in_flight`th.
    pub fn responded(&self, latency: Duration, in_flight: u32) {
        self.responses.add(latency, in_flight);
    }

    /// Counts a request that was given up without a response, after it had been waited for so long.
    pub fn abandoned(&self, waited: Duration, in_flight: u32) {
        self.abandoned.add(waited, in_flight);
    }

    /// Returns how many responses it has seen.
    pub fn responses(&self) -> u32 {
        self.responses.count.load(Relaxed)
    }

    /// Returns what it has seen within `length`, and begins anew. `None` if there was nothing to learn from. What happens meanwhile may
    /// be counted in either of the two.
    ///
    /// Clients choose when they give up, so what they abandon counts only where there are too few responses to go by.
    pub fn take(&self, length: Duration) -> Option<WindowSummary> {
        let (responses, abandoned) = (self.responses.take(), self.abandoned.take());
        let (peak, refused) = (self.peak.swap(0, Relaxed), self.refused.swap(0, Relaxed));
        let samples = if responses.count >= FEW { responses } else { responses.with(&abandoned) };
        let latency = median(&samples.buckets)?;
        // Exact up to 2^53.
        let in_flight = samples.in_flight as f64 / f64::from(samples.count.max(1));
        Some(WindowSummary { length, latency, in_flight, peak, refused })
    }
}

fn bucket(latency: Duration) -> usize {
    let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    let power = nanos.max(1).ilog2();
    let index = match power {
        ..FIRST_POWER => 0,
        LAST_POWER.. => return BUCKETS - 1,
        power => {
            let step = (nanos >> (power - STEP_BITS)) & STEP_MASK;
            u64::from((power - FIRST_POWER) << STEP_BITS) + step + 1
        }
    };
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

/// Returns the least response time of a bucket, in nanoseconds.
fn bucket_start(index: usize) -> u64 {
    let Some(index) = (index as u64).checked_sub(1) else { return 0 };
    let power = u64::from(FIRST_POWER) + (index >> STEP_BITS);
    (1 << power) + ((index & STEP_MASK) << (power - u64::from(STEP_BITS)))
}

/// Returns the median, spread evenly over its bucket.
fn median(counts: &[u32; BUCKETS]) -> Option<Duration> {
    let total: u64 = counts.iter().copied().map(u64::from).sum();
    let mut before = 0;
    for (index, count) in counts.iter().copied().map(u64::from).enumerate() {
        if count > 0 && (before + count) * 2 >= total {
            let (start, end) = (bucket_start(index), bucket_start(index + 1));
            let within = (total - before * 2) as f64 / (count * 2) as f64;
            return Some(Duration::from_nanos(start) + Duration::from_nanos(end - start).mul_f64(within));
        }
        before += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: Duration = Duration::from_millis(100);

    #[test]
    fn it_begins_anew_when_it_is_taken() {
        let window = Window::default();
        assert_eq!(window.take(LENGTH), None);
        window.admitted(3);
        window.admitted(2);
        window.refused();
        window.responded(Duration::from_millis(20), 3);
        window.responded(Duration::from_millis(20), 2);
        assert_eq!(window.responses(), 2);
        let summary = window.take(LENGTH).unwrap();
        assert_eq!((summary.peak, summary.refused, summary.in_flight), (3, 1, 2.5));
        assert_eq!((window.responses(), window.take(LENGTH)), (0, None));
    }

    #[test]
    fn what_clients_abandon_counts_only_without_responses() {
        let window = Window::default();
        let millis = Duration::from_millis;
        let abandon = || (0..1_000).for_each(|_| window.abandoned(millis(900), 9));
        abandon();
        let summary = window.take(LENGTH).unwrap();
        assert!(summary.latency > millis(800) && summary.in_flight == 9.0, "{summary:?}");
        abandon();
        (0..10).for_each(|_| window.responded(millis(20), 2));
        let summary = window.take(LENGTH).unwrap();
        assert!(summary.latency < millis(25) && summary.in_flight == 2.0, "{summary:?}");
        assert_eq!(window.take(LENGTH), None);
    }

    proptest! {
        #[test]
        fn buckets_hold_what_they_say(nanos: u64) {
            let index = bucket(Duration::from_nanos(nanos));
            prop_assert!(bucket_start(index) <= nanos);
            prop_assert!(index == BUCKETS - 1 || nanos < bucket_start(index + 1));
        }

        #[test]
        fn the_median_is_within_an_eighth(mut micros in prop::collection::vec(10..10_000_000u64, 1..200)) {
            let window = Window::default();
            micros.iter().for_each(|micros| window.responded(Duration::from_micros(*micros), 1));
            micros.sort_unstable();
            let exact = micros[(micros.len() - 1) / 2] as f64;
            let told = window.take(LENGTH).unwrap().latency.as_secs_f64() * 1_000_000.0;
            prop_assert!((told / exact - 1.0).abs() <= 0.126, "{} instead of {}", told, exact);
        }
    }
}
