//! The invariants, checked as things happen.

use tidegate_core::algorithm::{AnyCounter, Balance};
use tidegate_core::{Algorithm, Quota, Timestamp};
use tidegate_failover::{
    AdmissionSource, Amount, Answer, BookReply, Charge, ChargeId, CounterKey, Machine, Notice, StoreCall,
    StoreReply, StoreRequest, StoreResult,
};

use crate::scenario::{FLOOD_LIMIT, MS, Micros, SECOND};
use crate::truth::Admission;
use crate::world::{Demand, Pending, World};

/// Time beyond the budget within which an answer may still come: the granularity of wake-ups.
const BUDGET_SLACK: Micros = MS;

/// Most that the store's clock goes back in all. Beyond ten seconds a counter is moved to the earlier time with all it has
/// consumed, and a window that comes round again is another one.
const MAX_BACK_MS: i64 = 9_000;

/// Returns true if a quota counts by numbered windows.
pub(crate) fn has_windows(quota: &Quota) -> bool {
    matches!(quota.algorithm(), Algorithm::FixedWindow | Algorithm::SlidingWindow)
}

impl World {
    fn number_of(&self, key: CounterKey) -> usize {
        usize::try_from(key.rule[0]).unwrap_or(0)
    }

    /// (3) Every request is answered within the budget.
    pub(crate) fn check_budget(&mut self, node: usize, since: Micros) {
        let budget = u64::try_from(self.scenario.config.timing.budget.as_micros()).unwrap_or(0);
        let started = since.max(self.nodes[node].resumed);
        let took = self.now.saturating_sub(started);
        if took > budget + BUDGET_SLACK {
            self.fail(format!("budget: node {node} answers after {} ms", took / MS));
        }
    }

    /// (1), (2) and (4): what is admitted was debited and fits; what is refused does not.
    pub(crate) fn check_answer(&mut self, node: usize, demand: &Demand, answer: &Answer) {
        match *answer {
            Answer::Admitted { source, slot, at, .. } => {
                self.stats.admitted += 1;
                self.trace.line(self.now, || {
                    format!(
                        "node {node} admits {} of key {} in slot {slot} by {source:?}",
                        demand.cost, demand.key
                    )
                });
                match source {
                    AdmissionSource::Store => self.check_store_is_the_book(node, demand.key),
                    AdmissionSource::Owner => self.stats.by_owner += 1,
                    AdmissionSource::Reserve => self.stats.by_reserve += 1,
                    AdmissionSource::Emergency => return self.check_emergency(node, demand),
                    AdmissionSource::Policy => return,
                }
                let (now, books) = (self.now, 1 + self.splits);
                let admission = Admission { slot, at, cost: demand.cost, id: demand.id };
                if let Some(wrong) = self.truth[demand.key].admit(admission, now, books) {
                    self.fail(format!("{wrong} (key {}, node {node}, by {source:?})", demand.key));
                }
            }
            Answer::Refused(verdict) => {
                self.stats.refused += 1;
                self.check_refusal(node, demand, &verdict);
            }
            Answer::Undecided => self.stats.undecided += 1,
        }
    }

    /// (E5) The emergency cap holds per process, key and minute, and applies only where no book has been open for long.
    fn check_emergency(&mut self, node: usize, demand: &Demand) {
        self.stats.by_emergency += 1;
        let Some(machine) = self.nodes[node].machine.as_ref() else { return };
        let key = self.scenario.keys[demand.key].key;
        let (pid, minute) = (machine.pid(), self.now / (60 * SECOND));
        if machine.shut_for(key.part).is_none() && !machine.phase(key.part).is_owned() {
            self.fail(format!(
                "emergency: node {node} uses the cap for key {} while the store is its book",
                demand.key
            ));
        }
        let used = self.emergency.entry((pid, demand.key, minute)).or_default();
        *used += demand.cost;
        // The process and the checker may count minutes from different moments.
        let (used, cap) = (*used, 2 * self.scenario.config.emergency_cap);
        if used > cap {
            self.fail(format!(
                "emergency: node {node} admits {used} of key {} in a minute, cap {cap}",
                demand.key
            ));
        }
    }

