//! Not asking a part of a store that does not answer: a circuit breaker.
//!
//! A state machine without a clock: whoever uses it says what time it is, and what became of calls. It counts calls, not
//! those who wait for them.
//!
//! ```text
//!          too many failures                time over: one call may try
//! closed ───────────────────→ open ───────────────────────────────────→ half-open
//!    ↑                          ↑                                          │   │
//!    │                          └──────────── it fails, or is lost ────────┘   │
//!    └───────────────────────────────── it succeeds ───────────────────────────┘
//! ```

use std::fmt;
use std::time::{Duration, Instant};

/// How many slices the time that is looked at has. What a slice holds is forgotten at once, so this is how fine it is.
const SLICES: u32 = 10;

/// What part of the silence it has to last on, once noticed, before it counts.
const DOUBT: u32 = 4;

/// When to stop asking, and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Opens if more than this share of the calls has failed, in percent…
    pub failures_percent: u32,
    /// …within this time…
    pub window: Duration,
    /// …of at least so many calls.
    pub min_calls: u32,
    /// Opens after so many failures in a row, however many calls there were.
    pub in_a_row: Option<u32>,
    /// A call that took longer is a failure, whatever it brought.
    pub slow: Duration,
    /// Opens if calls are out and none has come back for so long: of a server that hangs there are few calls to count.
    pub silence: Option<Duration>,
    /// How long to leave it alone before a call may try.
    pub rest: Duration,
}

impl BreakerSettings {
    /// Notices within a tenth of a second under load, and tries every second: asking costs one call, and users wait for
    /// nobody else's patience.
    pub const FAST: Self = Self {
        failures_percent: 50,
        window: Duration::from_secs(1),
        min_calls: 10,
        in_a_row: Some(5),
        slow: Duration::from_millis(100),
        silence: Some(Duration::from_millis(50)),
        rest: Duration::from_secs(1),
    };

    /// What textbooks have: more than half of ten calls in ten seconds, and a minute of rest.
    pub const CLASSIC: Self = Self {
        failures_percent: 50,
        window: Duration::from_secs(10),
        min_calls: 10,
        in_a_row: None,
        slow: Duration::from_secs(1),
        silence: None,
        rest: Duration::from_secs(60),
    };

    /// Five failures in a row, and half a minute of rest.
    pub const FIVE_IN_A_ROW: Self =
        Self { in_a_row: Some(5), failures_percent: 100, rest: Duration::from_secs(30), ..Self::CLASSIC };
}

/// Whether calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All of them.
    Closed,
    /// One, to see how it goes.
    HalfOpen,
    /// None.
    Open,
}

impl BreakerState {
    /// The name used in health reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }

    /// The number used in metrics.
    pub const fn number(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
        }
    }
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Leave to make a call, to be given back with what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    begun: Instant,
    /// Which of its states the breaker was in: what was begun before says nothing about what came after.
    era: u64,
}

/// One part of a store, asked or left alone.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: State,
    era: u64,
}

#[derive(Debug)]
enum State {
    Closed(Watched),
    Open { until: Instant },
    HalfOpen { lost_at: Instant },
}

/// What is known of the calls since it was last closed.
#[derive(Debug)]
struct Watched {
    slices: [Slice; SLICES as usize],
    /// The slice of now, counted from the beginning.
    current: u64,
    since: Instant,
    in_a_row: u32,
    out: u32,
    /// When the last one came back, or the first of those that are out was made.
    heard: Instant,
    /// Since when it seems to be silent. It may be this process that was: what has arrived meanwhile is heard soon.
    suspected: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    calls: u32,
    failures: u32,
}

impl Breaker {
    /// A breaker that is closed since `now`.
    pub fn new(settings: BreakerSettings, now: Instant) -> Self {
        Self { settings, state: State::Closed(Watched::new(now)), era: 0 }
    }

    /// Forgets everything: it is about something else from now on. What is under way says nothing about that.
    pub fn reset(&mut self, now: Instant) {
        self.era += 1;
        self.state = State::Closed(Watched::new(now));
    }

