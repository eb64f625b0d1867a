//! The invariants, checked as things happen.

use tidegate_core::{Algorithm, Quota};
use tidegate_failover::{
    AdmissionSource, Answer, BookReply, Charge, CounterKey, Machine, Notice, StoreCall, StoreReply,
    StoreRequest, StoreResult,
};

use crate::node::Pending;
use crate::scenario::{FLOOD_LIMIT, MS, Micros, SECOND};
use crate::truth::Admission;
use crate::world::{Demand, World};

/// Time beyond the budget within which an answer may still come: the granularity of wake-ups.
const BUDGET_SLACK: Micros = MS;

/// Returns true if a quota counts by numbered windows.
pub(crate) fn has_windows(quota: &Quota) -> bool {
    matches!(quota.algorithm(), Algorithm::FixedWindow | Algorithm::SlidingWindow)
}

impl World {
    pub(crate) fn number_of(&self, key: CounterKey) -> usize {
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

    pub(crate) fn machines(&self) -> impl Iterator<Item = (usize, &Machine)> {
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
}
