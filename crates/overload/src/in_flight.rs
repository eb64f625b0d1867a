//! Admits requests while there is room for them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::{AdaptiveLimit, LimitBounds, Share, Window};

/// Shortest time after which the limit changes.
const MIN_WINDOW: Duration = Duration::from_millis(100);

/// Longest time after which it does, if there are responses at all.
const MAX_WINDOW: Duration = Duration::from_secs(10);

/// Number of responses that a window waits for, up to [`PATIENCE`] times its length.
const ENOUGH_RESPONSES: u32 = 200;

/// Number of its lengths to which a window is extended if there are few responses.
const PATIENCE: u32 = 3;

/// The limit is reached, as far as it is for this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{in_flight} requests are in flight; there is room for {room} for requests of this tier")]
pub struct Overloaded {
    /// Number of requests in flight.
    pub in_flight: u32,
    /// Number of requests up to which this one would have been admitted.
    pub room: u32,
}

/// A limit on requests in flight, fixed or adaptive.
#[derive(Debug)]
pub struct InFlightLimiter {
    limit: AtomicU32,
    in_flight: AtomicU32,
    adaptive: Option<Adaptive>,
}

#[derive(Debug)]
struct Adaptive {
    window: Window,
    /// Set while nothing tells of a queue: shares of lower tiers are larger then, so that bursts are not taken for overload.
    is_relaxed: AtomicBool,
    epoch: Instant,
    /// Nanoseconds since `epoch` at which the window is to be taken.
    window_end: AtomicU64,
    /// Base latency in nanoseconds, as of the last window.
    base: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: AdaptiveLimit,
    window_start: Instant,
    /// Time that the present window is to take.
    window_length: Duration,
}

/// State of a limiter, for people to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightStats {
    /// The present limit.
    pub limit: u32,
    /// Number of requests in flight.
    pub in_flight: u32,
    /// Response time that is taken for one without a queue, if the limit is adaptive and has seen responses.
    pub base_latency: Option<Duration>,
}

impl InFlightLimiter {
    /// Admits at most `limit` requests at once.
    pub fn fixed(limit: u32) -> Arc<Self> {
        Arc::new(Self { limit: AtomicU32::new(limit), in_flight: AtomicU32::new(0), adaptive: None })
    }

    /// Admits as many requests at once as the service can serve, learning from response times.
    pub fn adaptive(bounds: LimitBounds, now: Instant) -> Arc<Self> {
        let limit = AdaptiveLimit::new(bounds);
        Arc::new(Self {
            limit: AtomicU32::new(limit.get()),
            in_flight: AtomicU32::new(0),
            adaptive: Some(Adaptive {
                window: Window::default(),
                is_relaxed: AtomicBool::new(false),
                epoch: now,
                window_end: AtomicU64::new(nanos(MIN_WINDOW)),
                base: AtomicU64::new(u64::MAX),
                state: Mutex::new(State { limit, window_start: now, window_length: MIN_WINDOW }),
            }),
        })
    }

    /// Admits a request that may fill `share` of the limit, or tells why not.
    pub fn acquire(self: &Arc<Self>, share: Share, now: Instant) -> Result<Permit, Overloaded> {
        let room = self.room(share);
        let one_more = |in_flight: u32| (in_flight < room).then(|| in_flight + 1);
        let admitted = self.in_flight.fetch_update(Relaxed, Relaxed, one_more);
        let in_flight = match admitted {
            Ok(before) => before + 1,
            Err(in_flight) => return Err(self.refuse(in_flight, room, now)),
        };
        if let Some(adaptive) = &self.adaptive {
            adaptive.window.admitted(in_flight);
        }
        Ok(Permit { limiter: Arc::clone(self), admitted: now, in_flight, is_answered: false })
    }

    /// Tells if a request that may fill `share` of the limit would not be admitted now. For requests that have something else to wait
    /// for first.
    pub fn check(&self, share: Share, now: Instant) -> Result<(), Overloaded> {
        let (in_flight, room) = (self.in_flight.load(Relaxed), self.room(share));
        if in_flight < room { Ok(()) } else { Err(self.refuse(in_flight, room, now)) }
    }

    /// Returns the number of requests up to which one with `share` is admitted.
    fn room(&self, share: Share) -> u32 {
        let is_relaxed = self.adaptive.as_ref().is_some_and(|it| it.is_relaxed.load(Relaxed));
        let share = if is_relaxed { share.relaxed() } else { share };
        share.of(self.limit.load(Relaxed))
    }

    fn refuse(&self, in_flight: u32, room: u32, now: Instant) -> Overloaded {
        if let Some(adaptive) = &self.adaptive {
            adaptive.window.refused();
            adaptive.is_relaxed.store(false, Relaxed);
            adaptive.take_window(now, &self.limit);
        }
        Overloaded { in_flight, room }
    }

    /// Returns the limit and what it is based on.
    pub fn stats(&self) -> InFlightStats {
        let base_latency = self.adaptive.as_ref().and_then(|it| it.state.lock().limit.base_latency());
        let (limit, in_flight) = (self.limit.load(Relaxed), self.in_flight.load(Relaxed));
        InFlightStats { limit, in_flight, base_latency }
    }
}

