//! What is known of users, bounded: the one not asked for longest makes room for another.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use tidegate_core::Secret;
use tokio::time::Instant;

use super::{Subject, Tier};

/// No entry.
const NONE: usize = usize::MAX;

/// A user or a tenant: hashed, so that it takes little room whatever clients send, and nobody can choose it. The user comes first: all
/// tenants of one are side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    user: [u64; 2],
    tenant: [u64; 2],
}

impl Key {
    /// Hashes a subject; users and tenants of one name are different.
    pub(super) fn new(secret: &Secret, subject: Subject<'_>) -> Self {
        let hash = |kind, name: &str| secret.encode().part(kind, name.as_bytes()).tag().bits();
        match subject {
            Subject::User { tenant, user } => {
                Self { user: hash(0, user), tenant: tenant.map_or([0; 2], |tenant| hash(1, tenant)) }
            }
            Subject::Tenant(tenant) => Self { user: hash(2, tenant), tenant: [0; 2] },
        }
    }

    /// This user in any tenant.
    pub(super) fn anywhere(self) -> std::ops::RangeInclusive<Self> {
        Self { tenant: [0; 2], ..self }..=Self { tenant: [u64::MAX; 2], ..self }
    }
}

/// What is known of one user.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The tier, or that there is none.
    pub(super) tier: Tier,
    /// When that is to be forgotten; at once if it never was known.
    pub(super) until: Instant,
    /// Not asked about before, because asking has just failed.
    pub(super) quiet_until: Instant,
    /// The number of the look-up that found it.
    pub(super) number: u64,
}

#[derive(Debug)]
struct Slot {
    key: Key,
    entry: Entry,
    newer: usize,
    older: usize,
}

/// All that is known, in the order in which it was last asked for.
#[derive(Debug)]
pub(super) struct Answers {
    capacity: usize,
    by_key: BTreeMap<Key, usize>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

impl Answers {
    pub(super) fn new(capacity: NonZeroUsize) -> Self {
        Self {
            capacity: capacity.get(),
            by_key: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// What is known of a user, who is the last to have been asked for now.
    pub(super) fn get(&mut self, key: Key) -> Option<&Entry> {
        let slot = *self.by_key.get(&key)?;
        self.unlink(slot);
        self.link(slot);
        self.slots.get(slot).map(|slot| &slot.entry)
    }

    pub(super) fn insert(&mut self, key: Key, entry: Entry) {
        if let Some(&slot) = self.by_key.get(&key) {
            self.unlink(slot);
            self.slots[slot].entry = entry;
            self.link(slot);
            return;
        }
        if self.by_key.len() >= self.capacity
            && let Some(oldest) = self.slots.get(self.oldest)
        {
            self.remove(oldest.key);
        }
        let new = Slot { key, entry, newer: NONE, older: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = new;
                slot
            }
            None => {
                self.slots.push(new);
                self.slots.len() - 1
            }
        };
        self.by_key.insert(key, slot);
        self.link(slot);
    }

    pub(super) fn remove(&mut self, key: Key) {
        if let Some(slot) = self.by_key.remove(&key) {
            self.unlink(slot);
            self.slots[slot].entry.tier = None;
            self.free.push(slot);
        }
    }

    /// Forgets a user in all tenants.
    pub(super) fn remove_anywhere(&mut self, key: Key) {
        let keys: Vec<Key> = self.by_key.range(key.anywhere()).map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.remove(key));
    }

    /// Puts a slot in front of all others.
    fn link(&mut self, slot: usize) {
        self.slots[slot].newer = NONE;
        self.slots[slot].older = self.newest;
        match self.slots.get_mut(self.newest) {
            Some(newest) => newest.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    /// Takes a slot out of the order.
    fn unlink(&mut self, slot: usize) {
        let Slot { newer, older, .. } = self.slots[slot];
        match self.slots.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: Option<&str>, user: &str) -> Key {
        Key::new(&Secret::new([7; 16]), Subject::User { tenant, user })
    }

    fn entry() -> Entry {
        let now = Instant::now();
        Entry { tier: Some("free".into()), until: now, quiet_until: now, number: 0 }
    }

    fn answers(capacity: usize) -> Answers {
        Answers::new(NonZeroUsize::new(capacity).unwrap())
    }

    #[test]
    fn the_one_not_asked_for_longest_makes_room() {
        let mut answers = answers(3);
        let keys = ["a", "b", "c", "d", "e"].map(|user| key(None, user));
        keys[..3].iter().for_each(|&key| answers.insert(key, entry()));
        assert!(answers.get(keys[0]).is_some());
        answers.insert(keys[3], entry());
        answers.insert(keys[0], entry());
        answers.insert(keys[4], entry());
        let known = keys.map(|key| answers.get(key).is_some());
        assert_eq!(known, [true, false, false, true, true]);
        assert_eq!((answers.len(), answers.slots.len()), (3, 3));
    }

    #[test]
    fn the_order_survives_whatever_is_removed() {
        let mut answers = answers(4);
        for round in 0..1_000_u32 {
            // A fixed but uneven mix of everything that can happen.
            let number = round.wrapping_mul(2_654_435_761) >> 24;
            let key = key(None, &(number % 7).to_string());
            match number % 5 {
                0 => answers.remove(key),
                1 => drop(answers.get(key).cloned()),
                _ => answers.insert(key, entry()),
            }
            let mut order = Vec::new();
            let mut slot = answers.newest;
            while let Some(Slot { key, older, .. }) = answers.slots.get(slot) {
                order.push(*key);
                slot = *older;
            }
            assert_eq!(order.len(), answers.len());
            assert!(order.iter().all(|key| answers.by_key.contains_key(key)));
            assert!(answers.len() <= 4 && answers.slots.len() <= 4);
        }
    }

    #[test]
    fn a_user_is_forgotten_in_one_tenant_or_in_all() {
        let mut answers = answers(10);
        let keys =
            [key(None, "ann"), key(Some("acme"), "ann"), key(Some("zed"), "ann"), key(Some("ann"), "acme")];
        keys.iter().for_each(|&key| answers.insert(key, entry()));
        answers.remove(keys[1]);
        assert_eq!(keys.map(|key| answers.get(key).is_some()), [true, false, true, true]);
        answers.remove_anywhere(keys[1]);
        assert_eq!(keys.map(|key| answers.get(key).is_some()), [false, false, false, true]);
    }
}
