//! The quotas that counters were last shaped by, each kept once.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tidegate_core::Quota;

/// Position of a quota in its shard.
pub(super) type QuotaId = u32;

/// A shard's quotas. A counter names its quota in four bytes instead of carrying forty.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    entries: Vec<Entry>,
    ids: HashMap<Quota, QuotaId, RandomState>,
    /// Positions that can be used again.
    free: Vec<QuotaId>,
}

#[derive(Debug)]
struct Entry {
    quota: Quota,
    counters: usize,
}

impl Quotas {
    #[inline]
    pub(super) fn get(&self, id: QuotaId) -> &Quota {
        &self.entries[id as usize].quota
    }

    /// Names `quota` for one more counter.
    pub(super) fn acquire(&mut self, quota: Quota) -> QuotaId {
        let id = self.ids.get(&quota).copied().unwrap_or_else(|| self.add(quota));
        self.entries[id as usize].counters += 1;
        id
    }

    fn add(&mut self, quota: Quota) -> QuotaId {
        let entry = Entry { quota, counters: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                // There are never more quotas than counters, whose number has a ceiling well below this.
                QuotaId::try_from(self.entries.len() - 1).unwrap_or(QuotaId::MAX)
            }
        };
        self.ids.insert(quota, id);
        id
    }

    /// Gives a name back; the last one forgets the quota.
    pub(super) fn release(&mut self, id: QuotaId) {
        let entry = &mut self.entries[id as usize];
        entry.counters -= 1;
        if entry.counters == 0 {
            self.ids.remove(&entry.quota);
            self.free.push(id);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}
