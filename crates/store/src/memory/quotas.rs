//! The quotas that counters were last shaped by, each kept once.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tidegate_core::Quota;

use super::slab::Slab;

/// Position of a quota in its shard.
pub(super) type QuotaId = u32;

/// A shard's quotas. A counter names its quota in four bytes instead of carrying forty.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    entries: Slab<Entry>,
    ids: HashMap<Quota, QuotaId, RandomState>,
}

#[derive(Debug)]
struct Entry {
    quota: Quota,
    counters: u32,
}

impl Default for Entry {
    fn default() -> Self {
        Self { quota: Quota::BLOCKED, counters: 0 }
    }
}

impl Quotas {
    pub(super) fn get(&self, id: QuotaId) -> &Quota {
        &self.entries.get(id).quota
    }

    /// Names `quota` for one more counter.
    pub(super) fn acquire(&mut self, quota: Quota) -> QuotaId {
        let id = match self.ids.get(&quota) {
            Some(&id) => id,
            None => {
                let id = self.entries.insert(Entry { quota, counters: 0 });
                self.ids.insert(quota, id);
                id
            }
        };
        self.entries.get_mut(id).counters += 1;
        id
    }

    /// Gives a name back; the last one forgets the quota.
    pub(super) fn release(&mut self, id: QuotaId) {
        let entry = self.entries.get_mut(id);
        entry.counters -= 1;
        if entry.counters == 0 {
            let quota = self.entries.remove(id).quota;
            self.ids.remove(&quota);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}
