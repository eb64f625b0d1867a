//! Usage of counters that had to make room for others.
//!
//! A counter that is evicted and comes back must not start anew, or a client could have its own counter evicted and take its
//! limit again. So what it had used is remembered, in a byte of fixed place instead of a slot: never less than it was, and more
//! only if others that were evicted share all its bytes.

use tidegate_core::{Quota, Timestamp};

use super::Fingerprint;

/// Bytes for each counter of the ceiling.
const BYTES_PER_KEY: usize = 4;

/// Usage remembered of evicted counters, in 1/255 of their capacity, rounded up.
///
/// A counter has two bytes, found by its fingerprint, and is taken to have used the lesser of them: what it had used itself, or what
/// strangers with those bytes had. There are two generations, so that bytes are forgotten once all counters of theirs would be at rest.
#[derive(Debug, Default)]
pub(super) struct Evicted {
    current: Generation,
    previous: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    /// Empty if nothing is remembered.
    levels: Box<[u8]>,
    /// When the last of its counters would be at rest.
    until: Timestamp,
}

impl Evicted {
    /// Remembers that the counter of `fingerprint` had `used` so much of `quota` and would be at rest at `until`. There are
    /// `max_keys` counters at most.
    pub(super) fn remember(
        &mut self,
        fingerprint: Fingerprint,
        used: u64,
        quota: &Quota,
        until: Timestamp,
        max_keys: usize,
    ) {
        let level = level(used, quota.capacity());
        if level == 0 {
            return;
        }
        if self.current.levels.is_empty() {
            self.current.levels = vec![0; max_keys.saturating_mul(BYTES_PER_KEY).max(2)].into();
        }
        self.current.raise(fingerprint, level);
        self.current.until = self.current.until.max(until);
    }

    /// Returns how much of `quota` the counter of `fingerprint` may have used before it was evicted: at least what it had, nothing
    /// if it never was, unless others share all its bytes.
    pub(super) fn used(&self, fingerprint: Fingerprint, quota: &Quota, now: Timestamp) -> u64 {
        let generations = [&self.current, &self.previous].into_iter().filter(|known| known.until > now);
        let level = generations.map(|known| known.level(fingerprint)).max();
        amount(level.unwrap_or_default(), quota.capacity())
    }

    /// Forgets what is over by `now`.
    pub(super) fn tidy(&mut self, now: Timestamp) {
        if self.previous.until <= now {
            // What is evicted from now on is told apart from what was before, which is forgotten sooner then.
            self.previous = std::mem::take(&mut self.current);
            if self.previous.until <= now {
                self.previous = Generation::default();
            }
        }
    }
}

impl Generation {
    fn raise(&mut self, fingerprint: Fingerprint, level: u8) {
        for place in places(fingerprint, self.levels.len()) {
            if let Some(known) = self.levels.get_mut(place) {
                *known = level.max(*known);
            }
        }
    }

    fn level(&self, fingerprint: Fingerprint) -> u8 {
        let levels = places(fingerprint, self.levels.len()).map(|place| self.levels.get(place).copied());
        levels.into_iter().flatten().min().unwrap_or_default()
    }
}

/// Returns the places of a fingerprint among `count`, by bits that tables do not go by first.
#[allow(clippy::cast_possible_truncation, reason = "less than the count")]
fn places([_, bits]: Fingerprint, count: usize) -> [usize; 2] {
    let halves = [bits >> 32, bits & u64::from(u32::MAX)];
    halves.map(|half| ((u128::from(half) * count as u128) >> 32) as usize)
}

/// Returns `used` in 1/255 of `capacity`, rounded up.
pub(super) fn level(used: u64, capacity: u64) -> u8 {
    let level = (u128::from(used) * 255).div_ceil(u128::from(capacity.max(1)));
    u8::try_from(level).unwrap_or(u8::MAX)
}

/// Returns the most that can be used of `capacity` at `level`.
fn amount(level: u8, capacity: u64) -> u64 {
    let amount = (u128::from(level) * u128::from(capacity)) / 255;
    u64::try_from(amount).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::{Algorithm, Span};

    use super::*;

    fn quota(limit: u64) -> Quota {
        Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(1)).unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    proptest! {
        /// Whatever else is remembered, nobody is taken to have used less than they had.
        #[test]
        fn nothing_is_ever_less_than_it_was(
            evicted in prop::collection::vec((any::<[u64; 2]>(), 0u64..=1_000), 1..200),
            limit in prop_oneof![1u64..=20, 1_000u64..=1_000_000],
        ) {
            let (quota, mut memory) = (quota(limit), Evicted::default());
            for (fingerprint, used) in &evicted {
                memory.remember(*fingerprint, *used.min(&limit), &quota, at(1), 10);
            }
            for (fingerprint, used) in &evicted {
                let known = memory.used(*fingerprint, &quota, at(0));
                prop_assert!(known >= *used.min(&limit) && known <= limit, "{known} for {used} of {limit}");
            }
        }

        /// Up to 255 every amount is exact, above that it is at most 1/255 too much.
        #[test]
        fn amounts_come_back(used in 0u64..=1_000_000, more in 0u64..1_000_000) {
            let capacity = used + more;
            let back = amount(level(used, capacity), capacity);
            prop_assert!(back >= used && back - used <= capacity / 255);
        }
    }

    #[test]
    fn what_would_be_at_rest_is_forgotten() {
        let (quota, mut memory) = (quota(10), Evicted::default());
        let [first, second] = [[0, 0x1111_2222_9999_8888], [0, 0xcccc_0000_3333_5555]];
        memory.remember(first, 3, &quota, at(10), 100);
        memory.tidy(at(1));
        memory.remember(second, 4, &quota, at(20), 100);
        for now in [1, 9] {
            memory.tidy(at(now));
            assert_eq!((memory.used(first, &quota, at(now)), memory.used(second, &quota, at(now))), (3, 4));
        }
        for _ in 0..2 {
            assert_eq!((memory.used(first, &quota, at(10)), memory.used(second, &quota, at(10))), (0, 4));
            memory.tidy(at(10));
        }
        memory.tidy(at(20));
        assert!(memory.previous.levels.is_empty() && memory.current.levels.is_empty());
    }
}
