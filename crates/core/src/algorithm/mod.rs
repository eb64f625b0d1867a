//! The counters, one file per algorithm.
//!
//! A counter is a small state that knows nothing of where it is stored. [`step`] is the whole of a decision on
//! one key, a pure function of counter, quota, cost and time; stores that decide over several keys at once use
//! the same parts ([`Counter::advance`], [`Counter::look`], [`Counter::charge`]) one after the other.

mod any;
mod balance;
mod fixed_window;
mod in_flight;
mod sliding_log;
mod sliding_window;
mod token_bucket;

#[cfg(test)]
mod tests;

pub use any::AnyCounter;
pub use balance::{Balance, Portable};
pub use fixed_window::FixedWindow;
pub use in_flight::InFlight;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

use crate::quota::Quota;
use crate::time::{Span, Timestamp};
use crate::verdict::{Retry, Verdict};

/// How far a counter may be ahead of the clock before the clock, not the counter, is believed.
pub const MAX_AHEAD: Span = Span::from_secs(10);

/// The state of one key under one algorithm. The default is a key never used.
///
/// `fits`, `look`, `room`, `charge`, `credit` and `rescale` expect a counter that was brought up to date with [`Self::advance`].
pub trait Counter: Clone + Default {
    /// True if waiting gives back what was consumed. If not, only settling does: whatever is consumed has to be a hold, or it would be
    /// gone for good.
    const REFILLS: bool = true;

    /// Lets time pass up to `now`: refills, rolls windows over, forgets what has expired.
    ///
    /// A clock that steps back is held at the last time seen; a counter more than [`MAX_AHEAD`] in the future
    /// is moved to `now` with all it has consumed.
    fn advance(&mut self, quota: &Quota, now: Timestamp);

    /// The time the counter goes by: the latest it was advanced to.
    fn at(&self) -> Timestamp;

    /// Whether a request of `cost` may go ahead. Nothing always fits, unless the quota is blocked.
    fn fits(&self, quota: &Quota, cost: u64) -> bool;

    /// What a request of `cost` would be told, changing nothing. Spans count from `now`.
    fn look(&self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict;

    /// The most that [`Self::fits`].
    fn room(&self, quota: &Quota) -> u64 {
        self.look(quota, 0, self.at()).remaining
    }

    /// Consumes `cost`, which [`Self::fits`].
    fn charge(&mut self, quota: &Quota, cost: u64);

    /// Gives back `cost` that was charged at `since`, as far as waiting has not given it back already;
    /// [`Timestamp::LATEST`] means whatever was charged last, of which the present window may have less.
    fn credit(&mut self, quota: &Quota, cost: u64, since: Timestamp);

    /// Goes over from quota `from` to quota `to`, keeping what was consumed.
    fn rescale(&mut self, from: &Quota, to: &Quota);

    /// Whether at `now` the counter is as if never used, so that it can be forgotten.
    fn is_at_rest(&self, quota: &Quota, now: Timestamp) -> bool;

    /// Entries kept outside the counter's own fixed size.
    fn entries(&self) -> usize {
        0
    }

    /// Gives up an entry, if there is one to spare, erring towards refusing.
    fn squeeze(&mut self) {}
}

/// Decides one request of `cost` on one counter at `now`. Cost 0 only looks.
pub fn step<C: Counter>(counter: &mut C, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
    counter.advance(quota, now);
    if cost == 0 || !counter.fits(quota, cost) {
        return counter.look(quota, cost, now);
    }
    counter.charge(quota, cost);
    counter.look(quota, 0, now)
}

/// The time a counter last seen at `last` goes by when the clock says `now`.
enum Clock {
    /// The clock went on, or stepped back a little and is held: the counter's time is this.
    At(Timestamp),
    /// The counter is too far ahead to be believed: it is moved here.
    Rebased(Timestamp),
}

impl Clock {
    fn read(last: Timestamp, now: Timestamp) -> Self {
        if last.since(now) > MAX_AHEAD { Self::Rebased(now) } else { Self::At(last.max(now)) }
    }
}

/// The verdict on a request that fits now.
#[inline]
fn allow(quota: &Quota, remaining: u64, reset_after: Span) -> Verdict {
    Verdict { allowed: true, remaining, reset_after, retry: Retry::Now, held: false, quota: *quota }
}

/// The verdict on a request of `cost` that does not fit now but would after `wait`.
fn refuse(
    quota: &Quota,
    cost: u64,
    remaining: u64,
    reset_after: Span,
    wait: impl FnOnce() -> Span,
) -> Verdict {
    let retry = if cost > quota.capacity() { Retry::Never } else { Retry::After(wait()) };
    Verdict { allowed: false, remaining, reset_after, retry, held: false, quota: *quota }
}
