//! Deciding while the store fails, or has until recently: it is asked only about what is not counted elsewhere.

use smallvec::SmallVec;
use tidegate_core::{Action, Group, Operation, Timestamp};

use super::ledger::{self, Bill};
use super::recovery::{Trip, paid};
use super::{By, Fallback, is_ours};
use crate::peers::Part;
use crate::spans;
use crate::{Deadline, Failure, Outcome, Outcomes, Store};

/// What to ask the store about a group.
struct Plan {
    /// Why not to ask about each of its operations, unless it is to be asked.
    skipped: SmallVec<[Option<Failure>; 4]>,
    /// What has to be paid before it may be.
    bills: SmallVec<[Bill; 1]>,
}

impl Plan {
    /// What is paid, then what is asked.
    fn group<'p>(&'p self, group: &[Operation<'p>]) -> Group<'p> {
        let asked = group.iter().zip(&self.skipped).filter(|(_, skipped)| skipped.is_none());
        self.bills.iter().flat_map(Bill::operations).chain(asked.map(|(op, _)| *op)).collect()
    }

    /// What became of the group's operations, given what became of what is paid and asked. What became of the payments goes into
    /// the ledger.
    fn outcomes(&self, said: &Outcomes, ledger: &ledger::Ledger) -> Outcomes {
        let mut said = said.iter().copied();
        for bill in &self.bills {
            let became: SmallVec<[_; 2]> =
                said.by_ref().take(bill.len()).map(|outcome| paid(&outcome)).collect();
            ledger.resolve(bill, became.into_iter());
        }
        let each = self.skipped.iter().map(|skipped| match skipped {
            Some(failure) => Outcome::Unavailable(*failure),
            None => said.next().unwrap_or(Outcome::Unknown(Failure::Other)),
        });
        each.collect()
    }

    /// Whether anything that was asked has failed.
    fn has_failed(&self, group: &[Operation<'_>], outcomes: &Outcomes) -> bool {
        let each = group.iter().zip(outcomes).zip(&self.skipped);
        each.into_iter().any(|((op, outcome), skipped)| skipped.is_none() && is_ours(op, outcome))
    }
}

impl<S: Store> Fallback<S> {
    /// Decides a group of which nobody else need be asked anything: nobody has the store, and all is counted here.
    pub(super) fn decide_at_once(&self, group: &[Operation<'_>], by: By) -> Option<Outcomes> {
        let peers = self.settings.peers.as_ref();
        if peers.is_some_and(|peers| peers.any_has_store()) {
            return None;
        }
        let era = self.era(peers);
        let (mut parts, mut careful) = (SmallVec::<[Part; 4]>::new(), false);
        for op in group {
            if !is_counted(op) || !self.known.is_complete(op.take.key.fingerprint(), era) {
                return None;
            }
            careful |= self.inner.reach(op.take.key.tag).err()? == Failure::Slow;
            parts.push(match peers.map(|peers| peers.owner(op.take.key.tag)) {
                Some(owner) if owner.node.is_some() && by == By::Caller => return None,
                Some(owner) => owner.part,
                None => self.own_share(),
            });
        }
        self.count_decided();
        let span = spans::fallback("local");
        let said = self.count_here(group, &parts, 1, careful, true, era);
        spans::record(&span, &said);
        Some(said)
    }

    /// Decides groups, some of which may be for the store.
    pub(super) async fn decide_in_trouble<'r>(
        &self,
        groups: &[Group<'r>],
        deadline: Deadline,
        by: By,
    ) -> Vec<Outcomes> {
        let now = self.clock.now();
        let plans: Vec<Plan> = groups.iter().map(|group| self.plan(group, by, now)).collect();
        let asked: Vec<Group<'_>> = plans.iter().zip(groups).map(|(plan, group)| plan.group(group)).collect();
        let mut said = Vec::new();
        let trip = Trip::new(&self.ledger, plans.iter().flat_map(|plan| &plan.bills).collect());
        if asked.iter().any(|group| !group.is_empty()) {
            said = trip.follow(self.inner.apply(&asked, deadline)).await;
            self.pace.asked(asked.iter().filter(|group| !group.is_empty()).count());
        }
        said.resize_with(groups.len(), Outcomes::new);
        trip.end();
        let mut answers = Vec::with_capacity(groups.len());
        for ((plan, group), said) in plans.iter().zip(groups).zip(&said) {
            let outcomes = plan.outcomes(said, &self.ledger);
            self.learn(group, &outcomes, None);
            if plan.has_failed(group, &outcomes) {
                self.note_trouble();
            }
            answers.push(outcomes);
        }
        self.stand_in(groups, &mut answers, deadline, by).await;
        answers
    }

    fn plan(&self, group: &[Operation<'_>], by: By, now: Timestamp) -> Plan {
        let mut bills = SmallVec::new();
        let skipped = group.iter().map(|op| self.skips_store(op, by, now, &mut bills)).collect();
        Plan { skipped, bills }
    }

    /// Whether the store is not to be asked about an operation, and why. What has to be paid before it may be is put among the
    /// bills.
    fn skips_store(
        &self,
        op: &Operation<'_>,
        by: By,
        now: Timestamp,
        bills: &mut SmallVec<[Bill; 1]>,
    ) -> Option<Failure> {
        if !is_counted(op) {
            return None;
        }
        let (tag, fingerprint) = (op.take.key.tag, op.take.key.fingerprint());
        if let Err(failure) = self.inner.reach(tag) {
            self.note_trouble();
            return Some(failure);
        }
        if by == By::Caller && self.suspects.any() {
            let owner = self.settings.peers.as_ref().and_then(|peers| peers.owner(tag).node);
            if owner.is_some_and(|node| self.suspects.includes(node, self.inner.part_of(tag))) {
                return Some(Failure::NotReady);
            }
        }
        if self.ledger.len() == 0 {
            return None;
        }
        match self.ledger.standing(fingerprint) {
            ledger::Standing::Even => None,
            ledger::Standing::Owing if self.pace.may_settle() => {
                bills.extend(self.bill(fingerprint, now));
                // What is out already may be all that can be for now.
                self.ledger.has_unbilled(fingerprint).then_some(Failure::NotReady)
            }
            ledger::Standing::Owing | ledger::Standing::Leaving => Some(Failure::NotReady),
        }
    }
}

/// Whether an operation may be counted without the store.
fn is_counted(op: &Operation<'_>) -> bool {
    let counts = matches!(op.action, Action::Peek | Action::Take | Action::Hold { .. });
    counts && op.take.on_store_failure.is_local()
}
