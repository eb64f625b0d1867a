//! What a node has been asked by others.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much a node has been asked, and by whom it should not have been.
#[derive(Debug, Default)]
pub struct CallFigures {
    requests: AtomicU64,
    calls: AtomicU64,
    unopened: AtomicU64,
    unreadable: AtomicU64,
}

impl CallFigures {
    /// Requests that were opened, each with one call or several.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Calls that were read.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Requests that no secret opens, that are for another node, or that came before.
    pub fn unopened(&self) -> u64 {
        self.unopened.load(Ordering::Relaxed)
    }

    /// Requests and calls that a node has sealed, and that cannot be read here.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    pub(super) fn opened(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, readable: bool) {
        let count = if readable { &self.calls } else { &self.unreadable };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stranger(&self) {
        self.unopened.fetch_add(1, Ordering::Relaxed);
    }
}
