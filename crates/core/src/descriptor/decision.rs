//! What becomes of descriptors, and of the request they are about.

use smallvec::SmallVec;

use crate::decision::{Decision, RuleVerdict};
use crate::ruleset::RuleSet;
use crate::verdict::Verdict;

use super::demand::Asked;

/// The decision on a request that a proxy described, with what was said to each of its descriptors.
#[derive(Clone, Debug)]
pub struct DescriptorDecision {
    /// The decision as a whole.
    pub decision: Decision,
    /// What was said to each descriptor, in order.
    pub said: SmallVec<[Said; 4]>,
}

/// What was said to one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing: no rule counts it.
    Nothing,
    /// This rule lets it pass without counting.
    Unlimited(u32),
    /// What this rule's counter says.
    Verdict(u32, Verdict),
    /// This rule could not be asked, or need not be, since another refuses for certain.
    Unknown(u32),
}

impl Said {
    /// Whether it is over its limit and that is to be told: not what a shadow says.
    pub fn is_over(&self, rules: &RuleSet) -> bool {
        matches!(self, Self::Verdict(rule, verdict) if !verdict.allowed && !rules.rule(*rule).shadow)
    }

    /// The rule that is about the descriptor.
    pub const fn rule(&self) -> Option<u32> {
        match self {
            Self::Nothing => None,
            Self::Unlimited(rule) | Self::Verdict(rule, _) | Self::Unknown(rule) => Some(*rule),
        }
    }
}

impl DescriptorDecision {
    /// Nothing has been said yet.
    pub fn new(decision: Decision) -> Self {
        Self { decision, said: SmallVec::new() }
    }

    /// Adds what becomes of the next descriptor that has no counter; `false` if it has one, which is to be told.
    pub fn pass(&mut self, asked: Asked) -> bool {
        self.said.push(match asked {
            Asked::Nothing => Said::Nothing,
            Asked::Unlimited(rule) => Said::Unlimited(rule),
            Asked::Counted(_) | Asked::CountedApart(_) => return false,
        });
        true
    }

    /// Adds what the counter of the next descriptor says.
    pub fn add(&mut self, said: RuleVerdict) {
        self.decision.add(said);
        self.said.push(Said::Verdict(said.rule, said.verdict));
    }

    /// Adds what was decided about the next descriptor without the store.
    pub fn add_local(&mut self, said: RuleVerdict) {
        self.decision.add_local(said);
        self.said.push(Said::Verdict(said.rule, said.verdict));
    }

    /// Adds that nothing is known of the counter of the next descriptor.
    pub fn skip(&mut self, rule: u32) {
        self.said.push(Said::Unknown(rule));
    }
}
