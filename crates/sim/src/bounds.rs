//! Books that change hands, and the published bounds on what may be lost when they do.

use std::collections::BTreeMap;

use tidegate_core::algorithm::{AnyCounter, Balance};
use tidegate_core::{Algorithm, Quota, Timestamp};
use tidegate_failover::{Amount, Charge, ChargeId, CounterKey, Machine};

use crate::check::has_windows;
use crate::store::Debits;
use crate::world::World;

/// Most that the store's clock goes back in all. Beyond ten seconds a counter is moved to the earlier time with all it has
/// consumed, and a window that comes round again is another one.
const MAX_BACK_MS: i64 = 9_000;

impl World {
    /// A book starts from all that was used, except what only dead processes knew (E2).
    pub(crate) fn check_opening(&mut self, node: usize, key: CounterKey, quota: &Quota, balance: &Balance) {
        let number = self.number_of(key);
        for slot in slots_of(quota, balance) {
            let (used, start) = (self.used(number, slot), known(balance, slot));
            let dead = self.known_to_the_dead(node, key, slot);
            if quota.algorithm() == Algorithm::SlidingLog {
                // Entries expire one by one: what the book lacks may show only later.
                self.truth[number].allow(slot, dead.saturating_sub(start));
            }
            if self.splits > 0 || used <= start {
                continue;
            }
            if used > dead.max(start) {
                self.fail(format!(
                    "opening: node {node} opens key {number} at {start} in slot {slot}, but {used} were used (the dead knew of {dead})"
                ));
            }
            self.truth[number].allow_for_loss(slot, used - start);
        }
    }

    /// Returns the units of a slot that the next book has to know of.
    fn used(&self, number: usize, slot: u64) -> u64 {
        let part = usize::from(self.scenario.keys[number].key.part);
        let (truth, time) = (&self.truth[number], self.stores[part].time(self.now));
        truth.used(slot, self.now, time.as_millis()).saturating_sub(truth.allowed(slot))
    }

    /// Returns the most that a process which is gone from a node's roster knew of a key's consumption.
    fn known_to_the_dead(&self, node: usize, key: CounterKey, slot: u64) -> u64 {
        let Some(machine) = self.nodes[node].machine.as_ref() else { return 0 };
        let gone = |other: &&Machine| !machine.roster().is_alive(other.pid());
        let dead = self.graves.iter().chain(self.machines().map(|(_, machine)| machine).filter(gone));
        let notes = dead.filter_map(|other| other.note(key));
        notes.map(|note| known(&note.balance, slot)).max().unwrap_or(0)
    }

    /// The store knows of all that was used when it becomes the book again, except what only dead processes owed (E2).
    pub(crate) fn check_return(&mut self, node: usize, part: u8) {
        let debts = self.debts_of_the_dead(node, part);
        for number in 0..self.scenario.keys.len() {
            let key = self.scenario.keys[number].key;
            let store = &self.stores[usize::from(part)];
            if key.part != part {
                continue;
            }
            let time = store.time(self.now);
            let (quota, balance) =
                store.book.balance(key, time).unwrap_or_else(|| unused(self.truth[number].quota, time));
            for slot in slots_of(&quota, &balance) {
                let owed = debts
                    .iter()
                    .filter(|debt| debt.0.key == key && (!has_windows(&quota) || debt.0.slot == slot));
                let owed: u64 = owed.map(|debt| debt.1).sum();
                self.check_returned(node, number, slot, known(&balance, slot), owed);
            }
        }
    }

    fn check_returned(&mut self, node: usize, number: usize, slot: u64, known: u64, owed: u64) {
        let used = self.used(number, slot);
        if self.splits == 0 && used > known + owed {
            self.fail(format!(
                "return: node {node} returns to the store, which has {known} of the {used} used of key {number} in slot {slot} (the dead owe {owed})"
            ));
        }
        if self.truth[number].quota.algorithm() == Algorithm::TokenBucket {
            if owed > 0 {
                // What the store has debited and nobody has used yet may still be used by a retry.
                let missing = used.saturating_sub(known) + self.truth[number].outstanding();
                self.truth[number].allow_for_loss(slot, missing.min(owed));
            }
            return;
        }
        let accounted = self.lost_debts.entry((number, slot)).or_default();
        let fresh = owed.saturating_sub(*accounted);
        *accounted += fresh;
        self.truth[number].allow(slot, fresh);
    }

