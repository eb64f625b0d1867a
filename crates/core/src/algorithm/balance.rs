//! A counter's consumption in a form that can move from one book to another.
//!
//! When a key changes hands, the next book starts from what the last one had counted. Clocks differ between the two, so a
//! [`Balance`] says as little as possible about absolute time: windows by their number since the epoch, everything else by
//! durations. Whatever is not known exactly errs towards refusing.

use super::fixed_window::window_index;
use super::{Counter, FixedWindow, InFlight, MAX_AHEAD, SlidingLog, SlidingWindow, TokenBucket};
use crate::quota::{Algorithm, Quota};
use crate::time::{Span, Timestamp};

/// Time slots that a log's window is divided into for charges that arrive late.
const LOG_SLOTS: u64 = 50;

/// Consumption of one counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Balance {
    /// Fixed and sliding window.
    Windows {
        /// Number of the window since the epoch.
        index: u64,
        /// Consumption in the window before; always 0 for a fixed window.
        previous: u64,
        /// Consumption in the window itself.
        current: u64,
    },
    /// Token bucket: units missing from a full bucket.
    Debt {
        /// One request is as many units as the quota's window has milliseconds.
        units: u64,
    },
    /// Sliding log, as if all of it had been consumed with the newest entry.
    Log {
        /// Consumption that still counts.
        used: u64,
        /// Time since it was known.
        age: Span,
    },
    /// Requests in flight.
    InFlight {
        /// Number of them.
        used: u64,
    },
}

impl Balance {
    /// Returns the balance after `elapsed`, as far as waiting changes it by itself.
    #[must_use]
    pub fn elapse(self, quota: &Quota, elapsed: Span) -> Self {
        match self {
            Self::Windows { .. } | Self::InFlight { .. } => self,
            Self::Debt { units } => {
                Self::Debt { units: units.saturating_sub(TokenBucket::refill(quota, elapsed)) }
            }
            Self::Log { used, age } => {
                let age = age + elapsed;
                Self::Log { used: if age >= quota.window() { 0 } else { used }, age }
            }
        }
    }

    /// Consumption in whole requests, rounded up; for windows, that of the window itself.
    pub fn used(&self, quota: &Quota) -> u64 {
        match *self {
            Self::Windows { current, .. } => current,
            Self::Debt { units } => units.div_ceil(quota.window().as_millis()),
            Self::Log { used, .. } | Self::InFlight { used } => used,
        }
    }
}

/// A counter that can change hands.
pub trait Portable: Counter {
    /// Returns the consumption at the counter's own time.
    fn balance(&self, quota: &Quota) -> Balance;

    /// Rebuilds a counter at `now` that has consumed at least `balance`.
    ///
    /// A window that begins after `now` is believed if it begins within [`MAX_AHEAD`]; otherwise its count becomes the
    /// present window's, so that a clock that is far ahead cannot freeze a key.
    fn restore(quota: &Quota, balance: &Balance, now: Timestamp) -> Self;

    /// Adds `units` (negative: gives them back) to the time slot in which they were consumed elsewhere. Returns false if
    /// that slot no longer counts, or if the algorithm takes nothing back.
    fn adjust(&mut self, quota: &Quota, slot: u64, units: i64) -> bool;

    /// Raises the consumption to at least that of `balance`. Applying it twice is applying it once.
    fn raise(&mut self, _quota: &Quota, _balance: &Balance) {}
}

/// Returns the time slot that `at` lies in: the window's number; for a log a fiftieth of its window; for a bucket and
/// for requests in flight always 0.
pub(super) fn slot_at(quota: &Quota, at: Timestamp) -> u64 {
    match quota.algorithm() {
        Algorithm::TokenBucket | Algorithm::InFlight => 0,
        Algorithm::FixedWindow | Algorithm::SlidingWindow => window_index(quota, at),
        Algorithm::SlidingLog => at.as_millis() / log_slot(quota),
    }
}

/// Returns when what was consumed in `slot` stops counting.
pub(super) fn slot_expiry(quota: &Quota, slot: u64) -> Timestamp {
    let window = quota.window().as_millis();
    let after = |count: u64, length: u64| Timestamp::from_millis(count.saturating_mul(length));
    match quota.algorithm() {
        Algorithm::TokenBucket | Algorithm::InFlight => Timestamp::LATEST,
        Algorithm::FixedWindow => after(slot.saturating_add(1), window),
        Algorithm::SlidingWindow => after(slot.saturating_add(2), window),
        Algorithm::SlidingLog => after(slot.saturating_add(1), log_slot(quota)) + quota.window(),
    }
}

