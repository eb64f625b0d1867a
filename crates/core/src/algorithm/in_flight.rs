//! Requests in flight: a count of what is held at present, which time never gives back.
//!
//! The cost of a request is held ([`Action::Hold`](crate::Action::Hold)) for as long as it is in flight, and given back when it is over
//! ([`Action::Settle`](crate::Action::Settle) with a cost of 0). The quota's window is how long a hold lasts that nobody settles: the
//! store gives it back then, and the counter itself knows nothing of time.

use super::{Clock, Counter, allow, refuse};
use crate::quota::Quota;
use crate::time::{Span, Timestamp};
use crate::verdict::Verdict;

/// Time after which a refused request may be tried again. Nobody knows when one of those in flight is over.
const RETRY: Span = Span::from_secs(1);

/// Number of requests in flight, or more if they cost more than one each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    pub(super) used: u64,
    pub(super) at: Timestamp,
}

impl InFlight {
    /// Counter with `used` in flight at `at`.
    pub const fn new(used: u64, at: Timestamp) -> Self {
        Self { used, at }
    }

    fn room_under(&self, quota: &Quota) -> u64 {
        quota.limit().saturating_sub(self.used)
    }
}

impl Counter for InFlight {
    const REFILLS: bool = false;

    fn advance(&mut self, _quota: &Quota, now: Timestamp) {
        let (Clock::At(at) | Clock::Rebased(at)) = Clock::read(self.at, now);
        self.at = at;
    }

    fn at(&self) -> Timestamp {
        self.at
    }

    fn fits(&self, quota: &Quota, cost: u64) -> bool {
        !quota.is_blocked() && cost <= self.room_under(quota)
    }

    fn look(&self, quota: &Quota, cost: u64, _now: Timestamp) -> Verdict {
        if quota.is_blocked() {
            return Verdict::blocked(*quota);
        }
        let remaining = self.room_under(quota);
        // By then all holds are over, settled or not.
        let reset = if self.used == 0 { Span::ZERO } else { quota.window() };
        if self.fits(quota, cost) {
            return allow(quota, remaining, reset);
        }
        refuse(quota, cost, remaining, reset, || RETRY)
    }

    fn charge(&mut self, _quota: &Quota, cost: u64) {
        self.used = self.used.saturating_add(cost);
    }

    /// Time gives nothing back, so whenever it was charged, all of it is given back now.
    fn credit(&mut self, _quota: &Quota, cost: u64, _since: Timestamp) {
        self.used = self.used.saturating_sub(cost);
    }

    /// Keeps the number of requests in flight.
    fn rescale(&mut self, _from: &Quota, _to: &Quota) {}

    fn is_at_rest(&self, _quota: &Quota, _now: Timestamp) -> bool {
        self.used == 0
    }
}
