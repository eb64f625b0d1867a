//! A counter of whichever algorithm its quota asks for.

use super::balance::{self, Balance, Portable};
use super::{Counter, FixedWindow, InFlight, SlidingLog, SlidingWindow, TokenBucket, step};
use crate::quota::{Algorithm, Quota};
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// A counter of any algorithm, for books that hold all of them side by side.
///
/// The memory store keeps a table per algorithm instead, which is faster; this is for keys that change hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyCounter {
    /// Token bucket.
    TokenBucket(TokenBucket),
    /// Fixed window.
    FixedWindow(FixedWindow),
    /// Sliding window.
    SlidingWindow(SlidingWindow),
    /// Sliding log.
    SlidingLog(SlidingLog),
    /// Requests in flight.
    InFlight(InFlight),
}

/// Runs `$body` with `$counter` being the counter inside.
macro_rules! with_counter {
    ($any:expr, |$counter:ident| $body:expr) => {
        match $any {
            Self::TokenBucket($counter) => $body,
            Self::FixedWindow($counter) => $body,
            Self::SlidingWindow($counter) => $body,
            Self::SlidingLog($counter) => $body,
            Self::InFlight($counter) => $body,
        }
    };
}

macro_rules! from_counter {
    ($($counter:ident),*) => {$(
        impl From<$counter> for AnyCounter {
            fn from(counter: $counter) -> Self {
                Self::$counter(counter)
            }
        }
    )*};
}

from_counter!(TokenBucket, FixedWindow, SlidingWindow, SlidingLog, InFlight);

impl AnyCounter {
    /// Counter of `algorithm` for a key never used.
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket => TokenBucket::default().into(),
            Algorithm::FixedWindow => FixedWindow::default().into(),
            Algorithm::SlidingWindow => SlidingWindow::default().into(),
            Algorithm::SlidingLog => SlidingLog::default().into(),
            Algorithm::InFlight => InFlight::default().into(),
        }
    }

    /// Rebuilds a counter at `now` from what another book had counted; see [`Portable::restore`].
    pub fn restore(quota: &Quota, balance: &Balance, now: Timestamp) -> Self {
        match quota.algorithm() {
            Algorithm::TokenBucket => TokenBucket::restore(quota, balance, now).into(),
            Algorithm::FixedWindow => FixedWindow::restore(quota, balance, now).into(),
            Algorithm::SlidingWindow => SlidingWindow::restore(quota, balance, now).into(),
            Algorithm::SlidingLog => SlidingLog::restore(quota, balance, now).into(),
            Algorithm::InFlight => InFlight::restore(quota, balance, now).into(),
        }
    }

    /// Decides one request of `cost`; see [`step`].
    pub fn step(&mut self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
        with_counter!(self, |counter| step(counter, quota, cost, now))
    }

    /// Lets time pass up to `now`; see [`Counter::advance`].
    pub fn advance(&mut self, quota: &Quota, now: Timestamp) {
        with_counter!(self, |counter| counter.advance(quota, now));
    }

    /// Returns the latest time the counter was advanced to.
    pub fn at(&self) -> Timestamp {
        with_counter!(self, |counter| counter.at())
    }

    /// Returns true if a request of `cost` may go ahead.
    pub fn fits(&self, quota: &Quota, cost: u64) -> bool {
        with_counter!(self, |counter| counter.fits(quota, cost))
    }

    /// Returns the verdict on a request of `cost` without changing anything; see [`Counter::look`].
    pub fn look(&self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
        with_counter!(self, |counter| counter.look(quota, cost, now))
    }

    /// Returns the largest cost that fits.
    pub fn room(&self, quota: &Quota) -> u64 {
        with_counter!(self, |counter| counter.room(quota))
    }

    /// Consumes `cost`, which fits.
    pub fn charge(&mut self, quota: &Quota, cost: u64) {
        with_counter!(self, |counter| counter.charge(quota, cost));
    }

    /// Gives back `cost` that was charged at `since`; see [`Counter::credit`].
    pub fn credit(&mut self, quota: &Quota, cost: u64, since: Timestamp) {
        with_counter!(self, |counter| counter.credit(quota, cost, since));
    }

    /// Goes over from quota `from` to quota `to`, keeping what was consumed.
    pub fn rescale(&mut self, from: &Quota, to: &Quota) {
        with_counter!(self, |counter| counter.rescale(from, to));
    }

    /// Returns true if the counter is as if never used at `now`.
    pub fn is_at_rest(&self, quota: &Quota, now: Timestamp) -> bool {
        with_counter!(self, |counter| counter.is_at_rest(quota, now))
    }

    /// Returns the consumption at the counter's own time.
    pub fn balance(&self, quota: &Quota) -> Balance {
        with_counter!(self, |counter| counter.balance(quota))
    }

    /// Adds units to the time slot in which they were consumed elsewhere; see [`Portable::adjust`].
    pub fn adjust(&mut self, quota: &Quota, slot: u64, units: i64) -> bool {
        with_counter!(self, |counter| counter.adjust(quota, slot, units))
    }

    /// Raises the consumption to at least that of `balance`; see [`Portable::raise`].
    pub fn raise(&mut self, quota: &Quota, balance: &Balance) {
        with_counter!(self, |counter| counter.raise(quota, balance));
    }

    /// Returns the time slot that the counter stands in.
    pub fn slot(&self, quota: &Quota) -> u64 {
        balance::slot_at(quota, self.at())
    }

    /// Returns the time slot that `at` lies in: the window's number, a fiftieth of a log's window, or 0 for a bucket.
    pub fn slot_at(quota: &Quota, at: Timestamp) -> u64 {
        balance::slot_at(quota, at)
    }

    /// Returns when what was consumed in `slot` stops counting.
    pub fn slot_expiry(quota: &Quota, slot: u64) -> Timestamp {
        balance::slot_expiry(quota, slot)
    }
}
