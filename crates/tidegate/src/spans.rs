//! Spans of what the limiter does, for those who trace; see [`tidegate_store::spans`].

use tidegate_core::{Decision, Status};
use tidegate_store::spans::{TARGET, are_heard, fallback, store};
use tracing::field::Empty;
use tracing::{Span, debug_span};

/// Finding the rules that match, and who a request is to each.
#[inline]
pub(crate) fn matching() -> Span {
    if !are_heard() {
        return Span::none();
    }
    debug_span!(target: TARGET, "match", tidegate.rules = Empty, tidegate.rules_version = Empty)
}

/// Ends it: so many rules of the set of a version do.
#[inline]
pub(crate) fn matched(span: Span, rules: usize, version: u64) {
    if !span.is_disabled() {
        span.record("tidegate.rules", rules);
        span.record("tidegate.rules_version", version);
    }
    drop(span);
}

/// Counting in this process.
#[inline]
pub(crate) fn memory(operations: usize) -> Span {
    store("memory", operations)
}

/// Ends it, with what came of it.
#[inline]
pub(crate) fn counted(span: Span, decision: &Decision) {
    if !span.is_disabled() {
        span.record("tidegate.outcome", if decision.allowed { "allowed" } else { "refused" });
    }
    drop(span);
}

/// Waiting for a turn.
#[inline]
pub(crate) fn wait() -> Span {
    if !are_heard() {
        return Span::none();
    }
    debug_span!(target: TARGET, "wait")
}

/// That the store could not be asked about some rule, and what that rule says to it.
pub(crate) fn failed(decision: &Decision) {
    match decision.status {
        Status::Disabled => drop(fallback("open")),
        Status::Unavailable => drop(fallback("deny")),
        Status::Enforced | Status::Local => {}
    }
}
