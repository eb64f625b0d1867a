//! The counters of one algorithm in one shard.

use tidegate_core::Timestamp;
use tidegate_core::algorithm::Counter;

use super::Fingerprint;
use super::evicted::level;
use super::quotas::{QuotaId, Quotas};

/// Slots looked at for a counter to evict: there are seldom so many empty ones in a row.
const MAX_STEPS: usize = 512;

/// Counters by fingerprint: open addressing with linear probing.
///
/// The fingerprint is a keyed hash, so it serves as the table's hash as well, and a key costs the same however long
/// the identity behind it is. Everything about a key lies in one slot, and a slot that is found lies within a line or
/// two of where it is looked for first: among a million keys, that one access to memory is what a decision costs. The
/// table grows by a quarter, so that it is never less than about two thirds full.
#[derive(Debug)]
pub(super) struct Table<C> {
    slots: Vec<Slot<C>>,
    len: usize,
    /// Where the sweep goes on.
    hand: usize,
    /// Where the search for a counter to evict goes on.
    search: usize,
    /// What the counters keep outside their fixed size.
    entries: usize,
}

/// One counter and what it is counted by.
#[derive(Debug, Default)]
pub(super) struct Slot<C> {
    fingerprint: Fingerprint,
    pub(super) quota: QuotaId,
    pub(super) held: bool,
    /// True if several keys share it.
    pub(super) shared: bool,
    occupied: bool,
    pub(super) counter: C,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0, hand: 0, search: 0, entries: 0 }
    }
}

