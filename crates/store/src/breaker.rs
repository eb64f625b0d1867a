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
//!
//! A store that answers, but slowly, opens it too, if the settings say so. Then one success is not enough: several tries in
//! a row, some time apart, must be fast, and twice as many if it was slow again soon after the last time.

use std::fmt;
use std::time::{Duration, Instant};

/// How many slices the time that is looked at has. What a slice holds is forgotten at once, so this is how fine it is.
const SLICES: u32 = 10;

/// What part of the silence it has to last on, once noticed, before it counts.
const DOUBT: u32 = 4;

/// How many tries in a row must be fast after it was slow, at first and at most.
const FIRST_TRIES: u32 = 3;
const MOST_TRIES: u32 = 96;

/// How far apart they are, as a part of the rest: a moment in between two spikes is no recovery.
const APART: u32 = 10;

/// So many times the rest after it was slow, being slow again is a relapse: it may well be fast only while nobody asks.
const RELAPSE: u32 = 10;

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
    /// A call that was not answered for longer is a failure, whatever it brought.
    pub slow: Duration,
    /// Opens if calls are out and none has come back for so long: of a server that hangs there are few calls to count.
    pub silence: Option<Duration>,
    /// How long to leave it alone before a call may try.
    pub rest: Duration,
    /// When it is too slow to be asked although it answers, if ever.
    pub spike: Option<Spike>,
}

/// When a store that answers is too slow to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    /// A call that was not answered for longer is slow: nobody had waited for it.
    pub slow: Duration,
    /// Opens if more than this share of the calls within the window was slow, in percent…
    pub percent: u32,
    /// …of at least so many calls.
    pub min_calls: u32,
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
        spike: Some(Spike { slow: Duration::from_millis(5), percent: 20, min_calls: 20 }),
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
        spike: None,
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

impl Permit {
    /// Returns when the call was allowed, which is when it began.
    pub const fn begun(&self) -> Instant {
        self.begun
    }
}

/// One part of a store, asked or left alone.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: State,
    era: u64,
    /// When it last closed after it was slow, and how many tries that took.
    recovered: Option<(Instant, u32)>,
}

#[derive(Debug)]
enum State {
    Closed(Watched),
    Open {
        until: Instant,
        why: Why,
    },
    HalfOpen {
        /// When another call may try: the one that is out is lost by then.
        again: Instant,
        out: bool,
        why: Why,
    },
}

/// What it was opened for.
#[derive(Clone, Copy, Debug)]
enum Why {
    Failed,
    /// So many more tries must be fast, of so many in a row.
    Slow {
        left: u32,
        needed: u32,
    },
}

impl Why {
    /// The same, with all tries still to be made.
    const fn anew(self) -> Self {
        match self {
            Self::Failed => self,
            Self::Slow { needed, .. } => Self::Slow { left: needed, needed },
        }
    }
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
    slow: u32,
}

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Went {
    Well,
    Slowly,
    Wrong,
}

impl Breaker {
    /// A breaker that is closed since `now`.
    pub fn new(settings: BreakerSettings, now: Instant) -> Self {
        Self { settings, state: State::Closed(Watched::new(now)), era: 0, recovered: None }
    }

    /// Forgets everything: it is about something else from now on. What is under way says nothing about that.
    pub fn reset(&mut self, now: Instant) {
        self.close(now);
        self.recovered = None;
    }

