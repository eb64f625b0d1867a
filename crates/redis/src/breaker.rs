//! The breaker of one master, used by many at once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_store::deadline::watch;
use tidegate_store::{Breaker, BreakerSettings, BreakerState, Failure, Jitter, Permit};

use crate::breaker_log::{BreakerLog, Notice};

/// A breaker, or none.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// The server, as the log names it.
    name: String,
    breaker: Option<Mutex<Breaker>>,
    log: Mutex<BreakerLog>,
    /// Moments in a call after which it matters that there is no answer yet.
    marks: Vec<Duration>,
    jitter: Jitter,
    /// What the state was when last looked at, so that nobody has to wait to find out that all is well.
    state: AtomicU8,
}

impl Guarded {
    pub(crate) fn new(name: String, settings: Option<BreakerSettings>) -> Self {
        let marks = settings.as_ref().map(BreakerSettings::marks).unwrap_or_default();
        let breaker = settings.map(|settings| Mutex::new(Breaker::new(settings, Instant::now())));
        Self {
            name,
            breaker,
            log: Mutex::default(),
            marks,
            jitter: Jitter::new(seed()),
            state: AtomicU8::new(BreakerState::Closed.number()),
        }
    }

    /// Begins anew: it is about another server.
    pub(crate) fn reset(&self) {
        self.with(|breaker| breaker.reset(Instant::now()));
    }

    pub(crate) fn state(&self) -> BreakerState {
        self.breaker.as_ref().map_or(BreakerState::Closed, |breaker| breaker.lock().state())
    }

    /// Why the server is left alone, if it is, and in which state.
    pub(crate) fn reason(&self) -> Option<(Failure, BreakerState)> {
        let breaker = self.breaker.as_ref()?.lock();
        let state = breaker.state();
        (state != BreakerState::Closed).then(|| (reason(&breaker), state))
    }

    /// Says why the server is left alone, if it is: not even to see whether it is back, which is done without requests.
    pub(crate) fn is_closed(&self) -> Result<(), Failure> {
        if self.state.load(Ordering::Relaxed) == BreakerState::Closed.number() {
            return Ok(());
        }
        self.reason().map_or(Ok(()), |(failure, _)| Err(failure))
    }

    /// Says why it is not worth the while to wait for a call, if it is not.
    pub(crate) fn lets_through(&self) -> Result<(), Failure> {
        if self.state.load(Ordering::Relaxed) == BreakerState::Closed.number() {
            return Ok(());
        }
        let Some(breaker) = &self.breaker else { return Ok(()) };
        let breaker = breaker.lock();
        if breaker.may_begin(Instant::now()) { Ok(()) } else { Err(reason(&breaker)) }
    }

    /// Asks for leave to make a call.
    pub(crate) fn begin(&self) -> Result<Option<Permit>, Failure> {
        let begin = |breaker: &mut Breaker| {
            let permit = breaker.begin(Instant::now(), self.jitter.next());
            permit.map(Some).ok_or_else(|| reason(breaker))
        };
        self.with(begin).unwrap_or(Ok(None))
    }

    /// Waits for a call, and returns what came of it and for how long it was certainly not answered.
    pub(crate) async fn watch<F: Future>(&self, permit: Option<Permit>, call: F) -> (F::Output, Duration) {
        match permit {
            Some(permit) => watch(permit.begun(), &self.marks, call).await,
            None => (call.await, Duration::ZERO),
        }
    }

    /// Tells what became of a call: for how long it was certainly not answered, or nothing if it never was.
    pub(crate) fn end(&self, permit: Option<Permit>, unanswered: Option<Duration>) {
        if let Some(permit) = permit {
            self.with(|breaker| breaker.end(permit, unanswered, Instant::now(), self.jitter.next()));
        }
    }

    /// Looks whether calls are out that nobody has heard of for too long.
    pub(crate) fn look(&self) {
        if self.state.load(Ordering::Relaxed) == BreakerState::Closed.number() {
            self.with(|breaker| breaker.look(Instant::now(), self.jitter.next()));
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        let mut breaker = self.breaker.as_ref()?.lock();
        let done = work(&mut breaker);
        let (state, slow) = (breaker.state(), breaker.is_slow());
        let before = self.state.swap(state.number(), Ordering::Relaxed);
        drop(breaker);
        if before != state.number() || state != BreakerState::Closed {
            self.log(state, slow);
        }
        Some(done)
    }

    fn log(&self, state: BreakerState, slow: bool) {
        let notice = self.log.lock().note(state, Instant::now());
        let (server, seconds) = (&self.name, |time: Duration| time.as_secs());
        match notice {
            Some(Notice::Opened) => {
                tracing::warn!(
                    server,
                    slow,
                    "breaker opened: the server fails or answers late, and only trial calls are made"
                );
            }
            Some(Notice::StillOpen(time)) => {
                tracing::warn!(
                    server,
                    slow,
                    seconds = seconds(time),
                    "breaker still open: no trial call succeeded"
                );
            }
            Some(Notice::Closed(time)) => tracing::info!(server, seconds = seconds(time), "breaker closed"),
            None => {}
        }
    }
}

/// What calls fail for that are not made.
fn reason(breaker: &Breaker) -> Failure {
    if breaker.is_slow() { Failure::Slow } else { Failure::LeftAlone }
}

/// A random number; without randomness, all nodes have the same.
fn seed() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).ok();
    u32::from_le_bytes(bytes)
}