    /// (2) A refusal rests on debits that really happened.
    fn check_refusal(&mut self, node: usize, demand: &Demand, verdict: &tidegate_core::Verdict) {
        let truth = &self.truth[demand.key];
        let debited = match has_windows(&verdict.quota) {
            true => truth.slots.values().rev().take(3).map(|slot| slot.debited).sum(),
            false => truth.total_debited,
        };
        if verdict.used() > debited {
            let used = verdict.used();
            self.fail(format!(
                "refusal: node {node} refuses key {} at {used}, but only {debited} were ever debited",
                demand.key
            ));
        }
    }

    /// (5) While a node spends grants of the store, nobody counts.
    fn check_store_is_the_book(&mut self, node: usize, key: usize) {
        let key = self.scenario.keys[key].key;
        let counting = self.machines().find(|(_, machine)| machine.is_counting(key)).map(|(other, _)| other);
        if let Some(other) = counting.filter(|_| self.splits == 0) {
            self.fail(format!(
                "one book: node {node} spends from the store while node {other} counts key {}",
                key.rule[0]
            ));
        }
    }

    fn machines(&self) -> impl Iterator<Item = (usize, &Machine)> {
        self.nodes.iter().enumerate().filter_map(|(node, state)| Some((node, state.machine.as_ref()?)))
    }

    pub(crate) fn check_notice(&mut self, node: usize, notice: Notice) {
        match notice {
            Notice::Debited { key, slot, units } => {
                let number = self.number_of(key);
                self.truth[number].debit(slot, units);
                self.check_one_owner(node, key);
            }
            Notice::BookOpened { key, quota, balance } => {
                self.stats.books += 1;
                self.check_opening(node, key, &quota, &balance);
            }
            Notice::Opened { part, phase, agreed: true } if !phase.is_owned() => {
                self.check_return(node, part);
            }
            Notice::Entered { phase, .. } if phase.is_owned() => self.stats.outages += 1,
            Notice::Forgot(pid) => {
                let alive = self.machines().any(|(_, machine)| machine.pid() == pid);
                self.splits += u64::from(alive);
            }
            Notice::Formed => self.check_forming(node),
            _ => {}
        }
    }

    /// Counts a fleet that forms beside another one (E1).
    fn check_forming(&mut self, node: usize) {
        let Some(pid) = self.nodes[node].machine.as_ref().map(Machine::pid) else { return };
        let apart = self.machines().any(|(_, other)| other.is_joined() && !other.roster().is_alive(pid));
        self.splits += u64::from(apart);
    }

    /// (5) While an owner counts, no other does, and nobody may use the store.
    fn check_one_owner(&mut self, node: usize, key: CounterKey) {
        if self.splits > 0 {
            return;
        }
        let other = self.machines().find(|(other, machine)| {
            *other != node && (machine.is_counting(key) || machine.is_using_store(key.part))
        });
        if let Some((other, machine)) = other {
            let phase = machine.phase(key.part);
            self.fail(format!(
                "one book: node {node} counts key {} while node {other} has its own in phase {phase}",
                key.rule[0]
            ));
        }
    }

