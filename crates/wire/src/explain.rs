//! The body of `POST /v1/explain`.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::{Decision, Mode, RuleSet};

use crate::check::{DecisionBody, RuleBody};

/// What would be decided, and who the request is to each rule that applies.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExplanationBody<'a> {
    /// Whether the request would go ahead.
    pub allowed: bool,
    /// The binding rule; null if none applies.
    pub rule_id: Option<&'a str>,
    /// The binding rule's limit.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: Option<u64>,
    /// When it will be as if never used, in Unix seconds.
    pub reset_at: Option<u64>,
    /// Seconds to wait before trying; 0 if it would be allowed, null if it can never be.
    pub retry_after: Option<u64>,
    /// `enforced`, `local`, `disabled` (failed open) or `unavailable` (failed closed).
    pub status: &'static str,
    /// `normal`, `degraded` or `emergency`.
    pub mode: &'static str,
    /// What every rule that applies says, by priority.
    pub rules: Vec<ExplainedRule<'a>>,
}

/// What one rule would say, and to whom.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExplainedRule<'a> {
    /// What it would say.
    #[serde(flatten)]
    pub said: RuleBody<'a>,
    /// Whom it counts; null if it insists on an identity that the request lacks.
    pub identity: Option<String>,
    /// What it is for, in its author's words.
    pub description: Option<&'a str>,
    /// Whether the request would be refused because of it; a shadow rule refuses nobody.
    pub would_refuse: bool,
}

impl<'a> ExplanationBody<'a> {
    /// Describes `decision`, which would be taken by `rules` in `mode`; `identities` are those of its verdicts.
    pub fn new(decision: &Decision, rules: &'a RuleSet, mode: Mode, identities: Vec<Option<String>>) -> Self {
        let body = DecisionBody::new(decision, rules, mode);
        let explained = body.rules.into_iter().zip(&decision.verdicts).zip(identities);
        Self {
            allowed: body.allowed,
            rule_id: body.rule_id,
            limit: body.limit,
            remaining: body.remaining,
            reset_at: body.reset_at,
            retry_after: body.retry_after,
            status: body.status,
            mode: body.mode,
            rules: explained
                .map(|((said, verdict), identity)| ExplainedRule {
                    would_refuse: !said.allowed && !said.shadow,
                    description: rules.rule(verdict.rule).description.as_deref(),
                    said,
                    identity,
                })
                .collect(),
        }
    }
}