    /// Whether calls are made.
    pub fn state(&self) -> BreakerState {
        match self.state {
            State::Closed(_) => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether it is not closed because the store answers too slowly.
    pub fn is_slow(&self) -> bool {
        matches!(
            self.state,
            State::Open { why: Why::Slow { .. }, .. } | State::HalfOpen { why: Why::Slow { .. }, .. }
        )
    }

    /// Asks for leave to make a call. `jitter` is anything random, for the time until the next try, so that many nodes do
    /// not try at once.
    pub fn begin(&mut self, now: Instant, jitter: u32) -> Option<Permit> {
        self.look(now, jitter);
        match &mut self.state {
            State::Closed(watched) => watched.begin(now),
            State::Open { until, why } if now >= *until => {
                self.era += 1;
                // A call that nobody ever tells about must not stop all others for ever.
                self.state = State::HalfOpen { again: now + self.settings.rest, out: true, why: *why };
            }
            State::HalfOpen { again, out, why } if now >= *again => {
                self.era += 1;
                let why = if *out { why.anew() } else { *why };
                self.state = State::HalfOpen { again: now + self.settings.rest, out: true, why };
            }
            State::Open { .. } | State::HalfOpen { .. } => return None,
        }
        Some(Permit { begun: now, era: self.era })
    }

    /// Whether [`begin`](Self::begin) would give leave.
    pub fn may_begin(&self, now: Instant) -> bool {
        match self.state {
            State::Closed(_) => true,
            State::Open { until: next, .. } | State::HalfOpen { again: next, .. } => now >= next,
        }
    }

    /// Tells what became of a call: for how long it was certainly not answered before it was, or nothing if it never was. What was
    /// answered is no matter.
    pub fn end(&mut self, permit: Permit, unanswered: Option<Duration>, now: Instant, jitter: u32) {
        if permit.era != self.era {
            return;
        }
        let went = self.settings.went(unanswered);
        match &mut self.state {
            State::Closed(watched) => {
                watched.end(went, now, self.settings.window);
                if watched.is_too_much(&self.settings) {
                    self.open(Why::Failed, now, jitter);
                } else if watched.is_too_slow(&self.settings) {
                    let needed = self.tries(now);
                    self.open(Why::Slow { left: needed, needed }, now, jitter);
                }
            }
            State::HalfOpen { why, .. } => {
                let why = *why;
                self.tried(why, went, now, jitter);
            }
            State::Open { .. } => {}
        }
    }

    /// One call has tried.
    fn tried(&mut self, why: Why, went: Went, now: Instant, jitter: u32) {
        match (why, went) {
            (_, Went::Wrong) => self.open(Why::Failed, now, jitter),
            (Why::Slow { .. }, Went::Slowly) => self.open(why.anew(), now, jitter),
            (Why::Slow { left: left @ 2.., needed }, Went::Well) => {
                self.era += 1;
                let (again, why) = (now + self.settings.rest / APART, Why::Slow { left: left - 1, needed });
                self.state = State::HalfOpen { again, out: false, why };
            }
            (Why::Slow { needed, .. }, Went::Well) => {
                self.recovered = Some((now, needed));
                self.close(now);
            }
            (Why::Failed, Went::Well | Went::Slowly) => self.close(now),
        }
    }

    /// How many tries must be fast if it is slow `now`.
    fn tries(&self, now: Instant) -> u32 {
        match self.recovered {
            Some((at, tries)) if now.saturating_duration_since(at) <= self.settings.rest * RELAPSE => {
                tries.saturating_mul(2).min(MOST_TRIES)
            }
            _ => FIRST_TRIES,
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
            self.open(Why::Failed, now, jitter);
        }
    }

    fn close(&mut self, now: Instant) {
        self.era += 1;
        self.state = State::Closed(Watched::new(now));
    }

    fn open(&mut self, why: Why, now: Instant, jitter: u32) {
        self.era += 1;
        // Between four fifths of the time and six.
        let fifth = self.settings.rest / 5;
        let random =
            Duration::from_secs_f64(2.0 * fifth.as_secs_f64() * f64::from(jitter) / f64::from(u32::MAX));
        self.state = State::Open { until: now + self.settings.rest - fifth + random, why };
    }
}

impl BreakerSettings {
    /// Moments in a call, in ascending order, after which it matters that there is no answer yet.
    pub fn marks(&self) -> Vec<Duration> {
        let mut marks: Vec<Duration> = self.spike.iter().map(|spike| spike.slow).chain([self.slow]).collect();
        marks.sort();
        marks
    }

    /// Judges a call that was not answered for so long, or never.
    fn went(&self, unanswered: Option<Duration>) -> Went {
        match unanswered {
            None => Went::Wrong,
            Some(time) if time > self.slow => Went::Wrong,
            Some(time) if self.spike.is_some_and(|spike| time > spike.slow) => Went::Slowly,
            Some(_) => Went::Well,
        }
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

    fn end(&mut self, went: Went, now: Instant, window: Duration) {
        let failed = went == Went::Wrong;
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
        slice.slow = slice.slow.saturating_add(u32::from(went == Went::Slowly));
    }

    fn is_too_much(&self, settings: &BreakerSettings) -> bool {
        if settings.in_a_row.is_some_and(|most| self.in_a_row >= most) {
            return true;
        }
        self.is_more_than(settings.failures_percent, settings.min_calls, |slice| slice.failures)
    }

    fn is_too_slow(&self, settings: &BreakerSettings) -> bool {
        settings
            .spike
            .is_some_and(|spike| self.is_more_than(spike.percent, spike.min_calls, |slice| slice.slow))
    }

    /// Whether there were at least `min_calls`, and more than so many percent of them are of this kind.
    fn is_more_than(&self, percent: u32, min_calls: u32, of: fn(&Slice) -> u32) -> bool {
        let sum = |of: fn(&Slice) -> u32| self.slices.iter().map(|slice| u64::from(of(slice))).sum::<u64>();
        let (calls, these) = (sum(|slice| slice.calls), sum(of));
        calls >= u64::from(min_calls) && these * 100 > calls * u64::from(percent)
    }
}

fn place(slice: u64) -> usize {
    usize::try_from(slice % u64::from(SLICES)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