    /// Returns what processes that are gone have admitted and nobody can tell the store any more.
    fn debts_of_the_dead(&mut self, node: usize, part: u8) -> Vec<(ChargeId, u64)> {
        let Some(machine) = self.nodes[node].machine.as_ref() else { return Vec::new() };
        let gone = |charge: &Charge| charge.key.part == part && !machine.roster().is_alive(charge.by);
        let dead = latest(self.graves.iter().flat_map(Machine::unsettled).filter(gone));
        // What a living member knows is for it to settle.
        let living = latest(self.machines().flat_map(|(_, machine)| machine.unsettled()).filter(gone));
        let book = &self.stores[usize::from(part)].book;
        let unknown = |charge: &Charge| missing(charge, book.charged(charge.key, charge.slot, charge.by));
        dead.iter()
            .map(|(id, charge)| (*id, unknown(charge).saturating_sub(living.get(id).map_or(0, unknown))))
            .collect()
    }

    /// The store falls back to an earlier state (E3).
    pub(crate) fn forget(&mut self, part: usize) {
        let steps = self.rng.index(25);
        let Some((before, debits)) = self.stores[part].forget(steps) else { return };
        let time = self.stores[part].time(self.now);
        for number in 0..self.scenario.keys.len() {
            let key = self.scenario.keys[number].key;
            let Some((quota, old)) = before.balance(key, time) else { continue };
            let new = self.stores[part].book.balance(key, time);
            for slot in slots_of(&quota, &old) {
                let left = new.map_or(0, |(_, new)| known(&new, slot));
                let missing = known(&old, slot).saturating_sub(left);
                // What was given back meanwhile will be given back again: all debits count.
                let lost = missing.max(debited_in(&debits, key, &quota, slot));
                self.truth[number].allow(slot, lost);
                self.trace
                    .line(self.now, || format!("store {part} forgets {lost} of key {number} in slot {slot}"));
            }
        }
    }

    /// The store's clock is set (E3): ahead as far as it likes, back by no more than counters hold their time.
    pub(crate) fn jump(&mut self, part: usize, by: i64) {
        let store = &mut self.stores[part];
        let by = by.max(store.furthest - MAX_BACK_MS - store.offset);
        store.offset += by;
        store.furthest = store.furthest.max(store.offset);
        let ahead = u64::try_from(by).unwrap_or(0);
        for (truth, plan) in self.truth.iter_mut().zip(&self.scenario.keys) {
            let refill = ahead * truth.quota.limit();
            match plan.quota.algorithm() {
                Algorithm::TokenBucket => truth.allow(0, refill),
                Algorithm::SlidingLog if by > 0 => truth.allow(0, truth.quota.limit()),
                _ => {}
            }
        }
    }
}

/// Returns the units of a counter debited in a slot, or in all of them if its algorithm has no numbered windows.
fn debited_in(debits: &Debits, key: CounterKey, quota: &Quota, slot: u64) -> u64 {
    let of_slot =
        debits.iter().filter(|((other, at), _)| *other == key && (!has_windows(quota) || *at == slot));
    let units: u64 = of_slot.map(|(_, units)| units).sum();
    let fine = quota.algorithm() == Algorithm::TokenBucket;
    if fine { units * quota.window().as_millis() } else { units }
}

/// Returns the balance of a counter that was never used.
fn unused(quota: Quota, time: Timestamp) -> (Quota, Balance) {
    let mut counter = AnyCounter::new(quota.algorithm());
    counter.advance(&quota, time);
    (quota, counter.balance(&quota))
}

/// Returns the slots that a balance says something about.
fn slots_of(quota: &Quota, balance: &Balance) -> Vec<u64> {
    match *balance {
        Balance::Windows { index, .. } if quota.algorithm() == Algorithm::SlidingWindow => {
            vec![index, index.saturating_sub(1)]
        }
        Balance::Windows { index, .. } => vec![index],
        Balance::Debt { .. } | Balance::Log { .. } | Balance::InFlight { .. } => vec![0],
    }
}

/// Returns what a balance says about a slot: requests, or the fine units of a bucket.
fn known(balance: &Balance, slot: u64) -> u64 {
    match *balance {
        Balance::Windows { index, current, .. } if index == slot => current,
        Balance::Windows { index, previous, .. } if index == slot + 1 => previous,
        Balance::Windows { .. } => 0,
        Balance::Debt { units } | Balance::InFlight { used: units } => units,
        Balance::Log { used, .. } => used,
    }
}

/// Returns the latest entry of each name.
fn latest(charges: impl Iterator<Item = Charge>) -> BTreeMap<ChargeId, Charge> {
    let mut latest: BTreeMap<ChargeId, Charge> = BTreeMap::new();
    for charge in charges {
        let known = latest.entry(charge.id()).or_insert(charge);
        if charge.seq > known.seq {
            *known = charge;
        }
    }
    latest
}

/// Returns the units of an entry that the store does not know of.
fn missing(charge: &Charge, (seq, total): (u64, i64)) -> u64 {
    match charge.amount {
        Amount::Units(units) if charge.seq > seq => u64::try_from(units - total).unwrap_or(0),
        Amount::Units(_) => 0,
        Amount::Level(balance) => known(&balance, charge.slot),
    }
}
