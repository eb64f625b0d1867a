//! What the proxy does to the bytes at this moment.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Forwarding,
    Stalled,
    DroppingReplies,
    Cut,
    Ended,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    delay: Duration,
}

/// Shared by all threads of a proxy.
#[derive(Debug)]
pub(super) struct Faults {
    state: Mutex<State>,
    changed: Condvar,
}

impl Faults {
    pub(super) fn none() -> Self {
        let state = State { mode: Mode::Forwarding, delay: Duration::ZERO };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn set(&self, mode: Mode) {
        self.state().mode = mode;
        self.changed.notify_all();
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    pub(super) fn mode(&self) -> Mode {
        self.state().mode
    }

    pub(super) fn delay(&self) -> Duration {
        self.state().delay
    }

    /// Waits while the proxy is in this mode and nothing else ends the wait; returns the mode then.
    pub(super) fn wait_while(&self, mode: Mode, ended: impl Fn() -> bool) -> Mode {
        let waits = |state: &mut State| state.mode == mode && !ended();
        let state = self.changed.wait_while(self.state(), waits);
        state.unwrap_or_else(PoisonError::into_inner).mode
    }

    /// Makes all that wait look again at what ends their wait.
    pub(super) fn wake_all(&self) {
        // Whoever has looked but does not wait yet holds the lock.
        drop(self.state());
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