impl Adaptive {
    /// Changes `limit` by what the window has seen, if it is over and has seen enough.
    fn take_window(&self, now: Instant, limit: &AtomicU32) {
        let since_epoch = now.saturating_duration_since(self.epoch);
        if nanos(since_epoch) < self.window_end.load(Relaxed) {
            return;
        }
        // Someone else is at it.
        let Some(mut state) = self.state.try_lock() else { return };
        let length = now.saturating_duration_since(state.window_start);
        let is_over = length >= state.window_length;
        let has_enough =
            self.window.responses() >= ENOUGH_RESPONSES || length >= state.window_length * PATIENCE;
        if !(is_over && has_enough) {
            return;
        }
        if let Some(summary) = self.window.take(length) {
            state.limit.update(&summary);
            limit.store(state.limit.get(), Relaxed);
            self.is_relaxed.store(state.limit.is_calm(), Relaxed);
            let base = state.limit.base_latency().map_or(u64::MAX, nanos);
            self.base.store(base, Relaxed);
        }
        state.window_start = now;
        // What a change does to response times shows in requests that came after it.
        let base = state.limit.base_latency().unwrap_or_default();
        state.window_length = (base * 2).clamp(MIN_WINDOW, MAX_WINDOW);
        self.window_end.store(nanos(since_epoch + state.window_length), Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Room for one request, free again when it is dropped.
#[derive(Debug)]
pub struct Permit {
    limiter: Arc<InFlightLimiter>,
    admitted: Instant,
    /// Number of requests in flight when it was admitted, itself included.
    in_flight: u32,
    is_answered: bool,
}

impl Permit {
    /// Records that the service responded, or was waited for in vain. Only the first call counts.
    pub fn responded(&mut self, now: Instant) {
        if let (false, Some(adaptive)) =
            (std::mem::replace(&mut self.is_answered, true), &self.limiter.adaptive)
        {
            let latency = now.saturating_duration_since(self.admitted);
            adaptive.window.responded(latency, self.in_flight);
            adaptive.take_window(now, &self.limiter.limit);
        }
    }

    /// Records that nobody waits for a response any more, unless there was one. A client that left early says nothing about the
    /// service; one that waited for longer than a response takes without a queue says that it took longer, which counts if there
    /// are hardly any responses.
    pub fn abandoned(&mut self, now: Instant) {
        let Some(adaptive) = self.limiter.adaptive.as_ref().filter(|_| !self.is_answered) else { return };
        self.is_answered = true;
        let waited = now.saturating_duration_since(self.admitted);
        if nanos(waited) > adaptive.base.load(Relaxed) {
            adaptive.window.abandoned(waited, self.in_flight);
            adaptive.take_window(now, &self.limiter.limit);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.in_flight.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn share(percent: u8) -> Share {
        Share::percent(percent).unwrap()
    }

    #[test]
    fn each_tier_fills_its_share() {
        let limiter = InFlightLimiter::fixed(10);
        let now = Instant::now();
        let admit = |percent| limiter.acquire(share(percent), now);
        let low: Vec<_> = std::iter::from_fn(|| admit(60).ok()).collect();
        assert_eq!(low.len(), 6);
        assert_eq!(admit(60).unwrap_err(), Overloaded { in_flight: 6, room: 6 });
        let high: Vec<_> = std::iter::from_fn(|| admit(100).ok()).collect();
        assert_eq!((high.len(), limiter.stats().in_flight), (4, 10));
        drop(low);
        // Those of higher tiers count, too.
        assert_eq!(std::iter::from_fn(|| admit(60).ok()).take(9).collect::<Vec<_>>().len(), 2);
        drop(high);
        assert_eq!(limiter.stats(), InFlightStats { limit: 10, in_flight: 0, base_latency: None });
    }

    #[test]
    fn threads_never_admit_more_than_the_limit() {
        let limiter = InFlightLimiter::fixed(7);
        let (start, now) = (Barrier::new(4), Instant::now());
        let most = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..20_000 {
                        let permits: Vec<_> =
                            (0..3).filter_map(|_| limiter.acquire(Share::FULL, now).ok()).collect();
                        most.fetch_max(limiter.stats().in_flight, Relaxed);
                        drop(permits);
                    }
                });
            }
        });
        assert!((1..=7).contains(&most.into_inner()));
        assert_eq!(limiter.stats().in_flight, 0);
    }

    #[test]
    fn clients_that_waited_for_long_tell_of_a_queue() {
        let start = Instant::now();
        let limiter = InFlightLimiter::adaptive(LimitBounds::new(1, 50, 50).unwrap(), start);
        let mut now = start;
        let mut requests = |count: u32, takes: u64, abandon: bool| {
            let mut permits: Vec<_> =
                (0..count).map(|_| limiter.acquire(Share::FULL, now).unwrap()).collect();
            now += Duration::from_millis(takes);
            for permit in &mut permits {
                if abandon { permit.abandoned(now) } else { permit.responded(now) }
            }
            drop(permits);
            now += Duration::from_millis(500);
            limiter.stats().limit
        };
        (0..5).for_each(|_| assert_eq!(requests(10, 20, false), 50));
        // Shorter than any response: that tells nothing.
        (0..50).for_each(|_| assert_eq!(requests(10, 1, true), 50));
        assert_eq!(requests(10, 20, false), 50);
        let least = (0..50).map(|_| requests(1, 2_000, true)).min();
        assert!(least.unwrap() < 10);
    }

    #[test]
    fn a_permit_without_a_response_teaches_nothing() {
        let start = Instant::now();
        let limiter = InFlightLimiter::adaptive(LimitBounds::default(), start);
        for _ in 0..100 {
            drop(limiter.acquire(Share::FULL, start));
        }
        let later = start + Duration::from_secs(1);
        let mut permit = limiter.acquire(Share::FULL, later).unwrap();
        assert_eq!(limiter.stats().base_latency, None);
        permit.responded(later + Duration::from_millis(20));
        let base = limiter.stats().base_latency.unwrap();
        assert!((Duration::from_millis(17)..=Duration::from_millis(23)).contains(&base), "{base:?}");
    }
}