fn log_slot(quota: &Quota) -> u64 {
    (quota.window().as_millis() / LOG_SLOTS).max(1)
}

/// Returns the time at which a window counter with this `index` stands at `now`, and whether the index is believed.
fn window_time(quota: &Quota, index: u64, now: Timestamp) -> (Timestamp, bool) {
    let start = Timestamp::from_millis(index.saturating_mul(quota.window().as_millis()));
    (start, start.since(now) <= MAX_AHEAD)
}

impl Portable for FixedWindow {
    fn balance(&self, quota: &Quota) -> Balance {
        Balance::Windows { index: window_index(quota, self.at), previous: 0, current: self.count }
    }

    fn restore(quota: &Quota, balance: &Balance, now: Timestamp) -> Self {
        let Balance::Windows { index, current, .. } = *balance else { return Self::new(0, now) };
        let (start, believed) = window_time(quota, index, now);
        let mut counter = Self::new(current, if believed { start } else { now });
        counter.advance(quota, now);
        counter
    }

    fn adjust(&mut self, quota: &Quota, slot: u64, units: i64) -> bool {
        let index = window_index(quota, self.at);
        if slot < index {
            return false;
        }
        let (start, believed) = window_time(quota, slot, self.at);
        if slot > index && believed {
            *self = Self::new(0, start);
        }
        self.count = self.count.saturating_add_signed(units);
        true
    }
}

impl Portable for SlidingWindow {
    fn balance(&self, quota: &Quota) -> Balance {
        let Self { previous, current, .. } = *self;
        Balance::Windows { index: window_index(quota, self.at), previous, current }
    }

    fn restore(quota: &Quota, balance: &Balance, now: Timestamp) -> Self {
        let Balance::Windows { index, previous, current } = *balance else { return Self::new(0, 0, now) };
        let (start, believed) = window_time(quota, index, now);
        let at = if believed { start } else { now };
        let mut counter = Self::new(previous, current, at);
        counter.advance(quota, now);
        counter
    }

    fn adjust(&mut self, quota: &Quota, slot: u64, units: i64) -> bool {
        let index = window_index(quota, self.at);
        let (start, believed) = window_time(quota, slot, self.at);
        if slot > index && believed {
            let previous = if slot == index + 1 { self.current } else { 0 };
            *self = Self::new(previous, 0, start);
        }
        match index.checked_sub(slot) {
            Some(1) => self.previous = self.previous.saturating_add_signed(units),
            Some(2..) => return false,
            _ => self.current = self.current.saturating_add_signed(units),
        }
        true
    }
}

impl Portable for TokenBucket {
    fn balance(&self, _quota: &Quota) -> Balance {
        Balance::Debt { units: self.debt }
    }

    fn restore(_quota: &Quota, balance: &Balance, now: Timestamp) -> Self {
        let Balance::Debt { units } = *balance else { return Self::new(0, now) };
        Self::new(units, now)
    }

    /// A bucket takes nothing back: by the time it would, waiting may have given it back already.
    fn adjust(&mut self, _quota: &Quota, _slot: u64, _units: i64) -> bool {
        false
    }

    fn raise(&mut self, _quota: &Quota, balance: &Balance) {
        if let Balance::Debt { units } = *balance {
            self.debt = self.debt.max(units);
        }
    }
}

impl Portable for SlidingLog {
    fn balance(&self, _quota: &Quota) -> Balance {
        Balance::Log { used: self.used, age: self.newest_age() }
    }

    fn restore(quota: &Quota, balance: &Balance, now: Timestamp) -> Self {
        let Balance::Log { used, age } = *balance else { return Self::with_entry(0, Span::ZERO, now) };
        let mut counter = Self::with_entry(used, age, now);
        counter.advance(quota, now);
        counter
    }

    fn adjust(&mut self, quota: &Quota, slot: u64, units: i64) -> bool {
        let newest = Timestamp::from_millis((slot.saturating_add(1)).saturating_mul(log_slot(quota)) - 1);
        let at = newest.min(self.at);
        match u64::try_from(units) {
            Ok(cost) if at + quota.window() > self.at => self.insert(at, cost),
            _ => return false,
        }
        true
    }
}

impl Portable for InFlight {
    fn balance(&self, _quota: &Quota) -> Balance {
        Balance::InFlight { used: self.used }
    }

    fn restore(_quota: &Quota, balance: &Balance, now: Timestamp) -> Self {
        let Balance::InFlight { used } = *balance else { return Self::new(0, now) };
        Self::new(used, now)
    }