impl<C: Counter> Table<C> {
    /// Entries that the counters keep outside their fixed size, in all.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Where the counter of `fingerprint` is. Valid until something is inserted or swept.
    #[inline]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(fingerprint);
        loop {
            let slot = &self.slots[at];
            if !slot.occupied {
                return None;
            }
            if slot.fingerprint == fingerprint {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Whether the counter of `fingerprint` is still where it was found.
    #[inline]
    pub(super) fn is_at(&self, at: usize, fingerprint: Fingerprint) -> bool {
        self.slots.get(at).is_some_and(|slot| slot.occupied && slot.fingerprint == fingerprint)
    }

    /// Works on a slot, keeping count of the entries.
    #[inline]
    pub(super) fn update<R>(&mut self, at: usize, work: impl FnOnce(&mut Slot<C>) -> R) -> R {
        let slot = &mut self.slots[at];
        let before = slot.counter.entries();
        let result = work(slot);
        self.entries = self.entries + slot.counter.entries() - before;
        result
    }

    /// Adds a counter of a key that has none.
    pub(super) fn insert(&mut self, fingerprint: Fingerprint, quota: QuotaId, counter: C) -> usize {
        if (self.len + 1) * 5 > self.slots.len() * 4 {
            self.resize(self.slots.len() * 5 / 4 + 16);
        }
        self.len += 1;
        self.entries += counter.entries();
        self.place(Slot { fingerprint, quota, held: false, shared: false, occupied: true, counter })
    }

    /// Looks at the next `steps` slots in turn and forgets the counters at rest. Says how many were forgotten and
    /// whether the end of the table was reached.
    pub(super) fn sweep(&mut self, quotas: &mut Quotas, now: Timestamp, steps: usize) -> (usize, bool) {
        let mut forgotten = 0;
        for _ in 0..steps {
            let Some(slot) = self.slots.get(self.hand) else { break };
            if slot.occupied && !slot.held && slot.counter.is_at_rest(quotas.get(slot.quota), now) {
                // Another counter may have moved up: the hand stays.
                quotas.release(self.remove(self.hand));
                forgotten += 1;
            } else {
                self.hand += 1;
            }
        }
        let end = self.hand >= self.slots.len();
        if end {
            self.hand = 0;
        }
        (forgotten, end)
    }

    /// Finds the one among the next `choice` counters that has used the smallest share of its quota, in the measure of [`level`].
    /// Those that are shared or held have to stay.
    pub(super) fn find_least_used(
        &mut self,
        quotas: &Quotas,
        now: Timestamp,
        choice: usize,
    ) -> Option<(usize, u8)> {
        let (mut least, mut seen) = (None, 0);
        for _ in 0..MAX_STEPS.min(self.slots.len()) {
            self.search = if self.search + 1 < self.slots.len() { self.search + 1 } else { 0 };
            let slot = &mut self.slots[self.search];
            if !slot.occupied || slot.held || slot.shared {
                continue;
            }
            let quota = quotas.get(slot.quota);
            let share = self.update(self.search, |slot| {
                slot.counter.advance(quota, now);
                level(slot.counter.look(quota, 0, now).used(), quota.capacity())
            });
            if least.is_none_or(|(_, least)| share < least) {
                least = Some((self.search, share));
            }
            seen += 1;
            if seen == choice {
                break;
            }
        }
        least
    }

    /// Takes out the counter at `at` and returns its key.
    pub(super) fn evict(&mut self, at: usize) -> (Fingerprint, QuotaId) {
        (self.slots[at].fingerprint, self.remove(at))
    }

    /// Gives back memory that many forgotten keys have left behind.
    pub(super) fn shrink(&mut self) {
        if self.slots.len() > 64 && self.len * 4 < self.slots.len() {
            self.resize(self.len * 5 / 3 + 16);
        }
    }

    /// Where a fingerprint is looked for first: its share of the way through the table.
    #[allow(clippy::cast_possible_truncation, reason = "less than the length")]
    fn home(&self, fingerprint: Fingerprint) -> usize {
        ((u128::from(fingerprint[0]) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// How far `to` lies after `from`, going round.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }

    fn place(&mut self, slot: Slot<C>) -> usize {
        let mut at = self.home(slot.fingerprint);
        while self.slots[at].occupied {
            at = self.after(at);
        }
        self.slots[at] = slot;
        at
    }

    /// Takes a counter out; those after it that would be nearer to their home move up.
    fn remove(&mut self, at: usize) -> QuotaId {
        self.len -= 1;
        self.entries -= self.slots[at].counter.entries();
        let quota = self.slots[at].quota;
        let (mut hole, mut next) = (at, self.after(at));
        while self.slots[next].occupied {
            let home = self.home(self.slots[next].fingerprint);
            if self.distance(home, next) >= self.distance(hole, next) {
                self.slots.swap(hole, next);
                hole = next;
            }
            next = self.after(next);
        }
        self.slots[hole] = Slot::default();
        quota
    }

    fn resize(&mut self, slots: usize) {
        let empty = std::iter::repeat_with(Slot::default).take(slots).collect();
        let old = std::mem::replace(&mut self.slots, empty);
        self.hand = 0;
        for slot in old.into_iter().filter(|slot| slot.occupied) {
            self.place(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use tidegate_core::algorithm::FixedWindow;
    use tidegate_core::{Algorithm, Quota, Span};

    use super::*;

    proptest! {
        /// Any sequence of insertions and sweeps leaves what a plain map would have.
        #[test]
        fn a_table_is_a_map(keys in prop::collection::vec((0u64..400, prop::bool::weighted(0.7)), 0..600)) {
            let quota = Quota::new(Algorithm::FixedWindow, 9, Span::from_millis(10)).unwrap();
            let (mut table, mut quotas, mut map) = (Table::<FixedWindow>::default(), Quotas::default(), HashMap::new());
            for (round, (key, live)) in keys.into_iter().enumerate() {
                // Few homes, so that keys crowd and wrap around.
                let fingerprint = [(key % 7).wrapping_mul(0x2492_4924_9249_2493), key];
                if table.find(fingerprint).is_none() {
                    let mut counter = FixedWindow::default();
                    counter.charge(&quota, u64::from(live));
                    table.insert(fingerprint, quotas.acquire(quota), counter);
                    map.insert(fingerprint, live);
                }
                if round % 40 == 39 {
                    let (forgotten, end) = table.sweep(&mut quotas, Timestamp::EPOCH, 10_000);
                    prop_assert!(end);
                    let before = map.len();
                    map.retain(|_, live| *live);
                    prop_assert_eq!(forgotten, before - map.len());
                    table.shrink();
                }
                prop_assert_eq!(table.len, map.len());
            }
            for (fingerprint, live) in map {
                let at = table.find(fingerprint).expect("still there");
                prop_assert_eq!(table.update(at, |slot| slot.counter.is_at_rest(&quota, Timestamp::EPOCH)), !live);
            }
        }
    }
}
