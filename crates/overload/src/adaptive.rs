//! A limit on requests in flight that follows response times.

use std::time::Duration;

use crate::{BaseLatency, WindowSummary};

/// Response times up to this multiple of the base latency are no sign of a queue.
const TOLERANCE: f64 = 1.2;

/// Least factor of the limit's change in one window, before smoothing.
const MIN_GRADIENT: f64 = 0.5;

/// Part of the change that takes effect in each window.
const SMOOTHING: f64 = 0.3;

/// A limit of this multiple of the demand is high enough: bursts fit below the shares of all tiers.
const SPARE: f64 = 2.5;

/// Least and greatest value of a limit, and the one it starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitBounds {
    min: u32,
    initial: u32,
    max: u32,
}

/// Reason why bounds are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitBoundsError {
    /// A limit of zero would never let a request in, and so never learn.
    #[error("the least limit is 0; give at least 1")]
    Zero,
    /// They contradict each other.
    #[error(
        "the limits are out of order: {min} (min), {initial} (initial), {max} (max); give them in ascending order"
    )]
    Order {
        /// The least value.
        min: u32,
        /// The first value.
        initial: u32,
        /// The greatest value.
        max: u32,
    },
}

impl LimitBounds {
    /// Creates bounds, if they are in order.
    pub const fn new(min: u32, initial: u32, max: u32) -> Result<Self, LimitBoundsError> {
        if min == 0 {
            return Err(LimitBoundsError::Zero);
        }
        if min > initial || initial > max {
            return Err(LimitBoundsError::Order { min, initial, max });
        }
        Ok(Self { min, initial, max })
    }

    /// Returns the least value.
    pub const fn min(self) -> u32 {
        self.min
    }

    /// Returns the first value.
    pub const fn initial(self) -> u32 {
        self.initial
    }

    /// Returns the greatest value.
    pub const fn max(self) -> u32 {
        self.max
    }
}

/// 4 to 10,000, starting with 50.
impl Default for LimitBounds {
    fn default() -> Self {
        Self { min: 4, initial: 50, max: 10_000 }
    }
}

/// A limit that grows while response times are near the base latency, and shrinks in proportion when they are not.
///
/// Per window: `gradient = clamp(tolerance × base / latency, 0.5, 1)`, and the limit moves a fifth of the way to
/// `limit × gradient + √limit`. In balance, responses take about `tolerance / (1 − 1/√limit)` times the base latency: a short queue
/// that keeps the service busy.
#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    bounds: LimitBounds,
    limit: f64,
    base: BaseLatency,
    is_calm: bool,
}

impl AdaptiveLimit {
    /// Starts with the initial limit.
    pub fn new(bounds: LimitBounds) -> Self {
        Self { bounds, limit: f64::from(bounds.initial), base: BaseLatency::default(), is_calm: false }
    }

    /// Returns the present limit.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within its bounds")]
    pub fn get(&self) -> u32 {
        self.limit.round() as u32
    }

    /// Returns the response time that is taken for one without a queue.
    pub fn base_latency(&self) -> Option<Duration> {
        self.base.get()
    }

    /// Returns true if the last window shows neither a queue nor a request that was not admitted.
    pub fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// Takes in a window.
    pub fn update(&mut self, window: &WindowSummary) {
        let base = self.base.observe(window, TOLERANCE);
        let ratio = TOLERANCE * base / window.latency.as_secs_f64();
        self.is_calm = ratio >= 1.0 && window.refused == 0;
        let gradient = ratio.clamp(MIN_GRADIENT, 1.0);
        let target = self.limit * gradient + self.limit.sqrt();
        let next = self.limit + SMOOTHING * (target - self.limit);
        let enough = f64::from(window.peak) * SPARE;
        // A limit that nobody reaches says nothing about the service: it does not grow, and it stays high enough.
        let next = match window.refused == 0 && enough <= self.limit {
            true => next.clamp(enough, self.limit),
            false => next,
        };
        self.limit = next.clamp(f64::from(self.bounds.min), f64::from(self.bounds.max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_to_be_in_order() {
        assert!(LimitBounds::new(1, 1, 1).is_ok());
        assert_eq!(LimitBounds::new(0, 1, 2), Err(LimitBoundsError::Zero));
        assert!(LimitBounds::new(3, 2, 4).is_err() && LimitBounds::new(1, 5, 4).is_err());
    }

    fn window(peak: u32, millis: u64) -> WindowSummary {
        let latency = Duration::from_millis(millis);
        WindowSummary {
            length: Duration::from_millis(100),
            latency,
            in_flight: f64::from(peak),
            peak,
            refused: 0,
        }
    }

    #[test]
    fn it_grows_only_in_use_and_within_its_bounds() {
        let mut limit = AdaptiveLimit::new(LimitBounds::new(4, 50, 100).unwrap());
        (0..100).for_each(|_| limit.update(&window(20, 20)));
        assert_eq!(limit.get(), 50);
        (0..100).for_each(|_| limit.update(&window(100, 20)));
        assert_eq!(limit.get(), 100);
        // A queue of any length ends at the least limit.
        (0..100).for_each(|_| limit.update(&window(100, 2_000)));
        assert_eq!(limit.get(), 4);
    }

    #[test]
    fn slow_responses_of_few_requests_leave_room_for_bursts() {
        let mut limit = AdaptiveLimit::new(LimitBounds::new(4, 90, 100).unwrap());
        (0..10).for_each(|_| limit.update(&window(20, 20)));
        (0..100).for_each(|_| limit.update(&window(20, 200)));
        assert_eq!(limit.get(), 50);
    }
}