    fn adjust(&mut self, _quota: &Quota, _slot: u64, units: i64) -> bool {
        self.used = self.used.saturating_add_signed(units);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::AnyCounter;
    use super::super::fixed_window::window_end;
    use super::*;

    fn quota(algorithm: Algorithm) -> Quota {
        Quota::new(algorithm, 10, Span::from_millis(500)).unwrap()
    }

    /// Counter after a history of (milliseconds since the last request, cost).
    fn after(quota: &Quota, history: &[(u64, u64)]) -> AnyCounter {
        let mut counter = AnyCounter::new(quota.algorithm());
        let mut now = 1_000;
        for &(wait, cost) in history {
            now += wait;
            counter.step(quota, cost, Timestamp::from_millis(now));
        }
        counter
    }

    #[test]
    fn a_window_far_ahead_is_not_believed() {
        let quota = Quota::new(Algorithm::FixedWindow, 10, Span::from_secs(60)).unwrap();
        let now = Timestamp::from_millis(59_000);
        let near = Balance::Windows { index: 1, previous: 0, current: 7 };
        assert_eq!(
            FixedWindow::restore(&quota, &near, now),
            FixedWindow::new(7, Timestamp::from_millis(60_000))
        );
        let far = Balance::Windows { index: 9, previous: 0, current: 7 };
        assert_eq!(FixedWindow::restore(&quota, &far, now), FixedWindow::new(7, now));
        assert_eq!(window_end(&quota, now), Timestamp::from_millis(60_000));
    }

    #[test]
    fn a_late_charge_falls_into_its_own_window() {
        let quota = quota(Algorithm::SlidingWindow);
        let mut counter = AnyCounter::from(SlidingWindow::new(1, 2, Timestamp::from_millis(1_100)));
        assert!(
            counter.adjust(&quota, 2, 3) && counter.adjust(&quota, 1, 4) && !counter.adjust(&quota, 0, 5)
        );
        let expected = Balance::Windows { index: 2, previous: 5, current: 5 };
        assert_eq!(counter.balance(&quota), expected);
        assert!(counter.adjust(&quota, 3, 1));
        assert_eq!(counter.balance(&quota), Balance::Windows { index: 3, previous: 5, current: 1 });
    }

    proptest! {
        /// A counter that changes hands never admits what the original would have refused.
        #[test]
        fn a_restored_counter_is_at_least_as_strict(
            algorithm in prop::sample::select(&Algorithm::ALL[..]),
            history in prop::collection::vec((0u64..400, 0u64..4), 0..12),
            (rest, later, cost) in (0u64..900, 0u64..900, 1u64..6),
        ) {
            let quota = quota(algorithm);
            let mut original = after(&quota, &history);
            let taken = original.at();
            let balance = original.balance(&quota).elapse(&quota, Span::from_millis(rest));
            let reopened = taken + Span::from_millis(rest);
            let mut restored = AnyCounter::restore(&quota, &balance, reopened);
            let now = reopened + Span::from_millis(later);
            original.advance(&quota, now);
            restored.advance(&quota, now);
            prop_assert!(!restored.fits(&quota, cost) || original.fits(&quota, cost));
        }

        /// A second book that admits and then charges counts as one book would have.
        #[test]
        fn charges_from_elsewhere_leave_nothing_out(
            algorithm in prop::sample::select(&[Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog][..]),
            history in prop::collection::vec((0u64..200, 1u64..3), 1..12),
            rest in 0u64..300,
        ) {
            let quota = quota(algorithm);
            let (mut one, mut other) = (AnyCounter::new(algorithm), AnyCounter::new(algorithm));
            let mut now = Timestamp::from_millis(1_000);
            let mut charges = Vec::new();
            for (wait, cost) in history {
                now = now + Span::from_millis(wait);
                if one.step(&quota, cost, now).allowed {
                    charges.push((one.slot(&quota), cost));
                }
            }
            now = now + Span::from_millis(rest);
            one.advance(&quota, now);
            other.advance(&quota, now);
            for (slot, cost) in charges {
                other.adjust(&quota, slot, i64::try_from(cost).unwrap());
            }
            prop_assert!(other.room(&quota) <= one.room(&quota));
        }

        /// Giving back what was charged restores the count, for the algorithms that take anything back.
        #[test]
        fn a_charge_can_be_taken_back(slot in 0u64..4, cost in 1i64..9) {
            for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
                let quota = quota(algorithm);
                let mut counter = after(&quota, &[(0, 1), (600, 2)]);
                counter.adjust(&quota, slot, 0);
                let before = counter.clone();
                prop_assert_eq!(counter.adjust(&quota, slot, cost), counter.adjust(&quota, slot, -cost));
                prop_assert_eq!(counter, before);
            }
        }
    }
}
