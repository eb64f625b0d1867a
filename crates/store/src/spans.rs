//! Spans of what a decision goes through, for those who trace.
//!
//! All are of one target, [`TARGET`], by which whoever collects spans tells them from the log. Where nobody does, making one is
//! to look at one number. They carry no identity: who is counted is nobody's business but the store's.

use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Span, debug_span};

use crate::{Outcome, Outcomes};

/// What spans within a decision are called by in filters.
pub const TARGET: &str = "tidegate::span";

/// The span on one node that something is done for on another: what a trace goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The trace; never all zeros.
    pub trace: [u8; 16],
    /// The span; never all zeros.
    pub span: [u8; 8],
}

/// Whether anybody may listen. To make a span that nobody does takes a few looks more than this one.
#[inline]
pub fn are_heard() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// A group on its way to where its counters are, which is called `shard`, until its outcome is there.
#[inline]
pub fn store(shard: &str, operations: usize) -> Span {
    // Kept out of the way of decisions that have none.
    #[cold]
    fn heard(shard: &str, operations: usize) -> Span {
        debug_span!(
            target: TARGET,
            "store",
            otel.kind = "client",
            tidegate.shard = shard,
            tidegate.operations = operations,
            tidegate.outcome = Empty,
            tidegate.failure = Empty,
        )
    }
    if are_heard() { heard(shard, operations) } else { Span::none() }
}

/// Another node being asked for something.
#[inline]
pub fn peer(node: u64, asked: &'static str) -> Span {
    if !are_heard() {
        return Span::none();
    }
    debug_span!(
        target: TARGET,
        "peer",
        otel.kind = "client",
        tidegate.node = format_args!("{node:016x}"),
        tidegate.asked = asked,
        tidegate.outcome = Empty,
        tidegate.failure = Empty,
    )
}

/// A decision without the store, and how: `local`, `owner`, `open` or `deny`.
#[inline]
pub fn fallback(how: &'static str) -> Span {
    if !are_heard() {
        return Span::none();
    }
    debug_span!(target: TARGET, "fallback", tidegate.how = how, tidegate.outcome = Empty, tidegate.failure = Empty)
}

/// Says in `span` what became of its group.
pub fn record(span: &Span, outcomes: &Outcomes) {
    if span.is_disabled() {
        return;
    }
    let failure = outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Unavailable(failure) => Some(("unavailable", *failure)),
        Outcome::Unknown(failure) => Some(("unknown", *failure)),
        _ => None,
    });
    let refuses = |outcome: &Outcome| outcome.verdict().is_some_and(|verdict| !verdict.allowed);
    match failure {
        Some((outcome, failure)) => {
            span.record("tidegate.outcome", outcome);
            span.record("tidegate.failure", failure.name());
        }
        None if outcomes.iter().any(refuses) => drop(span.record("tidegate.outcome", "refused")),
        None => drop(span.record("tidegate.outcome", "allowed")),
    }
}
