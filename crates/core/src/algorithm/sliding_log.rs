//! Sliding log: remembers when each request came, and so counts the last window exactly.

use std::collections::VecDeque;

use super::{Clock, Counter, allow, refuse};
use crate::quota::Quota;
use crate::time::{Span, Timestamp};
use crate::verdict::Verdict;

/// When what was consumed, oldest first; requests of the same millisecond share an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingLog {
    log: VecDeque<Entry>,
    pub(super) used: u64,
    pub(super) at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Timestamp,
    cost: u64,
}

impl SlidingLog {
    /// Log at time `at` whose only entry is `used`, consumed `age` ago.
    pub(super) fn with_entry(used: u64, age: Span, at: Timestamp) -> Self {
        let entry = Entry { at: at - age, cost: used };
        Self { log: (used > 0).then_some(entry).into_iter().collect(), used, at }
    }

    /// Adds an entry of `cost` at `at`, wherever in the log that is.
    pub(super) fn insert(&mut self, at: Timestamp, cost: u64) {
        let index = self.log.partition_point(|entry| entry.at < at);
        match self.log.get_mut(index) {
            _ if cost == 0 => {}
            Some(entry) if entry.at == at => entry.cost += cost,
            _ => self.log.insert(index, Entry { at, cost }),
        }
        self.used += cost;
    }

    /// Time that has passed since the newest entry.
    pub(super) fn newest_age(&self) -> Span {
        self.log.back().map_or(Span::ZERO, |newest| self.at.since(newest.at))
    }

    /// Takes up to `cost` out of an entry, and the entry out of the log if nothing is left of it; says how much that was.
    fn give_back(&mut self, index: usize, cost: u64) -> u64 {
        let Some(entry) = self.log.get_mut(index) else { return 0 };
        let back = entry.cost.min(cost);
        entry.cost -= back;
        self.used -= back;
        if entry.cost == 0 {
            self.log.remove(index);
        }
        back
    }

    /// When enough entries have expired for a request of `cost` (at most the limit) to fit.
    fn fits_at(&self, quota: &Quota, cost: u64) -> Timestamp {
        let mut used = self.used;
        for entry in &self.log {
            used -= entry.cost;
            if used + cost <= quota.limit() {
                return entry.at + quota.window();
            }
        }
        self.at
    }
}

impl Counter for SlidingLog {
    fn advance(&mut self, quota: &Quota, now: Timestamp) {
        match Clock::read(self.at, now) {
            Clock::At(at) => self.at = at,
            Clock::Rebased(at) => {
                let back = self.at.since(at);
                self.log.iter_mut().for_each(|entry| entry.at = entry.at - back);
                self.at = at;
            }
        }
        while let Some(oldest) = self.log.front().filter(|oldest| oldest.at + quota.window() <= self.at) {
            self.used -= oldest.cost;
            self.log.pop_front();
        }
    }

    fn at(&self) -> Timestamp {
        self.at
    }

    fn fits(&self, quota: &Quota, cost: u64) -> bool {
        !quota.is_blocked() && cost <= quota.limit().saturating_sub(self.used)
    }

    fn look(&self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
        if quota.is_blocked() {
            return Verdict::blocked(*quota);
        }
        let remaining = quota.limit().saturating_sub(self.used);
        let reset = self.log.back().map_or(Span::ZERO, |last| (last.at + quota.window()).since(now));
        if self.fits(quota, cost) {
            return allow(quota, remaining, reset);
        }
        refuse(quota, cost, remaining, reset, || self.fits_at(quota, cost).since(now))
    }

    fn charge(&mut self, _quota: &Quota, cost: u64) {
        match self.log.back_mut() {
            Some(last) if last.at == self.at => last.cost += cost,
            _ => self.log.push_back(Entry { at: self.at, cost }),
        }
        self.used += cost;
    }

    fn credit(&mut self, quota: &Quota, cost: u64, since: Timestamp) {
        if since + quota.window() <= self.at {
            return;
        }
        if since == Timestamp::LATEST {
            let mut left = cost;
            while left > 0 && !self.log.is_empty() {
                left -= self.give_back(self.log.len() - 1, left);
            }
        } else {
            self.give_back(self.log.partition_point(|entry| entry.at < since), cost);
        }
    }

    /// The log stays; the new window decides what of it still counts.
    fn rescale(&mut self, _from: &Quota, _to: &Quota) {}

    fn is_at_rest(&self, quota: &Quota, now: Timestamp) -> bool {
        self.log.back().is_none_or(|last| last.at + quota.window() <= now)
    }

    fn entries(&self) -> usize {
        self.log.len()
    }

    /// Joins the two newest entries at the time of the later one.
    fn squeeze(&mut self) {
        if self.log.len() > 1
            && let Some(last) = self.log.pop_back()
            && let Some(before) = self.log.back_mut()
        {
            *before = Entry { at: last.at, cost: before.cost + last.cost };
        }
    }
}