    /// Whether calls are made.
    pub fn state(&self) -> BreakerState {
        match self.state {
            State::Closed(_) => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Asks for leave to make a call. `jitter` is anything random, for the time until the next try, so that many nodes do
    /// not try at once.
    pub fn begin(&mut self, now: Instant, jitter: u32) -> Option<Permit> {
        self.look(now, jitter);
        match &mut self.state {
            State::Closed(watched) => watched.begin(now),
            State::Open { until } if now >= *until => {
                self.era += 1;
                // A call that nobody ever tells about must not stop all others for ever.
                self.state = State::HalfOpen { lost_at: now + self.settings.rest };
            }
            State::HalfOpen { lost_at } if now >= *lost_at => {
                self.era += 1;
                *lost_at = now + self.settings.rest;
            }
            State::Open { .. } | State::HalfOpen { .. } => return None,
        }
        Some(Permit { begun: now, era: self.era })
    }

    /// Whether [`begin`](Self::begin) would give leave.
    pub fn may_begin(&self, now: Instant) -> bool {
        match self.state {
            State::Closed(_) => true,
            State::Open { until } => now >= until,
            State::HalfOpen { lost_at } => now >= lost_at,
        }
    }

    /// Tells what became of a call: whether the store answered. What it answered is no matter, unless it came too late.
    pub fn end(&mut self, permit: Permit, answered: bool, now: Instant, jitter: u32) {
        if permit.era != self.era {
            return;
        }
        let failed = !answered || now.saturating_duration_since(permit.begun) > self.settings.slow;
        match &mut self.state {
            State::Closed(watched) => {
                watched.end(failed, now, self.settings.window);
                if watched.is_too_much(&self.settings) {
                    self.open(now, jitter);
                }
            }
            State::HalfOpen { .. } if failed => self.open(now, jitter),
            State::HalfOpen { .. } => {
                self.era += 1;
                self.state = State::Closed(Watched::new(now));
            }
            State::Open { .. } => {}
        }
    }

    /// Looks whether calls that are out have been silent for too long.
    pub fn look(&mut self, now: Instant, jitter: u32) {
        let (State::Closed(watched), Some(silence)) = (&mut self.state, self.settings.silence) else {
            return;
        };
        if watched.out == 0 || now.saturating_duration_since(watched.heard) <= silence {
            return;
        }
        let since = *watched.suspected.get_or_insert(now);
        if now.saturating_duration_since(since) >= silence / DOUBT {
            self.open(now, jitter);
        }
    }

    fn open(&mut self, now: Instant, jitter: u32) {
        self.era += 1;
        // Between four fifths of the time and six.
        let fifth = self.settings.rest / 5;
        let random =
            Duration::from_secs_f64(2.0 * fifth.as_secs_f64() * f64::from(jitter) / f64::from(u32::MAX));
        self.state = State::Open { until: now + self.settings.rest - fifth + random };
    }
}

impl Watched {
    fn new(now: Instant) -> Self {
        Self {
            slices: Default::default(),
            current: 0,
            since: now,
            in_a_row: 0,
            out: 0,
            heard: now,
            suspected: None,
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.out == 0 {
            (self.heard, self.suspected) = (now, None);
        }
        self.out += 1;
    }

    fn end(&mut self, failed: bool, now: Instant, window: Duration) {
        self.out = self.out.saturating_sub(1);
        (self.heard, self.suspected) = (self.heard.max(now), None);
        self.in_a_row = if failed { self.in_a_row + 1 } else { 0 };
        let slice = (window / SLICES).as_nanos().max(1);
        let current = now.saturating_duration_since(self.since).as_nanos() / slice;
        let current = u64::try_from(current).unwrap_or(u64::MAX).max(self.current);
        // Each slice that has begun since then takes the place of an old one.
        for passed in (self.current + 1..=current).take(SLICES as usize) {
            self.slices[place(passed)] = Slice::default();
        }
        if current - self.current >= u64::from(SLICES) {
            self.slices = Default::default();
        }
        self.current = current;
        let slice = &mut self.slices[place(current)];
        slice.calls = slice.calls.saturating_add(1);
        slice.failures = slice.failures.saturating_add(u32::from(failed));
    }

    fn is_too_much(&self, settings: &BreakerSettings) -> bool {
        if settings.in_a_row.is_some_and(|most| self.in_a_row >= most) {
            return true;
        }
        let sum = |of: fn(&Slice) -> u32| self.slices.iter().map(|slice| u64::from(of(slice))).sum::<u64>();
        let (calls, failures) = (sum(|slice| slice.calls), sum(|slice| slice.failures));
        calls >= u64::from(settings.min_calls)
            && failures * 100 > calls * u64::from(settings.failures_percent)
    }
}

fn place(slice: u64) -> usize {
    usize::try_from(slice % u64::from(SLICES)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
