//! The body of `POST /v1/explain`.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::{Decision, Mode, RuleSet};

use crate::check::{DecisionBody, RuleBody};

/// What would be decided, and who the request is to each rule that applies.
pub type ExplanationBody<'a> = DecisionBody<'a, ExplainedRule<'a>>;

/// What one rule would say, and to whom.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExplainedRule<'a> {
    /// What it would say.
    #[serde(flatten)]
    pub said: RuleBody<'a>,
    /// Whom it counts; null if it insists on an identity that the request lacks.
    pub identity: Option<String>,
    /// How it counts: `token_bucket`, `fixed_window`, `sliding_window`, `sliding_log` or `in_flight`.
    pub algorithm: &'static str,
    /// What its limit is per; for `in_flight`, how long a request is in flight at most.
    pub window_ms: u64,
    /// How much there is when nothing was used: the limit, or the burst if that is more.
    pub capacity: u64,
    /// What it is for, in its author's words.
    pub description: Option<&'a str>,
    /// Whether the request would be refused because of it; a shadow rule refuses nobody.
    pub would_refuse: bool,
}

impl<'a> ExplanationBody<'a> {
    /// Describes `decision`, which would be taken by `rules` in `mode`; `identities` are those of its verdicts.
    pub fn explain(
        decision: &Decision,
        rules: &'a RuleSet,
        mode: Mode,
        identities: Vec<Option<String>>,
    ) -> Self {
        let DecisionBody {
            rules: said,
            allowed,
            rule_id,
            limit,
            remaining,
            reset_at,
            retry_after,
            status,
            mode,
            waited_ms,
        } = DecisionBody::new(decision, rules, mode);
        let explained = said.into_iter().zip(&decision.verdicts).zip(identities);
        let explained = explained.map(|((said, verdict), identity)| ExplainedRule {
            would_refuse: !said.allowed && !said.shadow,
            algorithm: verdict.verdict.quota.algorithm().name(),
            window_ms: verdict.verdict.quota.window().as_millis(),
            capacity: verdict.verdict.quota.capacity(),
            description: rules.rule(verdict.rule).description.as_deref(),
            said,
            identity,
        });
        let rules = explained.collect();
        Self { allowed, rule_id, limit, remaining, reset_at, retry_after, status, mode, waited_ms, rules }
    }
}
