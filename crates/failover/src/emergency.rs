//! The emergency cap: a small allowance per key and node while no book is open.

use crate::key::{CounterKey, KeyMap};
use crate::timing::Moment;

/// Length of the window that the cap counts in, in seconds.
const MINUTE: u64 = 60;

/// Allowance per key and minute.
#[derive(Clone, Debug)]
pub(crate) struct EmergencyCap {
    per_minute: u64,
    used: KeyMap<u64>,
    minute: u64,
    max_keys: usize,
}

impl EmergencyCap {
    pub(crate) fn new(per_minute: u64, max_keys: usize) -> Self {
        Self { per_minute, used: KeyMap::default(), minute: 0, max_keys }
    }

    /// Returns true if `cost` fits into what is left of the key's allowance, which it then uses up.
    pub(crate) fn admits(&mut self, key: CounterKey, cost: u64, now: Moment) -> bool {
        let minute = now.as_secs() / MINUTE;
        if minute != self.minute {
            self.minute = minute;
            self.used.clear();
        }
        if self.used.len() >= self.max_keys && !self.used.contains_key(&key) {
            return false;
        }
        let used = self.used.entry(key).or_default();
        let fits = used.saturating_add(cost) <= self.per_minute;
        if fits {
            *used += cost;
        }
        fits
    }
}
