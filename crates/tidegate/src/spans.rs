//! Spans of what the limiter does, for those who trace; see [`tidegate_store::spans`].

use std::mem;

use tidegate_core::{Decision, Status};
use tidegate_store::spans::{TARGET, are_heard, fallback, store};
use tracing::field::Empty;
use tracing::{Span, debug_span};

// Whatever it takes to make a span is kept out of the way of decisions that have none.

/// Finding the rules that match, and who a request is to each.
#[inline]
pub(crate) fn matching() -> Span {
    #[cold]
    fn heard() -> Span {
        debug_span!(target: TARGET, "match", tidegate.rules = Empty, tidegate.rules_version = Empty)
    }
    if are_heard() { heard() } else { Span::none() }
}

/// Ends it: so many rules of the set of a version do.
#[inline]
pub(crate) fn matched(span: Span, rules: usize, version: u64) {
    end(span, |span| {
        span.record("tidegate.rules", rules);
        span.record("tidegate.rules_version", version);
    });
}

/// Counting in this process.
#[inline]
pub(crate) fn memory(operations: usize) -> Span {
    store("memory", operations)
}

/// Ends it, with what came of it.
#[inline]
pub(crate) fn counted(span: Span, decision: &Decision) {
    end(span, |span| {
        span.record("tidegate.outcome", if decision.allowed { "allowed" } else { "refused" });
    });
}

#[inline]
fn end(span: Span, say: impl FnOnce(&Span)) {
    #[cold]
    fn heard(span: &Span, say: impl FnOnce(&Span)) {
        say(span);
    }
    if span.is_disabled() {
        // There is nothing in it that would have to be dropped.
        mem::forget(span);
    } else {
        heard(&span, say);
    }
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
