//! Fixed window: a count that starts anew at every multiple of the window since the epoch.
//!
//! Cheap and easy to explain, with one known weakness: a full limit just before a boundary and another just
//! after it are both allowed.

use super::{Clock, Counter, allow, refuse};
use crate::quota::Quota;
use crate::time::{Span, Timestamp};
use crate::verdict::Verdict;

/// What was consumed in the window that `at` lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedWindow {
    pub(super) count: u64,
    pub(super) at: Timestamp,
}

impl FixedWindow {
    /// What was counted by `at` in its window.
    pub const fn new(count: u64, at: Timestamp) -> Self {
        Self { count, at }
    }
}

impl Counter for FixedWindow {
    #[inline]
    fn advance(&mut self, quota: &Quota, now: Timestamp) {
        match Clock::read(self.at, now) {
            Clock::At(at) => {
                if window_index(quota, at) != window_index(quota, self.at) {
                    self.count = 0;
                }
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
        !quota.is_blocked() && cost <= quota.limit().saturating_sub(self.count)
    }

    #[inline]
    fn look(&self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
        if quota.is_blocked() {
            return Verdict::blocked(*quota);
        }
        let end = window_end(quota, self.at).since(now);
        let remaining = quota.limit().saturating_sub(self.count);
        let reset = if self.count == 0 { Span::ZERO } else { end };
        if self.fits(quota, cost) {
            return allow(quota, remaining, reset);
        }
        refuse(quota, cost, remaining, reset, || end)
    }

    #[inline]
    fn charge(&mut self, _quota: &Quota, cost: u64) {
        self.count += cost;
    }

    fn credit(&mut self, quota: &Quota, cost: u64, since: Timestamp) {
        if since == Timestamp::LATEST || window_index(quota, since) == window_index(quota, self.at) {
            self.count = self.count.saturating_sub(cost);
        }
    }

    /// The count stays and is now the present window's, whatever its length.
    fn rescale(&mut self, _from: &Quota, _to: &Quota) {}

    fn is_at_rest(&self, quota: &Quota, now: Timestamp) -> bool {
        self.count == 0 || window_end(quota, self.at) <= now
    }
}

/// Which window since the epoch `at` lies in.
pub(super) fn window_index(quota: &Quota, at: Timestamp) -> u64 {
    at.as_millis() / quota.window().as_millis()
}

/// When the window that `at` lies in ends.
pub(super) fn window_end(quota: &Quota, at: Timestamp) -> Timestamp {
    let window = quota.window().as_millis();
    Timestamp::from_millis(at.as_millis() - at.as_millis() % window) + quota.window()
}
