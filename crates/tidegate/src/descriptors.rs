//! Requests that a proxy describes instead of showing them.

use std::fmt;
use std::iter::repeat;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::descriptor::Asked;
use tidegate_core::{
    Algorithm, Decision, Descriptor, DescriptorDecision, DescriptorDemand, Group, Operation, RuleSet,
    RuleVerdict, Secret, Take, Timestamp,
};
use tidegate_store::{Action, Deadline, Failure, Outcome};

use crate::checked::RequestError;
use crate::limiter::{Backend, Limiter, Memory};
use crate::shared::Shared;
use crate::spans;

/// What the store says to each operation, in order.
type Outcomes = SmallVec<[Outcome; 4]>;

/// A decision about descriptors and the rules it was taken by.
pub struct CheckedDescriptors {
    decision: DescriptorDecision,
    rules: Guard<Arc<RuleSet>>,
}

impl CheckedDescriptors {
    /// The rules the decision was taken by.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }
}

impl std::ops::Deref for CheckedDescriptors {
    type Target = DescriptorDecision;

    fn deref(&self) -> &DescriptorDecision {
        &self.decision
    }
}

impl fmt::Debug for CheckedDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decision.fmt(f)
    }
}

impl Limiter {
    /// Decides a request that arrived at `arrived` by what a proxy says about it: `descriptors` of `domain`. If it is
    /// allowed, all of them have been counted; if not, none, unless the domain charges for what it refuses.
    pub async fn check_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        arrived: Instant,
    ) -> CheckedDescriptors {
        match &self.backend {
            Backend::Memory(memory) => self.decide_descriptors(memory, domain, descriptors),
            Backend::Shared(shared) => {
                Box::pin(self.ask_descriptors(shared, domain, descriptors, arrived)).await
            }
        }
    }

    /// The same at once, which a shared store cannot do.
    pub fn try_check_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
    ) -> Result<CheckedDescriptors, RequestError> {
        Ok(self.decide_descriptors(self.at_once("check_descriptors")?, domain, descriptors))
    }

    fn decide_descriptors(
        &self,
        memory: &Memory,
        domain: &str,
        descriptors: &[Descriptor<'_>],
    ) -> CheckedDescriptors {
        let now = self.clock.now();
        let rules = self.rules.load();
        let decision = {
            let matching = spans::matching();
            let demand = rules.demand_descriptors(domain, descriptors, &memory.secret);
            spans::matched(matching, demand.group.len() + demand.apart.len(), rules.version());
            let counting = spans::memory(demand.group.len() + demand.apart.len());
            let (mut joint, mut apart) = (Outcomes::new(), Outcomes::new());
            memory.store.apply_each(&demand.group, now, |outcome| joint.push(outcome));
            for op in &demand.apart {
                memory.store.apply_each(std::slice::from_ref(op), now, |outcome| apart.push(outcome));
            }
            for rest in rests(&demand.apart, &apart) {
                memory.store.apply_each(&rest, now, |_| {});
            }
            let decided = answer(&demand, &joint, &apart, now);
            spans::counted(counting, &decided.decision);
            decided
        };
        CheckedDescriptors { decision, rules }
    }

    async fn ask_descriptors(
        &self,
        shared: &Shared,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        arrived: Instant,
    ) -> CheckedDescriptors {
        let rules = self.rules.load_full();
        let decision = {
            let secret = shared.secret();
            let matching = spans::matching();
            let demand = rules.demand_descriptors(domain, descriptors, &shared.hashed_with(secret));
            spans::matched(matching, demand.group.len() + demand.apart.len(), rules.version());
            let (joint, apart) = ask(shared, &demand, secret, shared.deadline(arrived, 1)).await;
            let decided = answer(&demand, &joint, &apart, self.clock.now());
            spans::failed(&decided.decision);
            decided
        };
        CheckedDescriptors { decision, rules: Guard::from_inner(rules) }
    }
}