    /// A book starts from all that was used, except what only dead processes knew (E2).
    fn check_opening(&mut self, node: usize, key: CounterKey, quota: &Quota, balance: &Balance) {
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
    fn check_return(&mut self, node: usize, part: u8) {
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
                if quota.algorithm() == Algorithm::SlidingLog {
                    let accounted = self.log_debts.entry(number).or_default();
                    let fresh = owed - (*accounted).min(owed);
                    *accounted += fresh;
                    self.truth[number].allow(slot, fresh);
                }
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
        if owed > 0 {
            let missing = used.saturating_sub(known).min(owed);
            self.truth[number].allow_for_loss(slot, missing);
        }
    }

    /// Returns what processes that are gone have admitted and nobody can tell the store any more.
    fn debts_of_the_dead(&mut self, node: usize, part: u8) -> Vec<(ChargeId, u64)> {
        let Some(machine) = self.nodes[node].machine.as_ref() else { return Vec::new() };
        let gone = |charge: &Charge| charge.key.part == part && !machine.roster().is_alive(charge.by);
        let mut latest: std::collections::BTreeMap<ChargeId, Charge> = std::collections::BTreeMap::new();
        for charge in self.graves.iter().flat_map(Machine::unsettled).filter(gone) {
            let known = latest.entry(charge.id()).or_insert(charge);
            if charge.seq > known.seq {
                *known = charge;
            }
        }
        let book = &self.stores[usize::from(part)].book;
        latest
            .values()
            .map(|charge| (charge.id(), missing(charge, book.charged(charge.key, charge.slot, charge.by))))
            .collect()
    }

    /// Keeps track of what the store debits.
    pub(crate) fn watch_store(&mut self, request: &StoreRequest, reply: &StoreReply) {
        if let (StoreCall::Take(draw), StoreResult::Taken { reply, .. }) = (&request.body, &reply.body)
            && let BookReply::Granted { units, statement, .. } = reply
        {
            let number = self.number_of(draw.key);
            self.truth[number].debit(statement.slot, *units);
            self.trace
                .line(self.now, || format!("store debits {units} of key {number}: {:?}", statement.balance));
        }
    }

    /// (6) Some time after all faults have ended, everybody uses the store and owes nothing.
    pub(crate) fn check_recovered(&mut self) {
        let parts = self.scenario.config.parts;
        for node in 0..self.scenario.nodes {
            let Some(machine) = self.nodes[node].machine.as_ref() else { continue };
            for part in 0..parts {
                if !machine.is_using_store(part) {
                    let (phase, joined) = (machine.phase(part), machine.is_joined());
                    self.fail(format!(
                        "liveness: node {node} is not back: part {part} in phase {phase}, joined {joined}"
                    ));
                    return;
                }
            }
            let own = |charge: &&Charge| charge.by == machine.pid();
            if let Some(charge) = machine.unsettled().iter().find(own).copied() {
                return self.fail(format!("liveness: node {node} still owes {charge:?}"));
            }
        }
    }

    /// (3) and (6): at the end nobody waits for an answer, nobody was left undecided, and limits can be used up.
    pub(crate) fn check_end(&mut self) {
        let overdue = |pending: &Pending| pending.since + 100 * MS < self.now;
        let waiting = self.nodes.iter().position(|node| node.pending.values().any(overdue));
        if let Some(node) = waiting {
            self.fail(format!("answers: node {node} has left a request without one"));
        }
        let undecided = self.stats.undecided - self.undecided_before;
        if undecided > 0 {
            self.fail(format!("liveness: {undecided} requests undecided after all was well"));
        }
        let admitted = self.truth.last().map_or(0, |truth| truth.total_admitted);
        if admitted * 100 < FLOOD_LIMIT * 99 {
            self.fail(format!("liveness: only {admitted} of {FLOOD_LIMIT} could be used after all was well"));
        }
    }

    /// The store falls back to an earlier state (E3).
    pub(crate) fn forget(&mut self, part: usize) {
        let steps = self.rng.index(25);
        let Some(before) = self.stores[part].forget(steps) else { return };
        let time = self.stores[part].time(self.now);
        for number in 0..self.scenario.keys.len() {
            let key = self.scenario.keys[number].key;
            let Some((quota, old)) = before.balance(key, time) else { continue };
            let new = self.stores[part].book.balance(key, time);
            for slot in slots_of(&quota, &old) {
                let left = new.map_or(0, |(_, new)| known(&new, slot));
                let lost = known(&old, slot).saturating_sub(left);
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
        Balance::Debt { .. } | Balance::Log { .. } => vec![0],
    }
}

/// Returns what a balance says about a slot: requests, or the fine units of a bucket.
fn known(balance: &Balance, slot: u64) -> u64 {
    match *balance {
        Balance::Windows { index, current, .. } if index == slot => current,
        Balance::Windows { index, previous, .. } if index == slot + 1 => previous,
        Balance::Windows { .. } => 0,
        Balance::Debt { units } => units,
        Balance::Log { used, .. } => used,
    }
}

/// Returns the units of an entry that the store does not know of.
fn missing(charge: &Charge, (seq, total): (u64, i64)) -> u64 {
    match charge.amount {
        Amount::Units(units) if charge.seq > seq => u64::try_from(units - total).unwrap_or(0),
        Amount::Units(_) => 0,
        Amount::Level(balance) => known(&balance, charge.slot),
    }
}
