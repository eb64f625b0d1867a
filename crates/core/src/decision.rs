//! The verdicts on one request, joined.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::rule::{OnLimit, OnStoreFailure};
use crate::ruleset::RuleSet;
use crate::tier::TierIndex;
use crate::time::{Span, Timestamp};
use crate::verdict::{Retry, Verdict};

/// Whether and how the limits were enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// By the store.
    #[default]
    Enforced,
    /// Without the shared store, by this node or another.
    Local,
    /// Not at all: the store could not be asked and the rule lets requests pass.
    Disabled,
    /// Not at all: the store could not be asked and the rule refuses.
    Unavailable,
}

impl Status {
    /// The name used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Local => "local",
            Self::Disabled => "disabled",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What one rule said to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleVerdict {
    /// The rule's position in its rule set.
    pub rule: u32,
    /// Whether the rule only watches.
    pub shadow: bool,
    /// What its counter said.
    pub verdict: Verdict,
}

/// That a refused request may wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The rule to wait for: the binding one.
    pub rule: u32,
    /// Until when, if nobody else comes.
    pub wait: Span,
    /// No longer than this in all: the least of what the rules that refuse it grant.
    pub longest: Span,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Whether it may go ahead.
    pub allowed: bool,
    /// How the limits were enforced.
    pub status: Status,
    /// What every rule that applies and could be asked said, by priority.
    pub verdicts: SmallVec<[RuleVerdict; 4]>,
    /// The request's tier, if the rules have tiers.
    pub tier: Option<TierIndex>,
    /// What it was to take: from the most binding rule, if there is one.
    pub cost: u64,
    /// When it was decided.
    pub at: Timestamp,
    binding: Option<usize>,
    /// What it takes from rules that do not say otherwise.
    usual: u64,
    /// The first rule that could not be asked and made the status what it is.
    failed: Option<u32>,
}

impl Decision {
    /// The decision on a request of `cost` at `at` that no rule applies to: allowed.
    pub fn new(tier: Option<TierIndex>, cost: u64, at: Timestamp) -> Self {
        let verdicts = SmallVec::new();
        Self {
            allowed: true,
            status: Status::Enforced,
            verdicts,
            tier,
            cost,
            at,
            binding: None,
            usual: cost,
            failed: None,
        }
    }

    /// Adds what the next rule by priority said: joined by AND, unless the rule is a shadow, which is only reported.
    #[inline]
    pub fn add(&mut self, said: RuleVerdict) {
        self.add_costing(said, self.usual);
    }

    /// The same of a rule that was asked for `cost`, whatever the request costs otherwise.
    #[inline]
    pub fn add_costing(&mut self, said: RuleVerdict, cost: u64) {
        if !said.shadow {
            if !said.verdict.allowed {
                self.allowed = false;
                // It is refused for certain, whatever those would have said that could not be asked.
                self.status = Status::Enforced;
            }
            if self.most_binding().is_none_or(|binding| binds_more(&said, binding)) {
                self.binding = Some(self.verdicts.len());
                self.cost = cost;
            }
        }
        self.verdicts.push(said);
    }

    /// Adds what was decided without the store for the next rule by priority.
    pub fn add_local(&mut self, said: RuleVerdict) {
        self.add_local_costing(said, self.usual);
    }

    /// The same of a rule that was asked for `cost`.
    pub fn add_local_costing(&mut self, said: RuleVerdict, cost: u64) {
        self.add_costing(said, cost);
        if !said.shadow && self.status == Status::Enforced {
            self.status = Status::Local;
        }
    }

    /// Takes note that the next rule by priority could not be asked. What that means is for the rule to say; a
    /// shadow's silence means nothing, and a refusal by a rule that was asked stands in any case.
    pub fn fail(&mut self, rule: u32, shadow: bool, on_store_failure: OnStoreFailure) {
        if shadow || self.most_binding().is_some_and(|binding| !binding.verdict.allowed) {
            return;
        }
        let status = match on_store_failure {
            OnStoreFailure::Allow | OnStoreFailure::Local | OnStoreFailure::LocalOrDeny => Status::Disabled,
            OnStoreFailure::Deny => Status::Unavailable,
        };
        self.allowed &= status != Status::Unavailable;
        if status > self.status {
            self.status = status;
            self.failed = Some(rule);
        }
    }

    fn most_binding(&self) -> Option<&RuleVerdict> {
        self.binding.map(|index| &self.verdicts[index])
    }

