//! Limits on requests in flight at an upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tidegate_overload::{InFlightLimiter, InFlightStats, Permit, PriorityClass};

use super::{Concurrency, ConcurrencyLimit};

/// Greatest number of seconds after which a client that was shed is asked to retry.
const MAX_RETRY_AFTER: u64 = 3;

/// Sheds requests that an upstream has no room for.
#[derive(Debug)]
pub struct LoadShedder {
    settings: Concurrency,
    limiter: Arc<InFlightLimiter>,
    /// Requests that were shed, by class of the headroom.
    shed: Box<[AtomicU64]>,
}

/// A request that was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// Seconds after which it may be tried again: spread, so that clients do not come back together.
    pub retry_after: u64,
}

/// Room for a request at an upstream, until it is dropped.
#[derive(Debug)]
pub struct UpstreamPermit(Permit);

impl LoadShedder {
    pub(super) fn new(settings: Concurrency) -> Self {
        let limiter = match settings.limit {
            ConcurrencyLimit::Fixed(limit) => InFlightLimiter::fixed(limit.get()),
            ConcurrencyLimit::Adaptive(bounds) => InFlightLimiter::adaptive(bounds, Instant::now()),
        };
        let shed = settings.headroom.class_names().map(|_| AtomicU64::new(0)).collect();
        Self { settings, limiter, shed }
    }

    /// Returns the settings that it was made with.
    pub(super) fn settings(&self) -> &Concurrency {
        &self.settings
    }

    /// Returns the class that requests of a tier belong to.
    pub fn class(&self, tier: Option<&str>) -> PriorityClass {
        self.settings.headroom.class(tier)
    }

    /// Admits a request, or sheds it.
    pub fn admit(&self, class: PriorityClass) -> Result<UpstreamPermit, Shed> {
        let admitted = self.limiter.acquire(class.share, Instant::now());
        admitted.map(UpstreamPermit).map_err(|_| self.shed(class))
    }

    /// Sheds a request that would not be admitted now.
    pub fn check(&self, class: PriorityClass) -> Result<(), Shed> {
        self.limiter.check(class.share, Instant::now()).map_err(|_| self.shed(class))
    }

    fn shed(&self, class: PriorityClass) -> Shed {
        let before = self.shed.get(class.index).map_or(0, |shed| shed.fetch_add(1, Ordering::Relaxed));
        Shed { retry_after: 1 + before % MAX_RETRY_AFTER }
    }

    /// Returns the limit and what it is based on.
    pub fn stats(&self) -> InFlightStats {
        self.limiter.stats()
    }

    /// Returns how many requests were shed, by class.
    pub fn shed_by_class(&self) -> impl Iterator<Item = (&str, u64)> {
        let counts = self.shed.iter().map(|count| count.load(Ordering::Relaxed));
        self.settings.headroom.class_names().zip(counts)
    }
}

impl UpstreamPermit {
    /// Records that the head of the response is there, or was waited for in vain.
    pub(crate) fn responded(&mut self) {
        self.0.responded(Instant::now());
    }
}

impl Drop for UpstreamPermit {
    fn drop(&mut self) {
        self.0.abandoned(Instant::now());
    }
}
