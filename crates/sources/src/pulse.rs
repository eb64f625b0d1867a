//! When a source was last heard of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tells how long ago a source was known to be as it was told: whether it is read again and again or watched, there is a
/// last moment at which it has shown that it is there. Copies tell the same.
#[derive(Clone, Debug)]
pub struct Pulse {
    begun: Instant,
    /// Milliseconds since then.
    beat: Arc<AtomicU64>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), beat: Arc::default() }
    }

    pub(crate) fn beat(&self) {
        self.beat.store(self.now(), Ordering::Relaxed);
    }

    /// How long ago it was last heard of; since it was set up, if it never was.
    pub fn age(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.beat.load(Ordering::Relaxed)))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