    /// The rule whose figures describe the decision best: of those that refuse the one with the longest wait,
    /// otherwise the one with the least left in proportion; the first by priority if several do. None if the limits
    /// could not be checked and the request is turned away for it: no figures explain that.
    pub fn binding(&self) -> Option<&RuleVerdict> {
        self.most_binding().filter(|_| self.status != Status::Unavailable)
    }

    /// The rule the decision is put down to: if it was taken without the store, the first whose
    /// [`OnStoreFailure`] made it what it is, otherwise the binding one.
    pub fn cause(&self) -> Option<u32> {
        match self.status {
            Status::Disabled | Status::Unavailable => self.failed,
            Status::Enforced | Status::Local => self.most_binding().map(|binding| binding.rule),
        }
    }

    /// Whether a refused request may wait by `rules`, the rule set this was decided by: all that refuse it
    /// [let it](OnLimit::Delay), and waiting helps.
    pub fn delay(&self, rules: &RuleSet) -> Option<Delay> {
        let binding = self.binding().filter(|_| !self.allowed)?;
        let Retry::After(wait) = binding.verdict.retry else { return None };
        let refusals = self.verdicts.iter().filter(|said| !said.shadow && !said.verdict.allowed);
        let longest = refusals.map(|said| rules.rule(said.rule).on_limit.longest());
        let longest = longest.min().flatten()?;
        Some(Delay { rule: binding.rule, wait, longest })
    }

    /// Refuses by the rule at `rule`, if it had a say, whatever its counter said: others are waiting for it, and
    /// `wait` is when it may be this request's turn.
    pub fn turn_away(&mut self, rule: u32, wait: Span) {
        let Some(said) = self.verdicts.iter_mut().find(|said| said.rule == rule && !said.shadow) else {
            return;
        };
        let retry = said.verdict.retry.max(Retry::After(wait));
        said.verdict = Verdict { allowed: false, retry, ..said.verdict };
        let verdicts = std::mem::take(&mut self.verdicts);
        (self.binding, self.failed) = (None, None);
        let local = self.status == Status::Local;
        verdicts.into_iter().for_each(|said| self.add(said));
        if local {
            self.status = Status::Local;
        }
    }

    /// When the binding rule's counter will be as if never used.
    pub fn reset_at(&self) -> Option<Timestamp> {
        self.binding().map(|binding| self.at + binding.verdict.reset_after)
    }

    /// The binding rule's id in `rules`, the rule set this was decided by; the [cause](Self::cause)'s if no rule
    /// that was asked binds.
    pub fn binding_rule<'r>(&self, rules: &'r RuleSet) -> Option<&'r str> {
        let rule = self.binding().map(|binding| binding.rule).or_else(|| self.cause());
        rule.map(|rule| &*rules.rule(rule).id)
    }
}

impl OnLimit {
    /// How long a request waits at most; `None` if not at all.
    pub const fn longest(self) -> Option<Span> {
        match self {
            Self::Refuse => None,
            Self::Delay { longest } => Some(longest),
        }
    }
}

fn binds_more(a: &RuleVerdict, b: &RuleVerdict) -> bool {
    let (a, b) = (&a.verdict, &b.verdict);
    match (a.allowed, b.allowed) {
        (false, true) => true,
        (true, false) => false,
        (false, false) => a.retry > b.retry,
        (true, true) => share_left(a, b) == Ordering::Less,
    }
}