/// What the store says to the group, and to those that stand by themselves.
async fn ask(
    shared: &Shared,
    demand: &DescriptorDemand<'_>,
    secret: Option<Secret>,
    deadline: Deadline,
) -> (Outcomes, Outcomes) {
    if demand.apart.is_empty() {
        let answers = shared.ask(std::slice::from_ref(&demand.group), secret, deadline).await;
        return (answers.into_iter().flatten().collect(), Outcomes::new());
    }
    let apart = demand.apart.iter().map(|&op| Group::from_elem(op, 1));
    let groups: Vec<Group<'_>> = std::iter::once(demand.group.clone()).chain(apart).collect();
    let mut answers = shared.ask(&groups, secret, deadline).await.into_iter();
    let joint = answers.next().into_iter().flatten().collect();
    let apart = answers.flatten().collect();
    let rests = rests(&demand.apart, &apart);
    if !rests.is_empty() {
        shared.ask(&rests, secret, deadline).await;
    }
    (joint, apart)
}

/// What is left of the counters of refused takes, each to be taken by itself: where refusals are charged for, asking
/// for too much leaves nothing to those who ask for less.
fn rests<'r>(group: &Group<'r>, outcomes: &Outcomes) -> Vec<Group<'r>> {
    let rest = |(op, outcome): (&Operation<'r>, &Outcome)| {
        // A request that does not go ahead is not in flight.
        let is_charged = op.action == Action::Take && op.take.quota.algorithm() != Algorithm::InFlight;
        let verdict = outcome.verdict().filter(|verdict| is_charged && !verdict.allowed)?;
        let take = Take { cost: verdict.remaining, ..op.take };
        (verdict.remaining > 0).then(|| Group::from_elem(take.into(), 1))
    };
    group.iter().zip(outcomes).filter_map(rest).collect()
}

/// The decision, now that the operations of `demand` have these outcomes. Those that are missing are not known.
fn answer(
    demand: &DescriptorDemand<'_>,
    joint: &Outcomes,
    apart: &Outcomes,
    now: Timestamp,
) -> DescriptorDecision {
    let all = || demand.group.iter().zip(joint).chain(demand.apart.iter().zip(apart));
    let taken = all().filter(|(op, _)| op.action == Action::Take).map(|(op, _)| op.take.cost);
    let mut answer = DescriptorDecision::new(Decision::new(None, taken.max().unwrap_or(0), now));
    let refused = all()
        .any(|(op, outcome)| !op.take.shadow && outcome.verdict().is_some_and(|verdict| !verdict.allowed));
    let unknown = || repeat(Outcome::Unknown(Failure::Other));
    let mut joint = demand.group.iter().zip(joint.iter().copied().chain(unknown()));
    let mut apart = demand.apart.iter().zip(apart.iter().copied().chain(unknown()));
    for &asked in &demand.asked {
        if answer.pass(asked) {
            continue;
        }
        let (rule, counted) = match asked {
            Asked::Counted(rule) => (rule, joint.next()),
            Asked::CountedApart(rule) => (rule, apart.next()),
            Asked::Nothing | Asked::Unlimited(_) => continue,
        };
        let Some((Operation { take, .. }, outcome)) = counted else { continue };
        match outcome {
            Outcome::Verdict(verdict) => answer.add(RuleVerdict { rule, shadow: take.shadow, verdict }),
            Outcome::Local(verdict) => answer.add_local(RuleVerdict { rule, shadow: take.shadow, verdict }),
            // Whoever is refused need not hear what the others would have said.
            Outcome::Unasked | Outcome::Unavailable(_) | Outcome::Unknown(_) if refused => answer.skip(rule),
            Outcome::Unavailable(_) | Outcome::Unknown(_) | Outcome::Unasked => {
                answer.decision.fail(rule, take.shadow, take.on_store_failure);
                answer.skip(rule);
            }
        }
    }
    answer
}
