//! The ledger: what books other than the store have admitted, by whom, and whether the store knows of it.
//!
//! An entry is a running total with a sequence number, named by key, time slot and process. The store adds the difference to
//! what it knows of that name, so an entry can be sent any number of times, by anybody who knows of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidegate_core::algorithm::{AnyCounter, Balance};
use tidegate_core::{Algorithm, Quota, Timestamp};

use crate::key::CounterKey;
use crate::note::whole_millis;
use crate::pid::Pid;
use crate::timing::Moment;

/// Amount of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Amount {
    /// Running total of a window or a log; negative if more was given back than admitted.
    Units(i64),
    /// Level of a bucket, which the store's must not exceed.
    Level(Balance),
}

/// One entry of a ledger as it travels: to the store as a charge, to other nodes so that it outlives its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The counter.
    pub key: CounterKey,
    /// Quota in force at the book.
    pub quota: Quota,
    /// Time slot that the units belong to.
    pub slot: u64,
    /// Process whose book admitted them.
    pub by: Pid,
    /// Grows with every change.
    pub seq: u64,
    /// The amount.
    pub amount: Amount,
}

impl Charge {
    /// Returns the name of the entry.
    pub const fn id(&self) -> ChargeId {
        ChargeId { key: self.key, slot: self.slot, by: self.by }
    }
}

/// Name of a ledger entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChargeId {
    /// The counter.
    pub key: CounterKey,
    /// Time slot.
    pub slot: u64,
    /// Process whose book it was.
    pub by: Pid,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    charge: Charge,
    known: Moment,
    acked: u64,
    pushed: u64,
}

impl Entry {
    /// The entry as it stands at `now`: a bucket refills meanwhile.
    fn at(&self, now: Moment) -> Charge {
        let elapsed = whole_millis(now.saturating_sub(self.known));
        let amount = match self.charge.amount {
            Amount::Level(balance) => Amount::Level(balance.elapse(&self.charge.quota, elapsed)),
            units @ Amount::Units(_) => units,
        };
        Charge { amount, ..self.charge }
    }
}

/// Entries of this process and of others, as far as they were heard of.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    entries: BTreeMap<ChargeId, Entry>,
    unsettled: BTreeSet<ChargeId>,
    seq: u64,
    max_entries: usize,
}

impl Ledger {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self { entries: BTreeMap::new(), unsettled: BTreeSet::new(), seq: 0, max_entries }
    }

    /// Returns true if there is no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.max_entries
    }

    /// Adds `units` (negative: gives back) to an entry of this process. Buckets and logs take nothing back.
    pub(crate) fn add(&mut self, id: ChargeId, quota: Quota, units: i64, now: Moment) -> Charge {
        let before = match self.entries.get(&id).map(|entry| entry.charge.amount) {
            Some(Amount::Units(total)) => total,
            _ => 0,
        };
        self.put(id, quota, Amount::Units(before.saturating_add(units)), now)
    }

    /// Records an amount of this process.
    pub(crate) fn put(&mut self, id: ChargeId, quota: Quota, amount: Amount, now: Moment) -> Charge {
        self.seq += 1;
        let charge = Charge { key: id.key, quota, slot: id.slot, by: id.by, seq: self.seq, amount };
        self.learn(charge, now);
        charge
    }

    /// Learns an entry, of this process or another, unless a newer one is known.
    pub(crate) fn learn(&mut self, charge: Charge, now: Moment) {
        let id = charge.id();
        let entry = Entry { charge, known: now, acked: 0, pushed: 0 };
        let full = self.is_full();
        match self.entries.get_mut(&id) {
            Some(known) if known.charge.seq >= charge.seq => return,
            Some(known) => *known = Entry { acked: known.acked, pushed: known.pushed, ..entry },
            None if full => return,
            None => {
                self.entries.insert(id, entry);
            }
        }
        self.unsettled.insert(id);
    }

    /// Records that the store knows of an entry up to `seq`.
    pub(crate) fn ack(&mut self, id: ChargeId, seq: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.acked = entry.acked.max(seq);
            if entry.acked >= entry.charge.seq {
                self.unsettled.remove(&id);
            }
        }
    }

    /// Returns the entries of a part that the store does not know of, of those processes that `by` selects.
    pub(crate) fn unsettled(
        &self,
        part: u8,
        by: impl Fn(Pid) -> bool,
        now: Moment,
    ) -> impl Iterator<Item = Charge> {
        let ids = self.unsettled.iter().filter(move |id| id.key.part == part && by(id.by));
        ids.filter_map(move |id| self.entries.get(id)).map(move |entry| entry.at(now))
    }

    /// Returns up to `most` entries of a part by this process that changed since they were last returned.
    pub(crate) fn take_changed(&mut self, part: u8, mine: &[Pid], most: usize, now: Moment) -> Vec<Charge> {
        let ids = self.unsettled.iter().filter(|id| id.key.part == part && mine.contains(&id.by));
        let mut changed = Vec::new();
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.pushed < entry.charge.seq) {
                entry.pushed = entry.charge.seq;
                changed.push(entry.at(now));
            }
            if changed.len() >= most {
                break;
            }
        }
        changed
    }

    /// Returns the entry of a name as it stands at `now`.
    pub(crate) fn get(&self, id: ChargeId, now: Moment) -> Option<Charge> {
        self.entries.get(&id).map(|entry| entry.at(now))
    }

    /// Returns all entries that the store does not know of.
    pub(crate) fn all_unsettled(&self, now: Moment) -> Vec<Charge> {
        self.unsettled.iter().filter_map(|id| self.entries.get(id)).map(|entry| entry.at(now)).collect()
    }

    /// Forgets entries whose slot no longer counts at the time of their part.
    pub(crate) fn sweep(&mut self, now: Moment, clock: impl Fn(u8) -> Option<Timestamp>) {
        let unsettled = &mut self.unsettled;
        self.entries.retain(|id, entry| {
            let over = clock(id.key.part).is_some_and(|time| is_over(&entry.at(now), time));
            if over {
                unsettled.remove(id);
            }
            !over
        });
    }
}

fn is_over(charge: &Charge, time: Timestamp) -> bool {
    match charge.amount {
        Amount::Level(Balance::Debt { units }) => units == 0,
        _ => AnyCounter::slot_expiry(&charge.quota, charge.slot) + tidegate_core::Span::from_secs(60) <= time,
    }
}

/// Returns true if a grant of this algorithm can be given back after its book was closed.
pub(crate) const fn takes_back(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindow)
}
