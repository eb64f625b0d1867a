//! The breaker of one master, used by many at once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_store::{Breaker, BreakerSettings, BreakerState, Failure, Permit};

/// A breaker, or none.
#[derive(Debug)]
pub(crate) struct Guarded {
    breaker: Option<Mutex<Breaker>>,
    /// What the state was when last looked at, so that nobody has to wait to find out that all is well.
    state: AtomicU8,
}

impl Guarded {
    pub(crate) fn new(settings: Option<BreakerSettings>) -> Self {
        let breaker = settings.map(|settings| Mutex::new(Breaker::new(settings, Instant::now())));
        Self { breaker, state: AtomicU8::new(BreakerState::Closed.number()) }
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
            let permit = breaker.begin(Instant::now(), jitter());
            permit.map(Some).ok_or_else(|| reason(breaker))
        };
        self.with(begin).unwrap_or(Ok(None))
    }

    /// Tells what became of a call.
    pub(crate) fn end(&self, permit: Option<Permit>, answered: bool) {
        if let Some(permit) = permit {
            self.with(|breaker| breaker.end(permit, answered, Instant::now(), jitter()));
        }
    }

    /// Looks whether calls are out that nobody has heard of for too long.
    pub(crate) fn look(&self) {
        if self.state.load(Ordering::Relaxed) == BreakerState::Closed.number() {
            self.with(|breaker| breaker.look(Instant::now(), jitter()));
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        let mut breaker = self.breaker.as_ref()?.lock();
        let done = work(&mut breaker);
        let (state, slow) = (breaker.state(), breaker.is_slow());
        let before = self.state.swap(state.number(), Ordering::Relaxed);
        drop(breaker);
        if before != state.number() {
            tracing::info!(%state, slow, "breaker");
        }
        Some(done)
    }
}

/// What calls fail for that are not made.
fn reason(breaker: &Breaker) -> Failure {
    if breaker.is_slow() { Failure::Slow } else { Failure::LeftAlone }
}

fn jitter() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).ok();
    u32::from_le_bytes(bytes)
}
