//! Response time of a service that is not overloaded.

use std::time::Duration;

use crate::WindowSummary;

/// Time constant, in seconds, with which the base follows response times within the tolerance.
const FOLLOW: f64 = 20.0;

/// Time constant with which it follows those that are shorter than that.
const FALL: f64 = 2.0;

/// Number of windows that are averaged before response times are compared with the base: a single one may be far off.
const LEARNING: u32 = 10;

/// Two windows are compared when one has at most this part of the other's requests in flight.
const FEWER: f64 = 0.6;

/// With so much fewer requests in flight, those that queue take at most this part of the time.
const FASTER: f64 = 0.8;

/// Estimate of the response time without a queue, in seconds.
///
/// Longer response times have one of two reasons. If requests queue, fewer of them in flight take less time. If the service itself
/// has become slower, they do not. So the base does not follow response times beyond the tolerance, until far fewer requests are
/// in flight and still take about as long.
#[derive(Clone, Debug, Default)]
pub struct BaseLatency {
    base: Option<f64>,
    /// Number of windows seen, up to [`LEARNING`].
    windows: u32,
    /// Highest point since response times went beyond the tolerance, or since the last time that they were compared.
    queue: Option<Point>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    in_flight: f64,
    latency: f64,
}

impl BaseLatency {
    /// Takes in a window, and returns the base latency. Response times up to `tolerance` times the base are no sign of a queue.
    pub fn observe(&mut self, window: &WindowSummary, tolerance: f64) -> f64 {
        let latency = window.latency.as_secs_f64();
        let Some(base) = self.base else {
            self.base = Some(latency);
            return latency;
        };
        self.windows = (self.windows + 1).min(LEARNING);
        let base = if self.windows < LEARNING {
            base + (latency - base) / f64::from(self.windows + 1)
        } else if latency <= base * tolerance {
            self.queue = None;
            let constant = if latency * tolerance < base { FALL } else { FOLLOW };
            base + (latency - base) * (1.0 - (-window.length.as_secs_f64() / constant).exp())
        } else if self.is_slower_by_itself(Point { in_flight: window.in_flight, latency }) {
            latency
        } else {
            base
        };
        self.base = Some(base);
        base
    }

    /// Returns the base latency, once there is one.
    pub fn get(&self) -> Option<Duration> {
        self.base.map(Duration::from_secs_f64)
    }

    fn is_slower_by_itself(&mut self, now: Point) -> bool {
        let Some(before) = self.queue.filter(|before| now.in_flight < before.in_flight) else {
            self.queue = Some(now);
            return false;
        };
        if now.in_flight > before.in_flight * FEWER {
            return false;
        }
        let is_slower = now.latency > before.latency * FASTER;
        self.queue = (!is_slower).then_some(now);
        is_slower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(in_flight: u32, millis: u64) -> WindowSummary {
        WindowSummary {
            length: Duration::from_millis(100),
            latency: Duration::from_millis(millis),
            in_flight: f64::from(in_flight),
            peak: in_flight,
            refused: 0,
        }
    }

    fn after(windows: impl IntoIterator<Item = (u32, u64)>) -> f64 {
        let mut base = BaseLatency::default();
        let learning = std::iter::repeat_n((10, 20), 10);
        for (in_flight, millis) in learning.chain(windows) {
            base.observe(&window(in_flight, millis), 1.2);
        }
        (base.get().unwrap().as_secs_f64() * 1_000.0).round()
    }

    #[test]
    fn the_first_windows_are_averaged() {
        let mut base = BaseLatency::default();
        for millis in [5, 20, 25, 30, 20, 10, 30, 20, 15, 25] {
            base.observe(&window(10, millis), 1.2);
        }
        assert_eq!(base.get(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn a_queue_does_not_raise_it() {
        let queue = [(20, 30), (40, 60), (80, 120), (40, 60), (20, 30), (10, 20)];
        assert_eq!(after(queue.repeat(100)), 20.0);
    }

    #[test]
    fn a_service_that_is_slower_with_few_requests_raises_it() {
        assert_eq!(after([(100, 1_000), (60, 600), (50, 500), (30, 300), (24, 240), (12, 260)]), 260.0);
    }

    #[test]
    fn it_follows_much_shorter_times_soon_and_all_others_slowly() {
        let steps =
            |millis: u64, windows: usize| std::iter::once((10, 20)).chain(vec![(10, millis); windows]);
        assert_eq!(after(steps(5, 20)), 11.0);
        assert_eq!(after(steps(5, 1_000)), 5.0);
        assert_eq!(after(steps(24, 20)), 20.0);
        assert_eq!(after(steps(24, 2_000)), 24.0);
    }
}
