//! The truth: everything that was admitted and debited, and each algorithm's promise over it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_core::{Algorithm, Quota, RequestId, Timestamp};

use crate::scenario::{MS, Micros};

/// Most by which the clocks of two books differ, in milliseconds: an owner knows the store's time by its answers, and the
/// slowest of those take half a second.
const CLOCK_SLACK_MS: u64 = 600;
/// Drift of local clocks, in millionths.
const DRIFT: u64 = 2_000;

/// One time slot of one counter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotTruth {
    pub(crate) admitted: u64,
    pub(crate) debited: u64,
    /// Units that a published bound allows on top.
    pub(crate) allowance: u64,
}

/// One counter.
#[derive(Clone, Debug)]
pub(crate) struct KeyTruth {
    /// The most generous quota that has been in force.
    pub(crate) quota: Quota,
    pub(crate) slots: BTreeMap<u64, SlotTruth>,
    /// Admissions: the book's time, true time, and cost.
    log: VecDeque<(u64, Micros, u64)>,
    debt: u128,
    debt_at: Micros,
    latest: u64,
    ids: BTreeSet<RequestId>,
    pub(crate) total_admitted: u64,
    pub(crate) total_debited: u64,
    /// Units that a published bound allows on top, for algorithms without slots; of a bucket, fine units.
    pub(crate) allowance: u64,
}

/// An admission that rests on a book or the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) slot: u64,
    pub(crate) at: Timestamp,
    pub(crate) cost: u64,
    pub(crate) id: Option<RequestId>,
}

