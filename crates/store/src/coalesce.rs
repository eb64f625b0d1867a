//! Many callers, few calls.
//!
//! What arrives while a call is on its way waits and goes together in the next one, in the order of arrival. A key
//! that everybody asks for so costs about one call per round trip, not one per request. [`Coalescer`] only says
//! what to send when; sending it is the caller's, and as nobody but the caller knows the order in which calls leave,
//! taking and sending must not be interleaved with another's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How many calls may be on their way at once: while one is executed, the next travels.
pub const MAX_IN_FLIGHT: usize = 2;

/// How many items go in one call at most, so that no call keeps a shared store from others for long.
pub const MAX_BATCH: usize = 128;

/// How many items may wait. More arrive only while a store is stuck, and they would not be served in time.
pub const MAX_WAITING: usize = 16_384;

/// Decides what goes together.
#[derive(Debug)]
pub struct Coalescer<T> {
    state: Mutex<State<T>>,
    patience: Duration,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    in_flight: usize,
    last_start: Option<Instant>,
    /// How long a call takes, smoothed.
    round_trip: Duration,
}

/// What became of an item.
#[derive(Debug, PartialEq, Eq)]
pub enum Added<T> {
    /// It waits; somebody else will send it.
    Waits,
    /// It waits, and the caller must see to it: wait this long, then [take](Coalescer::take) and send until there is
    /// nothing left to take.
    Start(Duration),
    /// There is no room for it.
    Full(T),
}

impl<T> Coalescer<T> {
    /// A coalescer for callers who wait no longer than `patience`.
    pub fn new(patience: Duration) -> Self {
        let waiting = VecDeque::new();
        let state = State { waiting, in_flight: 0, last_start: None, round_trip: Duration::ZERO };
        Self { state: Mutex::new(state), patience }
    }

    /// Adds an item at `now`.
    pub fn add(&self, item: T, now: Instant) -> Added<T> {
        let mut state = self.state.lock();
        if state.waiting.len() >= MAX_WAITING {
            return Added::Full(item);
        }
        state.waiting.push_back(item);
        if state.in_flight == MAX_IN_FLIGHT {
            return Added::Waits;
        }
        state.in_flight += 1;
        Added::Start(state.pause(self.patience, now))
    }

    /// What to send at `now`, oldest first. Nothing: the sender's work is done.
    pub fn take(&self, now: Instant) -> Option<Vec<T>> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.in_flight -= 1;
            return None;
        }
        state.last_start = Some(now);
        let count = state.waiting.len().min(MAX_BATCH);
        Some(state.waiting.drain(..count).collect())
    }

    /// A call ended at `now`, after `took` if it was answered; says how long to wait before taking again.
    pub fn ended(&self, took: Option<Duration>, now: Instant) -> Duration {
        let mut state = self.state.lock();
        if let Some(took) = took {
            state.round_trip = match state.round_trip {
                Duration::ZERO => took,
                known => (known * 7 + took) / 8,
            };
        }
        state.pause(self.patience, now)
    }
}

impl<T> State<T> {
    /// How long the next call should wait for its turn.
    ///
    /// Two calls that leave together come back together: who arrives just after them waits for a whole round trip
    /// and then needs another. Where that is more than callers wait, calls leave half a round trip apart.
    fn pause(&self, patience: Duration, now: Instant) -> Duration {
        match self.last_start {
            Some(last) if self.in_flight > 1 && self.round_trip * 2 > patience => {
                let apart = self.round_trip.min(patience) / 2;
                apart.saturating_sub(now.saturating_duration_since(last))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(5);
    const FAST: Option<Duration> = Some(Duration::from_micros(100));
    const SLOW: Duration = Duration::from_millis(3);
    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn what_arrives_during_two_calls_goes_together_in_order() {
        let (coalescer, now) = (Coalescer::new(PATIENCE), Instant::now());
        assert_eq!(coalescer.add(0, now), Added::Start(AT_ONCE));
        assert_eq!(coalescer.take(now), Some(vec![0]));
        assert_eq!(coalescer.add(1, now), Added::Start(AT_ONCE));
        assert_eq!(coalescer.take(now), Some(vec![1]));
        for item in 2..300 {
            assert_eq!(coalescer.add(item, now), Added::Waits);
        }
        for batch in [2..130, 130..258, 258..300] {
            assert_eq!(coalescer.ended(FAST, now), AT_ONCE);
            assert_eq!(coalescer.take(now), Some(batch.collect()), "in order, and no more than fit");
        }
        assert_eq!((coalescer.take(now), coalescer.take(now)), (None, None));
        assert_eq!(coalescer.add(300, now), Added::Start(AT_ONCE), "and it starts anew");
    }

    #[test]
    fn slow_calls_leave_half_a_round_trip_apart() {
        let (coalescer, start) = (Coalescer::new(PATIENCE), Instant::now());
        assert_eq!(coalescer.add(0, start), Added::Start(AT_ONCE));
        assert_eq!(coalescer.take(start), Some(vec![0]));
        assert_eq!(coalescer.add(1, start), Added::Start(AT_ONCE), "nothing is known yet");
        assert_eq!(coalescer.ended(Some(SLOW), start + SLOW / 3), SLOW / 2 - SLOW / 3);
        assert_eq!(coalescer.ended(Some(SLOW), start + SLOW), AT_ONCE);
    }

    #[test]
    fn a_stuck_store_makes_nobody_wait_without_end() {
        let (coalescer, now) = (Coalescer::new(PATIENCE), Instant::now());
        let taken = (0..).take_while(|&item| !matches!(coalescer.add(item, now), Added::Full(_))).count();
        assert_eq!(taken, MAX_WAITING);
    }
}
