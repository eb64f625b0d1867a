//! How fast to settle with a store that has just come back: it should hardly feel it.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_core::{Span, Timestamp};

use crate::coordinator::MAX_HOLD;

/// How many keys may be settled a second, however little the store is used.
const LEAST: u64 = 50;

/// What share of what the store usually has to do may be added, in percent of its operations: charging one costs it more than deciding one.
const PERCENT: u64 = 5;

/// How long a store has to be well before anything is settled: by then all that others held when it went away is let go of, and what
/// is taken is not less because of it.
const REST: Span = MAX_HOLD;

/// How long it takes after that until that much is added: fleets come back at once, and should not be felt at once.
const RAMP: Span = Span::from_secs(3);

/// How long what was usual counts, in seconds: each adds one part of so many.
const SMOOTH: f64 = 5.0;

/// Counts what the store usually has to do, and what may be added.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What was asked of the store since this was last looked at.
    asked: AtomicU64,
    /// For how many keys may be settled now.
    left: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Timestamp>,
    /// What is usual, a second.
    usual: f64,
    /// Since when the store can be used again.
    well_since: Option<Timestamp>,
    /// What is less than one.
    rest: f64,
}

impl Pace {
    /// So much was asked of the store.
    pub(super) fn asked(&self, count: usize) {
        self.asked.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Asks for leave to settle for a key.
    pub(super) fn may_settle(&self) -> bool {
        if self.state.lock().looked.is_none() {
            // Nobody sees to it that anything is settled later.
            return true;
        }
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// For how many keys may be settled at present.
    pub(super) fn left(&self) -> usize {
        usize::try_from(self.left.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Looks at the time. To be called a few times a second; `well`: whether all of the store can be used, `owing`: whether
    /// there is anything to be settled.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate need not be exact"
    )]
    pub(super) fn look(&self, well: bool, owing: bool, now: Timestamp) {
        let asked = self.asked.swap(0, Ordering::Relaxed);
        let mut state = self.state.lock();
        let since = state.looked.replace(now).map_or(Span::ZERO, |looked| now.since(looked));
        let seconds = (since.as_millis() as f64 / 1_000.0).min(1.0);
        if !well {
            state.well_since = None;
            return self.left.store(0, Ordering::Relaxed);
        }
        let well_since = *state.well_since.get_or_insert(now);
        if !owing {
            if seconds > 0.0 {
                let part = (seconds / SMOOTH).min(1.0);
                state.usual += (asked as f64 / seconds - state.usual) * part;
            }
            return self.left.store(LEAST / 10, Ordering::Relaxed);
        }
        let since = now.since(well_since).as_millis();
        let Some(since) = since.checked_sub(REST.as_millis()) else {
            return self.left.store(0, Ordering::Relaxed);
        };
        let ramp = (since as f64 / RAMP.as_millis() as f64).clamp(0.05, 1.0);
        let rate = (state.usual * PERCENT as f64 / 100.0).max(LEAST as f64) * ramp;
        let granted = rate * seconds + state.rest;
        state.rest = granted.fract();
        // What was not used is not saved up.
        self.left.store(granted as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 100;

    /// How many may be settled in so many seconds, of which each had so many operations.
    fn settled(pace: &Pace, from: &mut u64, seconds: u64, well: bool) -> usize {
        let mut settled = 0;
        for _ in 0..seconds * 1_000 / TICK {
            *from += TICK;
            pace.look(well, true, Timestamp::from_millis(*from));
            settled += std::iter::from_fn(|| pace.may_settle().then_some(())).count();
        }
        settled
    }

    #[test]
    fn a_twentieth_of_what_is_usual_is_added_and_not_at_once() {
        let (pace, mut now) = (Pace::default(), 1_000_000);
        for _ in 0..600 {
            now += TICK;
            pace.asked(1_000);
            pace.look(true, false, Timestamp::from_millis(now));
        }
        assert_eq!(settled(&pace, &mut now, 5, false), 0, "there is nobody to settle with");
        assert_eq!(settled(&pace, &mut now, 1, true), 0, "not before all is let go of that was held");
        let first = settled(&pace, &mut now, 1, true);
        assert!((50..200).contains(&first), "{first}");
        settled(&pace, &mut now, 3, true);
        let later = settled(&pace, &mut now, 1, true);
        assert!((475..=500).contains(&later), "{later}");
    }

    #[test]
    fn a_store_that_is_little_used_is_settled_with_all_the_same() {
        let (pace, mut now) = (Pace::default(), 1_000_000);
        settled(&pace, &mut now, 5, true);
        assert_eq!(settled(&pace, &mut now, 10, true), 500);
    }
}
