//! The breaker of one master, used by many at once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_store::{Breaker, BreakerSettings, BreakerState, Permit};

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

    /// Whether it is worth the while to wait for a call.
    pub(crate) fn lets_through(&self) -> bool {
        if self.state.load(Ordering::Relaxed) == BreakerState::Closed.number() {
            return true;
        }
        self.breaker.as_ref().is_none_or(|breaker| breaker.lock().may_begin(Instant::now()))
    }

    /// Asks for leave to make a call.
    pub(crate) fn begin(&self) -> Result<Option<Permit>, ()> {
        self.with(|breaker| breaker.begin(Instant::now(), jitter()))
            .map_or(Ok(None), |permit| permit.map(Some).ok_or(()))
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
        let state = breaker.state();
        let before = self.state.swap(state.number(), Ordering::Relaxed);
        drop(breaker);
        if before != state.number() {
            tracing::info!(%state, "breaker");
        }
        Some(done)
    }
}

fn jitter() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).ok();
    u32::from_le_bytes(bytes)
}
