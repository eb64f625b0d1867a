//! The counters of one algorithm in one shard.

use hashbrown::HashTable;
use tidegate_core::Timestamp;
use tidegate_core::algorithm::Counter;

use super::Fingerprint;
use super::quotas::{QuotaId, Quotas};
use super::slab::Slab;

/// Counters by fingerprint.
///
/// The fingerprint is a keyed hash, so it serves as the table's hash as well, and a key costs the same however
/// long the identity behind it is: 24 bytes and its counter, and about 11 in the index.
#[derive(Debug)]
pub(super) struct Table<C> {
    index: HashTable<u32>,
    slots: Slab<Slot<C>>,
    /// Where the sweep goes on.
    hand: u32,
    /// What the counters keep outside their fixed size.
    entries: usize,
}

/// One counter and what it is counted by.
#[derive(Debug, Default)]
pub(super) struct Slot<C> {
    fingerprint: Fingerprint,
    pub(super) quota: QuotaId,
    pub(super) held: bool,
    occupied: bool,
    pub(super) counter: C,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self { index: HashTable::new(), slots: Slab::default(), hand: 0, entries: 0 }
    }
}

impl<C: Counter> Table<C> {
    /// Entries that the counters keep outside their fixed size, in all.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<u32> {
        self.index.find(fingerprint[0], |&id| self.slots.get(id).fingerprint == fingerprint).copied()
    }

    /// Whether the counter of `fingerprint` is at `id`, where it was found before others were swept.
    pub(super) fn is_at(&self, id: u32, fingerprint: Fingerprint) -> bool {
        let slot = self.slots.get(id);
        slot.occupied && slot.fingerprint == fingerprint
    }

    /// Works on a slot, keeping count of the entries.
    pub(super) fn update<R>(&mut self, id: u32, work: impl FnOnce(&mut Slot<C>) -> R) -> R {
        let slot = self.slots.get_mut(id);
        let before = slot.counter.entries();
        let result = work(slot);
        self.entries = self.entries + slot.counter.entries() - before;
        result
    }

    /// Adds a counter of a key that has none.
    pub(super) fn insert(&mut self, fingerprint: Fingerprint, quota: QuotaId, counter: C) -> u32 {
        let slot = Slot { fingerprint, quota, held: false, occupied: true, counter };
        let id = self.slots.insert(slot);
        let slots = &self.slots;
        self.index.insert_unique(fingerprint[0], id, |&id| slots.get(id).fingerprint[0]);
        id
    }

    fn remove(&mut self, id: u32) -> Slot<C> {
        let slot = self.slots.remove(id);
        self.entries -= slot.counter.entries();
        if let Ok(entry) = self.index.find_entry(slot.fingerprint[0], |&other| other == id) {
            entry.remove();
        }
        slot
    }

    /// Looks at the next `steps` slots in turn and forgets the counters at rest. Says how many were forgotten and
    /// whether the end of the table was reached.
    pub(super) fn sweep(&mut self, quotas: &mut Quotas, now: Timestamp, steps: u32) -> (usize, bool) {
        let mut forgotten = 0;
        let end = self.slots.span();
        let stop = self.hand.saturating_add(steps).min(end);
        for id in self.hand..stop {
            let slot = self.slots.get(id);
            if slot.occupied && !slot.held && slot.counter.is_at_rest(quotas.get(slot.quota), now) {
                let slot = self.remove(id);
                quotas.release(slot.quota);
                forgotten += 1;
            }
        }
        self.hand = if stop == end { 0 } else { stop };
        (forgotten, stop == end)
    }

    /// Gives back memory that many forgotten keys have left behind.
    pub(super) fn shrink(&mut self) {
        if self.index.is_empty() {
            *self = Self::default();
        } else if self.index.capacity() > 1_024 && self.index.len() < self.index.capacity() / 4 {
            let slots = &self.slots;
            self.index.shrink_to(self.index.len() * 2, |&id| slots.get(id).fingerprint[0]);
        }
    }
}
