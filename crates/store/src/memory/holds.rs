//! Quota set aside until it is settled, released or expires.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use tidegate_core::{HoldId, Timestamp};

use super::Fingerprint;

/// Quota set aside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) id: HoldId,
    pub(super) cost: u64,
    /// The counter's time when it was charged.
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
}

/// A shard's holds, by the fingerprint of their counter.
#[derive(Debug)]
pub(super) struct Holds {
    keys: HashMap<Fingerprint, KeyHolds, RandomState>,
    count: usize,
    room: usize,
}

/// The holds of one counter.
#[derive(Debug)]
struct KeyHolds {
    list: SmallVec<[Hold; 1]>,
    /// When the first of them ends, or one that is settled did: until then nobody need look for those that are over.
    first: Timestamp,
}

impl Holds {
    /// Keeps up to `room` holds.
    pub(super) fn new(room: usize) -> Self {
        Self { keys: HashMap::default(), count: 0, room }
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= self.room
    }

    pub(super) fn add(&mut self, fingerprint: Fingerprint, hold: Hold) {
        let new = || KeyHolds { list: SmallVec::new(), first: hold.until };
        let holds = self.keys.entry(fingerprint).or_insert_with(new);
        holds.first = holds.first.min(hold.until);
        holds.list.push(hold);
        self.count += 1;
    }

    /// Takes one hold out.
    pub(super) fn remove(&mut self, fingerprint: Fingerprint, id: HoldId) -> Option<Hold> {
        self.take_where(fingerprint, |hold| hold.id == id)
    }

    /// Takes out one hold that is over at `now`.
    pub(super) fn expired(&mut self, fingerprint: Fingerprint, now: Timestamp) -> Option<Hold> {
        let holds = self.keys.get_mut(&fingerprint).filter(|holds| holds.first <= now)?;
        if let Some(first) = holds.list.iter().map(|hold| hold.until).min().filter(|first| *first > now) {
            holds.first = first;
            return None;
        }
        self.take_where(fingerprint, |hold| hold.until <= now)
    }

    pub(super) fn any(&self, fingerprint: Fingerprint) -> bool {
        self.keys.contains_key(&fingerprint)
    }

    /// Counters with a hold that is over at `now`.
    pub(super) fn overdue(&self, now: Timestamp) -> Vec<Fingerprint> {
        let overdue = self.keys.iter().filter(|(_, holds)| holds.first <= now);
        overdue.map(|(fingerprint, _)| *fingerprint).collect()
    }

    fn take_where(&mut self, fingerprint: Fingerprint, wanted: impl Fn(&Hold) -> bool) -> Option<Hold> {
        let holds = self.keys.get_mut(&fingerprint)?;
        let hold = holds.list.swap_remove(holds.list.iter().position(wanted)?);
        if holds.list.is_empty() {
            self.keys.remove(&fingerprint);
        }
        self.count -= 1;
        Some(hold)
    }
}
