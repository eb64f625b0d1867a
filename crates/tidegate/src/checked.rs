//! What a limiter answers.

use std::fmt;
use std::sync::Arc;

use arc_swap::Guard;
use tidegate_core::{Decision, RuleSet};

use crate::held::Holding;

/// A decision and the rules it was taken by.
pub struct Checked {
    pub(crate) decision: Decision,
    pub(crate) rules: Guard<Arc<RuleSet>>,
    /// What is held for the request until its answer is told.
    pub(crate) holding: Option<Box<Holding>>,
}

impl Checked {
    /// The rules the decision was taken by.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// The binding rule's id, if a rule applied. If the store could not be asked, that of the first rule whose
    /// [say](tidegate_core::rule::OnStoreFailure) decided.
    pub fn rule_id(&self) -> Option<&str> {
        self.decision.binding_rule(&self.rules)
    }
}

impl std::ops::Deref for Checked {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decision.fmt(f)
    }
}

/// Why a request cannot be decided at all. Nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// What it is about, as the check API calls it.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for RequestError {}

/// Error for rules that a limiter cannot apply: they limit how many requests are [in flight](tidegate_core::Algorithm::InFlight), and its
/// counters are in a shared store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedRules;

impl fmt::Display for UnsupportedRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "algorithm in_flight works with counters in memory only; remove the rules that use it, or run without a shared store",
        )
    }
}

impl std::error::Error for UnsupportedRules {}
