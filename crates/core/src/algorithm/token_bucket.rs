//! Token bucket: refills steadily, holds up to its capacity.

use super::{Clock, Counter, allow, refuse};
use crate::quota::Quota;
use crate::time::{Span, Timestamp};
use crate::verdict::Verdict;

/// What is missing from the bucket, and when that was known.
///
/// Counted as debt rather than as tokens, so that the default is a full bucket, and in units of which one
/// request takes as many as the window has milliseconds: then each millisecond pays back exactly `limit` units
/// and nothing is ever rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    pub(super) debt: u64,
    pub(super) at: Timestamp,
}

impl TokenBucket {
    /// A bucket from which `debt` units were missing at `at`.
    pub const fn new(debt: u64, at: Timestamp) -> Self {
        Self { debt, at }
    }

    /// The time in which `units` of debt are paid back.
    fn time_to_refill(quota: &Quota, units: u64) -> Span {
        Span::from_millis(units.div_ceil(quota.limit()))
    }

    /// What `elapsed` pays back.
    pub(super) fn refill(quota: &Quota, elapsed: Span) -> u64 {
        elapsed.as_millis().saturating_mul(quota.limit())
    }
}

impl Counter for TokenBucket {
    #[inline]
    fn advance(&mut self, quota: &Quota, now: Timestamp) {
        match Clock::read(self.at, now) {
            Clock::At(at) => {
                self.debt = self.debt.saturating_sub(Self::refill(quota, at.since(self.at)));
                self.at = at;
            }
            Clock::Rebased(at) => self.at = at,
        }
    }

    fn at(&self) -> Timestamp {
        self.at
    }

    #[inline]
    fn fits(&self, quota: &Quota, cost: u64) -> bool {
        !quota.is_blocked()
            && cost <= quota.capacity()
            && cost * quota.window().as_millis() <= quota.capacity_units().saturating_sub(self.debt)
    }

    #[inline]
    fn look(&self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
        if quota.is_blocked() {
            return Verdict::blocked(*quota);
        }
        let (window, full) = (quota.window().as_millis(), quota.capacity_units());
        let ahead = self.at.since(now);
        let remaining = full.saturating_sub(self.debt) / window;
        let reset = if self.debt == 0 { Span::ZERO } else { ahead + Self::time_to_refill(quota, self.debt) };
        if self.fits(quota, cost) {
            return allow(quota, remaining, reset);
        }
        refuse(quota, cost, remaining, reset, || {
            ahead + Self::time_to_refill(quota, self.debt + cost * window - full)
        })
    }

    #[inline]
    fn charge(&mut self, quota: &Quota, cost: u64) {
        self.debt += cost * quota.window().as_millis();
    }

    fn credit(&mut self, quota: &Quota, cost: u64, since: Timestamp) {
        let refilled = Self::refill(quota, self.at.since(since));
        let units = cost.saturating_mul(quota.window().as_millis()).saturating_sub(refilled);
        self.debt = self.debt.saturating_sub(units);
    }

    /// As full as before, in proportion; debt is rounded up.
    fn rescale(&mut self, from: &Quota, to: &Quota) {
        let (from, to) = (u128::from(from.capacity_units()), u128::from(to.capacity_units()));
        if from > 0 {
            self.debt = u64::try_from((u128::from(self.debt) * to).div_ceil(from)).unwrap_or(u64::MAX);
        }
    }

    fn is_at_rest(&self, quota: &Quota, now: Timestamp) -> bool {
        self.debt <= Self::refill(quota, now.since(self.at))
    }
}
