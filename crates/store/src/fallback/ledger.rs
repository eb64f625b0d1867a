//! What was admitted without the store, and is not yet known to it.

use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{Key, Quota, Tag, Take};

/// The most keys that are remembered. What is admitted beyond them is never settled.
const MAX_KEYS: usize = 1_000_000;

/// Debts by key. Keys are fingerprints, which nobody can choose.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    debts: Mutex<HashMap<[u64; 2], Owed, FixedState>>,
    /// How many there are, so that nobody has to look for one where there is none.
    count: AtomicUsize,
}

/// What is owed for one key.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    rule_id: Box<str>,
    tag: Tag,
    quota: Quota,
    /// What was admitted.
    pub(super) admitted: u64,
}

impl Owed {
    fn new(take: &Take<'_>) -> Self {
        Self { rule_id: take.key.rule_id.into(), tag: take.key.tag, quota: take.quota, admitted: 0 }
    }

    /// A take of `cost` from the counter.
    pub(super) fn take(&self, cost: u64) -> Take<'_> {
        Take::new(Key::new(&self.rule_id, self.quota.algorithm(), self.tag), self.quota, cost)
    }
}

impl Ledger {
    /// For how many keys something is owed.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Writes down that a take was admitted.
    pub(super) fn add(&self, take: &Take<'_>) {
        let mut debts = self.debts.lock();
        if debts.len() < MAX_KEYS || debts.contains_key(&take.key.fingerprint()) {
            let owed = debts.entry(take.key.fingerprint()).or_insert_with(|| Owed::new(take));
            owed.admitted = owed.admitted.saturating_add(take.cost);
            owed.quota = take.quota;
        }
        self.count.store(debts.len(), Ordering::Relaxed);
    }

    /// Crosses out what is owed for a key: whoever does so has to see that it is paid. Until then it counts in `paying`.
    pub(super) fn cross_out(&self, fingerprint: [u64; 2], paying: &AtomicUsize) -> Option<Owed> {
        let mut debts = self.debts.lock();
        let owed = debts.remove(&fingerprint);
        paying.fetch_add(usize::from(owed.is_some()), Ordering::Relaxed);
        self.count.store(debts.len(), Ordering::Relaxed);
        owed
    }

    /// The same for some keys, whichever they are.
    pub(super) fn cross_out_some(&self, most: usize, paying: &AtomicUsize) -> Vec<Owed> {
        let mut debts = self.debts.lock();
        let some: Vec<[u64; 2]> = debts.keys().take(most).copied().collect();
        let owed: Vec<Owed> = some.iter().filter_map(|fingerprint| debts.remove(fingerprint)).collect();
        paying.fetch_add(owed.len(), Ordering::Relaxed);
        self.count.store(debts.len(), Ordering::Relaxed);
        owed
    }

    /// Puts back what could not be paid.
    pub(super) fn put_back(&self, owed: &Owed) {
        self.add(&owed.take(owed.admitted));
    }
}
