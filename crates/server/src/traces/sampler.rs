//! Which requests are traced.

use parking_lot::Mutex;

/// How many traces a node begins in a second at most, whoever asks for them.
pub(super) const MOST_PER_SECOND: u64 = 1_000;

/// Units of a trace that come back each millisecond.
const PER_MILLISECOND: u64 = MOST_PER_SECOND;

/// Units that a trace takes.
const PER_TRACE: u64 = 1_000;

/// Decides which requests are traced: those that a caller traces, some of the others, and never too many.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Of those that no caller has decided on: whoever draws less.
    below: u64,
    cap: Mutex<Cap>,
}

/// A bucket that a second fills.
#[derive(Debug)]
struct Cap {
    units: u64,
    /// When it was last filled, in milliseconds.
    at: u64,
}

impl Sampler {
    /// Takes about `ratio` (0 to 1) of the requests that no caller has decided on.
    pub(super) fn new(ratio: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^32")]
        let below = (ratio.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
        Self { below, cap: Mutex::new(Cap { units: MOST_PER_SECOND * PER_TRACE, at: 0 }) }
    }

    /// Whether a request is traced that came at `now` (in milliseconds) and has drawn `drawn`; `decided` is what a trusted caller has
    /// decided for its part.
    pub(super) fn takes(&self, decided: Option<bool>, drawn: u64, now: u64) -> bool {
        let wanted = decided.unwrap_or(drawn >> 32 < self.below);
        wanted && self.cap.lock().admit(now)
    }
}

impl Cap {
    fn admit(&mut self, now: u64) -> bool {
        let back = now.saturating_sub(self.at).saturating_mul(PER_MILLISECOND);
        self.units = self.units.saturating_add(back).min(MOST_PER_SECOND * PER_TRACE);
        self.at = self.at.max(now);
        match self.units.checked_sub(PER_TRACE) {
            Some(left) => {
                self.units = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn callers_decide_for_theirs_and_chance_for_the_rest() {
        let (none, all, half) = (Sampler::new(0.0), Sampler::new(1.0), Sampler::new(0.5));
        for drawn in [0, 1 << 32, u64::MAX / 2 - 1, u64::MAX / 2 + 1, u64::MAX] {
            assert!(!none.takes(None, drawn, 0) && none.takes(Some(true), drawn, 0));
            assert!(all.takes(None, drawn, 0) && !all.takes(Some(false), drawn, 0));
            assert_eq!(half.takes(None, drawn, 0), drawn < u64::MAX / 2, "{drawn}");
        }
    }

    #[test]
    fn no_ratio_is_beyond_all_and_nothing() {
        assert!(Sampler::new(7.0).takes(None, u64::MAX, 0));
        assert!(!Sampler::new(-1.0).takes(None, 0, 0));
        assert!(!Sampler::new(f64::NAN).takes(None, 0, 0));
    }

    proptest! {
        /// Within any time, no more than what a second allows at once and what comes back meanwhile.
        #[test]
        fn a_flood_is_capped(steps in prop::collection::vec(0_u64..5, 1..6_000)) {
            let sampler = Sampler::new(0.0);
            let (mut now, mut taken) = (1_000_000, 0);
            let start = now;
            for step in steps {
                now += step;
                taken += u64::from(sampler.takes(Some(true), 0, now));
            }
            prop_assert!(taken <= MOST_PER_SECOND + (now - start) * MOST_PER_SECOND / 1_000);
        }
    }

    #[test]
    fn what_was_used_comes_back_and_a_clock_that_goes_back_gives_nothing() {
        let sampler = Sampler::new(1.0);
        let taken =
            |now: u64| (0..2 * MOST_PER_SECOND).filter(|_| sampler.takes(None, 0, now)).count() as u64;
        assert_eq!(taken(5_000), MOST_PER_SECOND);
        assert_eq!(taken(4_000), 0);
        assert_eq!(taken(5_100), MOST_PER_SECOND / 10);
        assert_eq!(taken(60_000), MOST_PER_SECOND);
    }
}
