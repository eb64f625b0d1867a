//! Counters that others share: asked over a network, by a deadline, and not always there.

use std::iter::{repeat, repeat_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::{
    Decision, Demand, Group, HoldId, Operation, Request, RuleSet, RuleVerdict, Secret, Tag, Timestamp,
};
use tidegate_store::{
    Answer, Clock, Deadline, DenyCache, Failure, Fallback, FallbackSettings, Outcome, Outcomes, Shard, Store,
};

use crate::checked::RequestError;
use crate::held::{Holding, is_hold, take_at_once};
use crate::limiter::parse_path;
use crate::spans;

/// Nobody waits longer, whatever was configured; and no point in time is beyond what can be told.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A shared store and how it is asked.
pub(crate) struct Shared {
    store: DenyCache<Fallback<Behind>>,
    timeout: Duration,
    /// What keys are hashed with if the store has no opinion.
    secret: Option<Secret>,
    /// What they are hashed with while the store has never been reached, and nodes count by themselves.
    alone: Secret,
    /// Whether other nodes hash with the same.
    is_shared: bool,
    /// Whether the store was reached.
    reached: AtomicBool,
    /// Whether what the store refuses is remembered here for a moment.
    remember: bool,
}

/// How nodes count by themselves.
pub(crate) struct Local {
    pub(crate) settings: FallbackSettings,
    pub(crate) clock: Arc<dyn Clock>,
    /// What to hash keys with until the store says.
    pub(crate) secret: Secret,
}

/// By which rules, at what time, and to what end requests are decided.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'r> {
    pub(crate) rules: &'r RuleSet,
    pub(crate) now: Timestamp,
    /// Changes what is asked of the store.
    pub(crate) adjust: fn(&mut [Operation<'_>]),
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        timeout: Duration,
        secret: Option<Secret>,
        remember: bool,
        local: Local,
    ) -> Self {
        let Local { settings, clock, secret: alone } = local;
        let is_shared = settings.peers.is_some();
        let store = DenyCache::new(Fallback::new(Behind(store), settings, clock));
        Self { store, timeout, secret, alone, is_shared, reached: AtomicBool::new(false), remember }
    }

    /// What stands in for the store.
    pub(crate) fn fallback(&self) -> &Fallback<impl Store + use<>> {
        self.store.inner()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store.inner().inner().0
    }

    /// Does what has to be done however few requests there are.
    pub(crate) async fn tend(&self) {
        let fallback = self.store.inner();
        if self.store.secret().is_some() && !self.reached.swap(true, Ordering::Relaxed) {
            self.check_debts();
        }
        fallback.tend().await;
    }

    /// What was admitted before the store was first reached is known to it only if keys are hashed there as they were here.
    fn check_debts(&self) {
        let same = self.store.secret().is_some_and(|secret| secret.bytes() == self.alone.bytes());
        if !same {
            self.store.inner().forget_debts();
        }
    }

    pub(crate) fn denied_from_cache(&self) -> u64 {
        self.store.hits()
    }

    pub(crate) fn rules_changed(&self) {
        self.store.clear();
    }

    /// Whether the store fails, or has until recently.
    pub(crate) fn is_troubled(&self) -> bool {
        self.store.inner().is_troubled()
    }

    /// Decides a request without waiting, if nobody but this node need be asked.
    pub(crate) fn try_decide(
        &self,
        terms: Terms<'_>,
        request: &Request<'_>,
    ) -> Option<Result<Decided, RequestError>> {
        let secret = self.secret();
        if secret.is_none() && !self.is_shared {
            return None;
        }
        let (question, group) = match Question::new(terms, request, self.hashed_with(secret)) {
            Ok(asked) => asked,
            Err(error) => return Some(Err(error)),
        };
        let outcomes = self.store.inner().try_decide(&group)?;
        Some(Ok(question.answer(&group, &outcomes)))
    }

    /// Decides a request that arrived at `arrived`.
    pub(crate) async fn decide(
        &self,
        terms: Terms<'_>,
        request: &Request<'_>,
        arrived: Instant,
    ) -> Result<Decided, RequestError> {
        let secret = self.secret();
        let (question, group) = Question::new(terms, request, self.hashed_with(secret))?;
        let groups = [group];
        let answers = self.ask(&groups, secret, self.deadline(arrived, 1)).await;
        Ok(question.answer(&groups[0], &answers.into_iter().next().unwrap_or_default()))
    }

    /// Decides requests that arrived together, each by itself.
    pub(crate) async fn decide_all(
        &self,
        terms: Terms<'_>,
        requests: &[Request<'_>],
        arrived: Instant,
    ) -> Vec<Result<Decided, RequestError>> {
        let secret = self.secret();
        let ask = |request| match Question::new(terms, request, self.hashed_with(secret)) {
            Ok((question, group)) => (Ok(question), group),
            Err(error) => (Err(error), Group::new()),
        };
        let (questions, groups): (Vec<_>, Vec<_>) = requests.iter().map(ask).unzip();
        let answers = self.ask(&groups, secret, self.deadline(arrived, requests.len())).await;
        let answers = answers.into_iter().chain(repeat_with(Outcomes::new));
        let asked = questions.into_iter().zip(&groups).zip(answers);
        asked.map(|((question, group), outcomes)| Ok(question?.answer(group, &outcomes))).collect()
    }

    /// Settles something that is held by this node, without the store.
    pub(crate) fn settle_alone(&self, op: &Operation<'_>, local: bool) -> Option<Outcome> {
        let known = local && (self.is_shared || self.secret().is_some());
        if known { self.store.inner().settle_alone(op) } else { None }
    }

    pub(crate) fn secret(&self) -> Option<Secret> {
        self.store.secret().or(self.secret)
    }

    /// What keys are hashed with.
    pub(crate) fn hashed_with(&self, secret: Option<Secret>) -> Secret {
        secret.unwrap_or(self.alone)
    }

    /// By when an answer is wanted: a store that has time for one usually answers a hundred, but not a thousand.
    pub(crate) fn deadline(&self, arrived: Instant, requests: usize) -> Deadline {
        let hundreds = u32::try_from(requests.div_ceil(100)).unwrap_or(u32::MAX);
        Deadline::after(arrived, self.timeout.saturating_mul(hundreds).min(LONGEST_TIMEOUT))
    }

    /// Asks the store, if there is anything to ask and the keys are those its other users mean.
    pub(crate) async fn ask(
        &self,
        groups: &[Group<'_>],
        secret: Option<Secret>,
        deadline: Deadline,
    ) -> Vec<Outcomes> {
        if groups.iter().all(Group::is_empty) {
            return Vec::new();
        }
        if secret.is_none() && !self.is_shared {
            return groups.iter().map(|group| self.store.inner().decide_alone(group)).collect();
        }
        if self.remember {
            self.store.apply(groups, deadline).await
        } else {
            self.store.inner().apply(groups, deadline).await
        }
    }
}

/// A decision, and what is held by it.
pub(crate) type Decided = (Decision, Option<Box<Holding>>);

/// A request on its way: what the rules make of it, until the store has said something.
struct Question<'r> {
    demand: Demand<'r>,
    decision: Decision,
    hold: Option<HoldId>,
}

impl<'r> Question<'r> {
    /// What to ask the store about `request`.
    fn new(
        terms: Terms<'r>,
        request: &Request<'_>,
        secret: Secret,
    ) -> Result<(Self, Group<'r>), RequestError> {
        let Terms { rules, now, adjust } = terms;
        let path = parse_path(request)?;
        let matching = spans::matching();
        let mut demand = rules.demand(request, &path, &secret, now);
        spans::matched(matching, demand.rules.len(), rules.version());
        adjust(&mut demand.group);
        let group = std::mem::take(&mut demand.group);
        let decision = Decision::new(demand.tier, request.cost, now);
        Ok((Self { demand, decision, hold: request.hold }, group))
    }

    /// The decision, now that `group` has these outcomes. Those that are missing are not known.
    fn answer(self, group: &Group<'_>, outcomes: &Outcomes) -> Decided {
        let Self { demand, mut decision, hold } = self;
        let is_refusal = |(op, outcome): (&Operation<'_>, &Outcome)| {
            !op.take.shadow && outcome.verdict().is_some_and(|verdict| !verdict.allowed)
        };
        let refused = group.iter().zip(outcomes).any(is_refusal);
        let said = outcomes.iter().copied().chain(repeat(Outcome::Unknown(Failure::Other)));
        for ((&rule, op), outcome) in demand.rules.iter().zip(group).zip(said) {
            let take = &op.take;
            match outcome {
                Outcome::Verdict(verdict) => {
                    decision.add_costing(RuleVerdict { rule, shadow: take.shadow, verdict }, take.cost);
                }
                Outcome::Local(verdict) => {
                    let said = RuleVerdict { rule, shadow: take.shadow, verdict };
                    decision.add_local_costing(said, take.cost);
                }
                // Whoever is refused need not hear what the others would have said.
                Outcome::Unasked | Outcome::Unavailable(_) | Outcome::Unknown(_) if refused => {}
                Outcome::Unavailable(_) | Outcome::Unknown(_) | Outcome::Unasked => {
                    decision.fail(rule, take.shadow, take.on_store_failure);
                }
            }
        }
        spans::failed(&decision);
        let asked = (&*demand.rules, &**group);
        let holding = Holding::of(hold, decision.allowed, asked, outcomes.iter().copied());
        (decision, holding)
    }
}

/// The store itself, in a form that a cache can have.
struct Behind(Arc<dyn Store>);

impl Behind {
    /// Takes what there is no room to hold, and puts what the store says to that among the `answers`.
    async fn take_instead(&self, groups: &[Group<'_>], answers: &mut [Outcomes], deadline: Deadline) {
        let is_full = |outcomes: &Outcomes| outcomes.contains(&Outcome::Unavailable(Failure::Full));
        let full =
            |(group, outcomes): (&Group<'_>, &Outcomes)| group.iter().any(is_hold) && is_full(outcomes);
        let at: Vec<usize> =
            (0..answers.len().min(groups.len())).filter(|&at| full((&groups[at], &answers[at]))).collect();
        if at.is_empty() {
            return;
        }
        let mut again: Vec<Group<'_>> = at.iter().map(|&at| groups[at].clone()).collect();
        again.iter_mut().for_each(|group| take_at_once(group));
        let said = self.0.apply(&again, deadline).await;
        at.into_iter().zip(said).for_each(|(at, outcomes)| answers[at] = outcomes);
    }
}

impl Store for Behind {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        let answer = self.0.apply(groups, deadline);
        if !groups.iter().flatten().any(is_hold) {
            return answer;
        }
        Box::pin(async move {
            let mut answers = answer.await;
            self.take_instead(groups, &mut answers, deadline).await;
            answers
        })
    }

    fn secret(&self) -> Option<Secret> {
        self.0.secret()
    }

    fn problem(&self) -> Option<String> {
        self.0.problem()
    }

    fn part_of(&self, tag: Tag) -> u8 {
        self.0.part_of(tag)
    }

    fn unwell(&self) -> u64 {
        self.0.unwell()
    }

    fn reach(&self, tag: Tag) -> Result<(), Failure> {
        self.0.reach(tag)
    }

    fn shards(&self) -> Vec<Shard> {
        self.0.shards()
    }
}
