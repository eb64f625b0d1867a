//! A part of the store as this node sees it: when it last answered, and what time it is there.

use std::time::Duration;

use tidegate_core::Timestamp;

use crate::timing::Moment;

/// Longest time that another member's time may have been under way, in milliseconds.
const MAX_DELAY_MS: i64 = 1_000;

/// Last answers of one part, and its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreHealth {
    last_ok: Option<Moment>,
    well_since: Option<Moment>,
    clock: StoreClock,
    /// True once a store, or a member that heard from one, has told the time.
    told: bool,
}

/// The store's time minus this node's, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreClock(i64);

impl StoreClock {
    pub(crate) fn time(self, now: Moment) -> Timestamp {
        Timestamp::from_millis(u64::try_from(local_millis(now) + self.0).unwrap_or(0))
    }
}

impl StoreHealth {
    /// Health before anything was heard. `offset` is this node's own wall clock minus its monotonic clock.
    pub(crate) const fn new(offset: i64) -> Self {
        Self { last_ok: None, well_since: None, clock: StoreClock(offset), told: false }
    }

    /// Records an answer to a call of this node that was sent at `sent`.
    pub(crate) fn answered(&mut self, sent: Moment, now: Moment, time: Timestamp, down: Duration) {
        if !self.is_ok(now, down) {
            self.well_since = Some(now);
        }
        self.last_ok = self.last_ok.max(Some(sent));
        self.read_clock(time, sent, now);
    }

    /// Follows the store's clock, which was read at some moment between `sent` and `now`: the offset changes only as far as
    /// it must, so that a slow answer does not move the time.
    fn read_clock(&mut self, time: Timestamp, sent: Moment, now: Moment) {
        let (least, most) = (millis(time) - local_millis(now), millis(time) - local_millis(sent));
        self.clock.0 = if self.told { self.clock.0.clamp(least, most.max(least)) } else { least };
        self.told = true;
    }

    /// Takes over the store's time from another member, if this node knows none, or if the member has the store and this node
    /// does not. The message was under way for an unknown time, for which [`MAX_DELAY_MS`] is allowed.
    pub(crate) fn adopt_clock(&mut self, time: Option<Timestamp>, now: Moment, has_store: bool) {
        let Some(time) = time else { return };
        let least = millis(time) - local_millis(now);
        if !self.told {
            (self.clock.0, self.told) = (least, true);
        } else if has_store {
            self.clock.0 = self.clock.0.clamp(least, least + MAX_DELAY_MS);
        }
    }

    /// Returns the store's time, as far as this node can tell.
    pub(crate) fn time(&self, now: Moment) -> Timestamp {
        self.clock.time(now)
    }

    pub(crate) const fn clock(&self) -> StoreClock {
        self.clock
    }

    /// Returns the store's time if a store or another member has told it.
    pub(crate) fn told_time(&self, now: Moment) -> Option<Timestamp> {
        self.told.then(|| self.time(now))
    }

    /// Returns true if a call of the last `within` was answered.
    pub(crate) fn is_ok(&self, now: Moment, within: Duration) -> bool {
        self.last_ok.is_some_and(|last| now.saturating_sub(last) < within)
    }

    /// Returns true if the store has answered without a break for `time`.
    pub(crate) fn is_well(&self, now: Moment, time: Duration) -> bool {
        self.is_ok(now, time) && self.well_since.is_some_and(|since| now.saturating_sub(since) > time)
    }
}

fn local_millis(now: Moment) -> i64 {
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
