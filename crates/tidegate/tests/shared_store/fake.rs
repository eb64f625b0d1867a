//! A store that says what it is told to say.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Instant;

use tidegate::core::rule::OnStoreFailure;
use tidegate::core::{Action, Group, Secret};
use tidegate::store::{Answer, Deadline, Failure, Outcome, Outcomes, Store};
use tidegate::{Algorithm, Facet, Limiter, Quota, Retry, Rule, RuleSet, RuleSetParts, Span, Verdict};

/// What the store says to a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Say {
    Yes,
    No,
    Unavailable,
    Unknown,
    Unasked,
}

/// A store whose answers are known beforehand: rule `r0` is told the first, `r1` the second.
pub(crate) struct Fake {
    pub(crate) says: Mutex<Vec<Say>>,
    pub(crate) secret: Mutex<Option<Secret>>,
    /// The actions of each group of each call.
    pub(crate) asked: Mutex<Vec<Vec<Vec<Action>>>>,
    pub(crate) deadline: Mutex<Option<Instant>>,
}

impl Fake {
    pub(crate) fn new(says: &[Say]) -> Arc<Self> {
        Arc::new(Self {
            says: Mutex::new(says.to_vec()),
            secret: Mutex::new(Some(Secret::new([3; 16]))),
            asked: Mutex::default(),
            deadline: Mutex::default(),
        })
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn answer(&self, group: &Group<'_>) -> Outcomes {
        let says = self.says.lock().unwrap();
        let outcome = |rule: &str, quota: Quota| {
            let number: usize = rule[1..].parse().unwrap();
            Some(match says.get(number)? {
                Say::Yes => Outcome::Verdict(verdict(quota, Retry::Now)),
                Say::No => Outcome::Verdict(verdict(quota, Retry::After(Span::from_secs(60)))),
                Say::Unavailable => Outcome::Unavailable(Failure::Connection),
                Say::Unknown => Outcome::Unknown(Failure::Deadline),
                Say::Unasked => Outcome::Unasked,
            })
        };
        group.iter().filter_map(|op| outcome(op.take.key.rule_id, op.take.quota)).collect()
    }
}

fn verdict(quota: Quota, retry: Retry) -> Verdict {
    let allowed = retry == Retry::Now;
    let remaining = if allowed { 4 } else { 0 };
    Verdict { allowed, remaining, reset_after: Span::from_secs(60), retry, held: false, quota }
}

impl Store for Fake {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        let actions = |group: &Group<'_>| group.iter().map(|op| op.action).collect();
        self.asked.lock().unwrap().push(groups.iter().map(actions).collect());
        *self.deadline.lock().unwrap() = Some(deadline.at());
        Box::pin(async move {
            // Answers of a real store are waited for.
            tokio::task::yield_now().await;
            groups.iter().map(|group| self.answer(group)).collect()
        })
    }

    fn secret(&self) -> Option<Secret> {
        *self.secret.lock().unwrap()
    }
}

/// A rule `r{number}`, by that priority, that counts users.
pub(crate) fn rule(number: i32, on_store_failure: OnStoreFailure) -> Rule {
    let quota = Quota::new(Algorithm::FixedWindow, 10, Span::from_secs(60)).unwrap();
    Rule { priority: number, on_store_failure, ..Rule::new(format!("r{number}"), Facet::User, quota) }
}

pub(crate) fn rule_set(rules: Vec<Rule>) -> RuleSet {
    RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap()
}

/// A limiter with rules that do `policies` when they cannot be asked, in this order.
pub(crate) fn limiter(store: &Arc<Fake>, policies: &[OnStoreFailure]) -> Limiter {
    let rules = (0..).zip(policies).map(|(number, policy)| rule(number, *policy)).collect();
    Limiter::builder(rule_set(rules)).store(Arc::clone(store) as Arc<dyn Store>).build().unwrap()
}
