//! Sliding window counter: the previous window still weighs, less and less, until it is a window ago.
//!
//! Two counts per key, and no boundary burst: assuming the previous window's requests were spread evenly, the
//! estimate is what the last window's length really saw.

use super::fixed_window::{window_end, window_index};
use super::{Clock, Counter, allow, refuse};
use crate::quota::{MAX_UNITS, Quota};
use crate::time::{Span, Timestamp};
use crate::verdict::Verdict;

/// What was consumed in the window that `at` lies in, and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlidingWindow {
    pub(super) previous: u64,
    pub(super) current: u64,
    pub(super) at: Timestamp,
}

impl SlidingWindow {
    /// What was counted by `at`, in its window and in the one before.
    pub const fn new(previous: u64, current: u64, at: Timestamp) -> Self {
        Self { previous, current, at }
    }

    /// `previous × (1 − elapsed/window) + current`, times the window so that it stays whole.
    fn estimate_units(&self, quota: &Quota) -> u128 {
        let window = quota.window().as_millis();
        let left = window - self.at.as_millis() % window;
        u128::from(self.previous) * u128::from(left) + u128::from(self.current) * u128::from(window)
    }

    /// What the estimate leaves of the limit.
    fn free_units(&self, quota: &Quota) -> u128 {
        u128::from(quota.capacity_units()).saturating_sub(self.estimate_units(quota))
    }

    /// From `at` until a request of `cost` (at most the limit) fits.
    fn wait(&self, quota: &Quota, cost: u64) -> Span {
        let window = quota.window().as_millis();
        let elapsed = self.at.as_millis() % window;
        // A count weighs little enough once at most `room` of it is left: at the first whole millisecond
        // `elapsed` with count × (window − elapsed) ≤ room × window.
        let settled = |count: u64, room: u64| match count {
            0 => 0,
            _ => {
                let left = u128::from(room) * u128::from(window) / u128::from(count);
                window - u64::try_from(left).unwrap_or(window).min(window)
            }
        };
        let room = quota.limit() - cost;
        Span::from_millis(if self.current <= room {
            settled(self.previous, room - self.current).saturating_sub(elapsed)
        } else {
            window - elapsed + settled(self.current, room)
        })
    }
}

impl Counter for SlidingWindow {
    #[inline]
    fn advance(&mut self, quota: &Quota, now: Timestamp) {
        match Clock::read(self.at, now) {
            Clock::At(at) => {
                match window_index(quota, at) - window_index(quota, self.at) {
                    0 => {}
                    1 => (self.previous, self.current) = (self.current, 0),
                    _ => (self.previous, self.current) = (0, 0),
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
        let units = u128::from(cost) * u128::from(quota.window().as_millis());
        !quota.is_blocked() && units <= self.free_units(quota)
    }

    #[inline]
    fn look(&self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
        if quota.is_blocked() {
            return Verdict::blocked(*quota);
        }
        let window = quota.window();
        let remaining = self.free_units(quota) / u128::from(window.as_millis());
        let remaining = u64::try_from(remaining).unwrap_or(u64::MAX);
        let end = window_end(quota, self.at);
        let reset = match (self.previous, self.current) {
            (0, 0) => Span::ZERO,
            (_, 0) => end.since(now),
            _ => (end + window).since(now),
        };
        if self.fits(quota, cost) {
            return allow(quota, remaining, reset);
        }
        refuse(quota, cost, remaining, reset, || self.at.since(now) + self.wait(quota, cost))
    }

    #[inline]
    fn charge(&mut self, _quota: &Quota, cost: u64) {
        self.current += cost;
    }

    fn credit(&mut self, quota: &Quota, cost: u64, since: Timestamp) {
        if since == Timestamp::LATEST || window_index(quota, since) == window_index(quota, self.at) {
            self.current = self.current.saturating_sub(cost);
        }
    }

    /// Both counts stay; when the window's length changes, all that still weighs (rounded up) becomes the
    /// present window's.
    fn rescale(&mut self, from: &Quota, to: &Quota) {
        if from.window() != to.window() {
            let weight = self.estimate_units(from).div_ceil(u128::from(from.window().as_millis()));
            self.current = u64::try_from(weight).unwrap_or(u64::MAX);
            self.previous = 0;
        }
        self.previous = clamp_count(to, self.previous);
        self.current = clamp_count(to, self.current);
    }

    fn is_at_rest(&self, quota: &Quota, now: Timestamp) -> bool {
        let end = window_end(quota, self.at);
        match (self.previous, self.current) {
            (0, 0) => true,
            (_, 0) => end <= now,
            _ => end + quota.window() <= now,
        }
    }
}

/// A count taken over from another window length, kept small enough to compute with exactly.
fn clamp_count(quota: &Quota, count: u64) -> u64 {
    count.min((MAX_UNITS - 1) / quota.window().as_millis())
}