/// Compares what is left of each in proportion to its capacity, exactly.
fn share_left(a: &Verdict, b: &Verdict) -> Ordering {
    let cross = |x: &Verdict, y: &Verdict| u128::from(x.remaining) * u128::from(y.quota.capacity());
    cross(a, b).cmp(&cross(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Facet;
    use crate::quota::{Algorithm, Quota};
    use crate::rule::Rule;
    use crate::ruleset::RuleSetParts;

    fn verdict(rule: u32, limit: u64, remaining: u64, retry: Retry) -> RuleVerdict {
        let quota = Quota::new(Algorithm::TokenBucket, limit, Span::from_secs(1)).unwrap();
        let allowed = retry == Retry::Now;
        let verdict =
            Verdict { allowed, remaining, reset_after: Span::from_secs(1), retry, held: false, quota };
        RuleVerdict { rule, shadow: false, verdict }
    }

    fn join(verdicts: &[RuleVerdict]) -> (bool, Option<u32>) {
        let mut decision = Decision::new(None, 1, Timestamp::EPOCH);
        verdicts.iter().for_each(|said| decision.add(*said));
        (decision.allowed, decision.binding().map(|binding| binding.rule))
    }

    #[test]
    fn the_binding_rule() {
        let wait = |ms| Retry::After(Span::from_millis(ms));
        assert_eq!(join(&[]), (true, None));
        assert_eq!(join(&[verdict(0, 10, 9, Retry::Now), verdict(1, 100, 50, Retry::Now)]), (true, Some(1)));
        assert_eq!(join(&[verdict(0, 10, 5, Retry::Now), verdict(1, 100, 50, Retry::Now)]), (true, Some(0)));
        assert_eq!(join(&[verdict(0, 10, 0, Retry::Now), verdict(1, 100, 5, wait(1))]), (false, Some(1)));
        assert_eq!(join(&[verdict(0, 10, 0, wait(5)), verdict(1, 9, 0, wait(7))]), (false, Some(1)));
        assert_eq!(join(&[verdict(0, 10, 0, wait(7)), verdict(1, 9, 0, wait(7))]), (false, Some(0)));
        assert_eq!(join(&[verdict(0, 10, 0, wait(7)), verdict(1, 9, 0, Retry::Never)]), (false, Some(1)));
    }

    #[test]
    fn the_cost_is_what_the_binding_rule_was_asked_for() {
        let asked = |costs: &[Option<u64>]| {
            let mut decision = Decision::new(None, 1, Timestamp::EPOCH);
            for (rule, cost) in (0u32..).zip(costs) {
                let said = verdict(rule, 10, 9 - u64::from(rule), Retry::Now);
                match cost {
                    None => decision.add(said),
                    Some(cost) => decision.add_costing(said, *cost),
                }
            }
            decision.cost
        };
        assert_eq!(asked(&[]), 1);
        assert_eq!(asked(&[Some(5)]), 5);
        assert_eq!(asked(&[Some(5), None]), 1, "the second has less left");
        assert_eq!(asked(&[None, Some(7)]), 7);
        let mut decision = Decision::new(None, 1, Timestamp::EPOCH);
        decision.add_costing(RuleVerdict { shadow: true, ..verdict(0, 1, 0, Retry::Never) }, 9);
        assert_eq!(decision.cost, 1, "a shadow binds nobody");
    }

    #[test]
    fn a_shadow_rule_binds_nobody() {
        let shadow = RuleVerdict { shadow: true, ..verdict(0, 1, 0, Retry::Never) };
        assert_eq!(join(&[shadow]), (true, None));
        assert_eq!(join(&[shadow, verdict(1, 10, 9, Retry::Now)]), (true, Some(1)));
    }

    /// One rule each, with how long requests may wait for it.
    fn rules(longest: &[Option<u64>]) -> RuleSet {
        let rule = |(index, longest): (usize, &Option<u64>)| {
            let on_limit =
                longest.map_or(OnLimit::Refuse, |ms| OnLimit::Delay { longest: Span::from_millis(ms) });
            Rule { on_limit, ..Rule::new(index.to_string(), Facet::Global, Quota::per_minute(1)) }
        };
        let rules = longest.iter().enumerate().map(rule).collect();
        RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap()
    }

    #[test]
    fn who_may_wait() {
        let (wait, ms) = (|ms| Retry::After(Span::from_millis(ms)), Span::from_millis);
        let rules = rules(&[Some(50), Some(30), None]);
        let delay = |verdicts: &[RuleVerdict]| {
            let mut decision = Decision::new(None, 1, Timestamp::EPOCH);
            verdicts.iter().for_each(|said| decision.add(*said));
            decision.delay(&rules)
        };
        let allowed = |rule| verdict(rule, 10, 5, Retry::Now);
        let refused = |rule, ms| verdict(rule, 10, 0, wait(ms));
        let expected = |rule, wait, longest| Some(Delay { rule, wait: ms(wait), longest: ms(longest) });
        assert_eq!(delay(&[]), None);
        assert_eq!(delay(&[allowed(0)]), None);
        assert_eq!(delay(&[refused(0, 7)]), expected(0, 7, 50));
        assert_eq!(
            delay(&[refused(0, 90)]),
            expected(0, 90, 50),
            "whether that is too long is for others to say"
        );
        assert_eq!(delay(&[refused(0, 7), refused(1, 6)]), expected(0, 7, 30));
        assert_eq!(delay(&[refused(0, 7), allowed(1), allowed(2)]), expected(0, 7, 50));
        assert_eq!(delay(&[refused(0, 7), refused(2, 1)]), None, "one that refuses does");
        assert_eq!(delay(&[verdict(0, 10, 0, Retry::Never)]), None);
        let shadow = RuleVerdict { shadow: true, ..refused(2, 9) };
        assert_eq!(delay(&[refused(0, 7), shadow]), expected(0, 7, 50));
        assert_eq!(delay(&[shadow]), None);
        let mut unavailable = decide(&[Part::Failed(OnStoreFailure::Deny)]);
        assert_eq!(unavailable.delay(&rules), None);
        unavailable.turn_away(0, ms(5));
        assert_eq!(unavailable.status, Status::Unavailable, "it had no say");
    }

    #[test]
    fn who_is_turned_away() {
        let mut decision = Decision::new(None, 1, Timestamp::EPOCH);
        decision.add_local(verdict(0, 10, 1, Retry::Now));
        decision.add_local(verdict(1, 10, 9, Retry::Now));
        decision.turn_away(1, Span::from_millis(700));
        assert_eq!((decision.allowed, decision.status), (false, Status::Local));
        let binding = *decision.binding().unwrap();
        assert_eq!((binding.rule, binding.verdict.allowed), (1, false));
        assert_eq!(binding.verdict.retry, Retry::After(Span::from_millis(700)));
        decision.turn_away(1, Span::from_millis(600));
        assert_eq!(decision.binding().copied(), Some(binding), "never sooner");
        decision.turn_away(7, Span::from_millis(900));
        assert_eq!(decision.verdicts.len(), 2);
        assert_eq!(decision.binding().copied(), Some(binding));
    }

    /// What becomes of a rule's part in a decision.
    #[derive(Clone, Copy)]
    enum Part {
        Passed,
        Refused,
        Failed(OnStoreFailure),
        ShadowFailed(OnStoreFailure),
    }

    fn decide(parts: &[Part]) -> Decision {
        let mut decision = Decision::new(None, 1, Timestamp::EPOCH);
        for (rule, part) in (0..).zip(parts) {
            match part {
                Part::Passed => decision.add(verdict(rule, 10, 5, Retry::Now)),
                Part::Refused => decision.add(verdict(rule, 10, 0, Retry::Never)),
                Part::Failed(policy) => decision.fail(rule, false, *policy),
                Part::ShadowFailed(policy) => decision.fail(rule, true, *policy),
            }
        }
        decision
    }

    #[test]
    fn what_cannot_be_asked_is_decided_by_the_rule() {
        use OnStoreFailure::{Allow, Deny, Local};
        use Part::{Failed, Passed, Refused, ShadowFailed};
        let (open, closed) = ((true, Status::Disabled), (false, Status::Unavailable));
        let refused = (false, Status::Enforced);
        for (parts, (allowed, status), cause, binding) in [
            (&[Failed(Allow)][..], open, Some(0), None),
            (&[Failed(Local)], open, Some(0), None),
            (&[Failed(Deny)], closed, Some(0), None),
            (&[ShadowFailed(Deny)], (true, Status::Enforced), None, None),
            (&[ShadowFailed(Deny), Passed], (true, Status::Enforced), Some(1), Some(1)),
            (&[Passed, Failed(Allow), Failed(Allow)], open, Some(1), Some(0)),
            (&[Failed(Allow), Passed], open, Some(0), Some(1)),
            (&[Passed, Failed(Deny), Failed(Deny)], closed, Some(1), None),
            (&[Failed(Allow), Failed(Deny)], closed, Some(1), None),
            (&[Failed(Deny), Failed(Allow)], closed, Some(0), None),
            (&[Failed(Deny), Refused], refused, Some(1), Some(1)),
            (&[Refused, Failed(Deny)], refused, Some(0), Some(0)),
            (&[Failed(Allow), Refused], refused, Some(1), Some(1)),
            (&[Refused, Passed, Failed(Allow)], refused, Some(0), Some(0)),
            (&[Failed(Deny), Passed, Refused, Failed(Deny)], refused, Some(2), Some(2)),
        ] {
            let decision = decide(parts);
            assert_eq!((decision.allowed, decision.status), (allowed, status), "{decision:?}");
            assert_eq!(decision.cause(), cause, "{decision:?}");
            assert_eq!(decision.binding().map(|binding| binding.rule), binding, "{decision:?}");
            assert_eq!(decision.reset_at().is_some(), binding.is_some());
        }
    }
}
