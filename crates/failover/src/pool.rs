//! Reserves, pooled at the owner of their key.
//!
//! Units in a pool were debited in a book before they got here, so spending them is safe in any phase. They belong to a time
//! slot and are void after it.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Quota;
use tidegate_core::algorithm::AnyCounter;

use crate::key::{CounterKey, KeyMap};
use crate::message::PoolDeposit;
use crate::pid::Pid;

/// Deposits of one sender that are remembered, newest first; older ones are refused.
const REMEMBERED: u64 = 4_096;

#[derive(Clone, Copy, Debug)]
struct PooledUnits {
    slot: u64,
    units: u64,
    quota: Quota,
}

/// Names of deposits that have arrived, per sender.
#[derive(Clone, Debug, Default)]
struct Arrived {
    names: BTreeSet<u64>,
}

impl Arrived {
    /// Returns true if a deposit of this name has not been seen and is not too old to tell.
    fn is_new(&mut self, name: u64) -> bool {
        let newest = self.names.last().copied().unwrap_or(0);
        if name.saturating_add(REMEMBERED) <= newest || !self.names.insert(name) {
            return false;
        }
        let oldest = newest.max(name).saturating_sub(REMEMBERED);
        self.names = self.names.split_off(&oldest);
        true
    }
}

/// Units set aside for moments when no book answers in time.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    keys: KeyMap<PooledUnits>,
    arrived: BTreeMap<Pid, Arrived>,
    max_keys: usize,
}

impl Pool {
    pub(crate) fn new(max_keys: usize) -> Self {
        Self { keys: KeyMap::default(), arrived: BTreeMap::new(), max_keys }
    }

    /// Adds a deposit once, however often it arrives.
    ///
    /// The names of a sender that is gone are forgotten, so a deposit of it is only taken while they are known: a repeat that
    /// comes later could not be told from the first.
    pub(crate) fn deposit(&mut self, from: Pid, deposit: &PoolDeposit, alive: bool) {
        if !alive && !self.arrived.contains_key(&from) {
            return;
        }
        if !self.arrived.entry(from).or_default().is_new(deposit.name) {
            return;
        }
        let PoolDeposit { key, quota, slot, units, .. } = *deposit;
        if self.keys.len() >= self.max_keys && !self.keys.contains_key(&key) {
            return;
        }
        let pooled = self.keys.entry(key).or_insert(PooledUnits { slot, units: 0, quota });
        if slot > pooled.slot {
            *pooled = PooledUnits { slot, units, quota };
        } else if slot == pooled.slot {
            pooled.units += units;
        }
    }

    /// Spends `cost` units of the present slot, all or none. Returns what was spent.
    pub(crate) fn spend(&mut self, key: CounterKey, slot: u64, cost: u64) -> u64 {
        match self.keys.get_mut(&key) {
            Some(pooled) if pooled.slot == slot && pooled.units >= cost => {
                pooled.units -= cost;
                cost
            }
            _ => 0,
        }
    }

    /// Returns the units of a key and their slot.
    pub(crate) fn get(&self, key: CounterKey) -> Option<(u64, u64)> {
        self.keys.get(&key).map(|pooled| (pooled.slot, pooled.units))
    }

    /// Empties the pool. Returns what was in it: counter, quota, slot and units.
    pub(crate) fn drain(&mut self) -> Vec<(CounterKey, Quota, u64, u64)> {
        self.keys.drain().map(|(key, pooled)| (key, pooled.quota, pooled.slot, pooled.units)).collect()
    }

    /// Forgets units whose slot is over, and senders that are gone.
    pub(crate) fn sweep(
        &mut self,
        clock: impl Fn(u8) -> tidegate_core::Timestamp,
        alive: impl Fn(Pid) -> bool,
    ) {
        self.keys.retain(|key, pooled| {
            pooled.units > 0 && AnyCounter::slot_at(&pooled.quota, clock(key.part)) <= pooled.slot
        });
        self.arrived.retain(|pid, _| alive(*pid));
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Span, Tag, Timestamp};

    use super::*;
    use crate::pid::NodeName;

    /// Found by the simulator: a node said goodbye, its names were forgotten, and a repeat of its last deposit arrived after that.
    #[test]
    fn a_deposit_repeated_after_its_sender_is_forgotten_counts_once() {
        let key = CounterKey { part: 0, tag: Tag::from_bits([1, 2]), rule: [3, 4] };
        let quota = Quota::new(tidegate_core::Algorithm::FixedWindow, 60, Span::from_secs(4)).unwrap();
        let slot = 7;
        let deposit = PoolDeposit { key, quota, slot, units: 5, name: 1 };
        let sender = Pid::new(NodeName(3), 1, 1);
        let mut pool = Pool::new(10);
        pool.deposit(sender, &deposit, true);
        pool.deposit(sender, &deposit, false);
        assert_eq!(pool.get(key), Some((slot, 5)));
        pool.sweep(|_| Timestamp::from_millis(slot * 4_000), |_| false);
        pool.deposit(sender, &deposit, false);
        assert_eq!(pool.get(key), Some((slot, 5)));
    }
}