impl KeyTruth {
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            quota,
            slots: BTreeMap::new(),
            log: VecDeque::new(),
            debt: 0,
            debt_at: 0,
            latest: 0,
            ids: BTreeSet::new(),
            total_admitted: 0,
            total_debited: 0,
            allowance: 0,
        }
    }

    /// Returns the allowance in force for a slot.
    pub(crate) fn allowed(&self, slot: u64) -> u64 {
        self.allowance + self.slots.get(&slot).map_or(0, |slot| slot.allowance)
    }

    /// Adds to the allowance of a slot, or of the whole counter if its algorithm has none.
    pub(crate) fn allow(&mut self, slot: u64, units: u64) {
        match self.quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                self.slots.entry(slot).or_default().allowance += units;
            }
            Algorithm::TokenBucket | Algorithm::SlidingLog | Algorithm::InFlight => self.allowance += units,
        }
    }

    /// Adds what was lost with a process (E2). Of a bucket no more is known than its level within the slack of clocks.
    pub(crate) fn allow_for_loss(&mut self, slot: u64, units: u64) {
        let bucket = self.quota.algorithm() == Algorithm::TokenBucket;
        self.allow(slot, units + if bucket { self.slack() } else { 0 });
    }

    pub(crate) fn debit(&mut self, slot: u64, units: u64) {
        self.slots.entry(slot).or_default().debited += units;
        self.total_debited += units;
    }

    /// Returns the most that was admitted in one window, in thousandths of the limit; 0 for algorithms without windows.
    pub(crate) fn worst(&self) -> u64 {
        let slots = self.slots.values().filter(|_| crate::check::has_windows(&self.quota));
        slots.map(|slot| slot.admitted * 1_000 / self.quota.limit().max(1)).max().unwrap_or(0)
    }

    /// Returns the fine units of a bucket that were debited and admitted nothing.
    pub(crate) fn outstanding(&self) -> u64 {
        self.total_debited.saturating_sub(self.total_admitted) * self.quota.window().as_millis()
    }

    /// Records that an admitted request cost less than it held. Buckets and logs do not take it back.
    pub(crate) fn settle(&mut self, slot: u64, less: u64) {
        if let Some(slot) = self.slots.get_mut(&slot).filter(|_| crate::check::has_windows(&self.quota)) {
            slot.admitted = slot.admitted.saturating_sub(less);
        }
    }

    /// Records an admission. Returns what is wrong with it if it breaks the promise; `books` is how many books the published
    /// bounds allow.
    pub(crate) fn admit(&mut self, admission: Admission, now: Micros, books: u64) -> Option<String> {
        if admission.id.is_some_and(|id| !self.ids.insert(id)) {
            return None;
        }
        self.total_admitted += admission.cost;
        let slot = self.slots.entry(admission.slot).or_default();
        slot.admitted += admission.cost;
        if slot.admitted > slot.debited {
            let SlotTruth { admitted, debited, .. } = *slot;
            return Some(format!(
                "conservation: {admitted} admitted in slot {}, {debited} debited",
                admission.slot
            ));
        }
        match self.quota.algorithm() {
            Algorithm::FixedWindow => self.check_window(admission.slot, books),
            Algorithm::SlidingWindow => {
                self.check_window(admission.slot, books).or_else(|| self.check_sliding(admission, books))
            }
            Algorithm::SlidingLog => self.check_log(admission, now, books),
            Algorithm::TokenBucket => self.check_bucket(admission, now, books),
            // Not part of any scenario.
            Algorithm::InFlight => None,
        }
    }

    fn check_window(&self, slot: u64, books: u64) -> Option<String> {
        let truth = self.slots.get(&slot)?;
        let bound = self.quota.limit() * books + self.allowed(slot);
        (truth.admitted > bound).then(|| {
            format!(
                "limit: {} admitted in window {slot}, limit {} and {} by bounds",
                truth.admitted,
                self.quota.limit(),
                bound - self.quota.limit()
            )
        })
    }

    /// Checks the weighted sum of two windows at the latest time that the books have reached.
    fn check_sliding(&mut self, admission: Admission, books: u64) -> Option<String> {
        self.latest = self.latest.max(admission.at.as_millis());
        let window = self.quota.window().as_millis();
        if self.latest / window != admission.slot {
            return None;
        }
        let admitted = |slot: u64| self.slots.get(&slot).map_or(0, |slot| slot.admitted);
        let previous = admission.slot.checked_sub(1).map_or(0, admitted);
        let allowed =
            self.allowed(admission.slot) + admission.slot.checked_sub(1).map_or(0, |slot| self.allowed(slot));
        let left = (window - self.latest % window).saturating_sub(CLOCK_SLACK_MS);
        let weighted = u128::from(previous) * u128::from(left)
            + u128::from(admitted(admission.slot)) * u128::from(window);
        let bound = u128::from(self.quota.limit() * books + allowed) * u128::from(window);
        (weighted > bound).then(|| {
            format!(
                "limit: {previous} then {} in sliding window {}, limit {}",
                admitted(admission.slot),
                admission.slot,
                self.quota.limit()
            )
        })
    }

    fn check_log(&mut self, admission: Admission, now: Micros, books: u64) -> Option<String> {
        let at = admission.at.as_millis();
        self.log.push_back((at, now, admission.cost));
        let window = self.quota.window().as_millis();
        let since = at.saturating_sub(window.saturating_sub(CLOCK_SLACK_MS));
        self.log.retain(|(time, ..)| *time + 2 * window + CLOCK_SLACK_MS > at);
        let truly = now.saturating_sub(window.saturating_sub(CLOCK_SLACK_MS) * MS);
        let within =
            self.log.iter().filter(|(time, admitted, _)| *time > since && *time <= at && *admitted > truly);
        let used: u64 = within.map(|(.., cost)| cost).sum();
        let bound = self.quota.limit() * books + self.allowance;
        (used > bound).then(|| {
            format!(
                "limit: {used} logged within one window, limit {} and {} by bounds",
                self.quota.limit(),
                self.allowance
            )
        })
    }

    /// Returns what a bucket refills within the slack of clocks.
    fn slack(&self) -> u64 {
        CLOCK_SLACK_MS * self.quota.limit()
    }

    /// Returns the true debt of a bucket at `now`, in units, forgiving drift.
    pub(crate) fn debt(&self, now: Micros) -> u128 {
        let elapsed = now.saturating_sub(self.debt_at);
        let refill = u128::from(elapsed + elapsed * DRIFT / 1_000_000) * u128::from(self.quota.limit())
            / u128::from(MS);
        self.debt.saturating_sub(refill)
    }

    fn check_bucket(&mut self, admission: Admission, now: Micros, books: u64) -> Option<String> {
        let window = u128::from(self.quota.window().as_millis());
        self.debt = self.debt(now) + u128::from(admission.cost) * window;
        self.debt_at = now;
        let capacity = u128::from(self.quota.capacity() * books) * window + u128::from(self.allowance);
        (self.debt > capacity + u128::from(self.slack())).then(|| {
            format!(
                "limit: bucket is {} units short of {}, {} by bounds",
                self.debt / window,
                self.quota.capacity(),
                self.allowance
            )
        })
    }

    /// Returns the units that a book which opens now must know of: requests, or the fine units of a bucket. `time` is the store's.
    pub(crate) fn used(&self, slot: u64, now: Micros, time: u64) -> u64 {
        match self.quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                self.slots.get(&slot).map_or(0, |slot| slot.admitted)
            }
            Algorithm::SlidingLog => {
                let length = self.quota.window().as_millis().saturating_sub(CLOCK_SLACK_MS);
                let (since, truly) = (time.saturating_sub(length), now.saturating_sub(length * MS));
                let counts = self.log.iter().filter(|(at, admitted, _)| *at > since && *admitted > truly);
                counts.map(|(.., cost)| cost).sum()
            }
            Algorithm::TokenBucket => {
                let debt = self.debt(now).saturating_sub(self.slack().into());
                u64::try_from(debt).unwrap_or(u64::MAX)
            }
            Algorithm::InFlight => 0,
        }
    }
}
