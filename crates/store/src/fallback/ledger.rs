//! What was admitted without the store, and is not yet known to it.

use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;

/// The most keys that are remembered. What is admitted beyond them is never settled.
const MAX_KEYS: usize = 1_000_000;

/// Debts by key. Keys are fingerprints, which nobody can choose.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    debts: Mutex<HashMap<[u64; 2], u64, FixedState>>,
    /// How many there are, so that nobody has to look for one where there is none.
    count: AtomicUsize,
}

impl Ledger {
    /// Whether nothing is owed at all.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Writes down that so much was admitted.
    pub(super) fn add(&self, fingerprint: [u64; 2], cost: u64) {
        let mut debts = self.debts.lock();
        if debts.len() < MAX_KEYS || debts.contains_key(&fingerprint) {
            let debt = debts.entry(fingerprint).or_default();
            *debt = debt.saturating_add(cost);
        }
        self.count.store(debts.len(), Ordering::Relaxed);
    }

    /// Crosses out what is owed for a key: whoever does so has to see that it is paid.
    pub(super) fn take(&self, fingerprint: [u64; 2]) -> Option<u64> {
        let mut debts = self.debts.lock();
        let debt = debts.remove(&fingerprint);
        self.count.store(debts.len(), Ordering::Relaxed);
        debt
    }
}
