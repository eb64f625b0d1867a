//! Traces: which requests have one, and what their spans say.
//!
//! Whether a request is traced is decided before anything is made for it. Only then is there a root span, and only within that do
//! the spans of [`tidegate::store::spans`] come to be. How they get to a collector is the business of whoever embeds the server: a
//! [`Tracer`].

mod context;
mod sampler;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::HeaderMap;
use tidegate::store::spans::{self, Origin};
use tidegate::{Decision, RuleSet, Status};
use tracing::Span;
use tracing::field::Empty;

pub use context::{TRACEPARENT, TRACESTATE, TraceParent};
use sampler::Sampler;

/// What spans that a trace begins with on this node are called by in filters; all others only come to be within one.
pub const ROOT: &str = "tidegate::span::root";

/// The share of requests that is traced unless told otherwise.
pub const DEFAULT_TRACE_SAMPLE: f64 = 0.01;

/// Where spans go.
pub trait Tracer: Send + Sync {
    /// Makes `span`, which has just begun, part of the trace of a caller. `state` is what others have to say about it.
    fn follow(&self, span: &Span, parent: &TraceParent, state: &str);

    /// What to tell those who are asked next from within `span`, if it is recorded; with what others have to say about its trace.
    fn context(&self, span: &Span) -> Option<(TraceParent, String)>;

    /// What became of spans.
    fn figures(&self) -> SpanFigures;
}

/// What became of spans, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanFigures {
    /// A collector took them.
    pub exported: u64,
    /// There was no room for them while they waited.
    pub dropped: u64,
    /// No collector took them.
    pub failed: u64,
}

/// That some requests are traced.
#[derive(Clone)]
pub struct Traces {
    /// Where spans go.
    pub tracer: Arc<dyn Tracer>,
    /// The share of requests, 0 to 1, that is traced if no caller has decided.
    pub sample: f64,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("sample", &self.sample).finish_non_exhaustive()
    }
}

/// A node's traces.
pub(crate) struct Tracing {
    pub(crate) tracer: Arc<dyn Tracer>,
    sampler: Sampler,
    start: Instant,
    /// Of a generator.
    state: AtomicU64,
}

impl Tracing {
    pub(crate) fn new(traces: &Traces) -> Self {
        let state = AtomicU64::new(RandomState::new().hash_one(0));
        let sampler = Sampler::new(traces.sample);
        Self { tracer: Arc::clone(&traces.tracer), sampler, start: Instant::now(), state }
    }

    /// The span that `make` makes, if a request with these headers is traced. What they say about traces counts if whoever sent
    /// them is `trusted`: others could have everything traced.
    pub(crate) fn begin(&self, trusted: bool, headers: &HeaderMap, make: fn() -> Span) -> Option<Span> {
        let parent = if trusted { TraceParent::read(headers) } else { None };
        if !self.takes(parent.map(|parent| parent.sampled)) {
            return None;
        }
        let span = make();
        if let Some(parent) = parent {
            self.tracer.follow(&span, &parent, &context::state(headers));
        }
        Some(span)
    }

    /// The span of what another node asks for, which traces it.
    pub(crate) fn go_on(&self, Origin { trace, span }: Origin, asked: &'static str) -> Option<Span> {
        if !self.takes(Some(true)) {
            return None;
        }
        let answer = answer(asked);
        self.tracer.follow(&answer, &TraceParent { trace, span, sampled: true }, "");
        Some(answer)
    }

    fn takes(&self, decided: Option<bool>) -> bool {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.sampler.takes(decided, self.draw(), now)
    }

    /// SplitMix64: any start gives a good sequence.
    fn draw(&self) -> u64 {
        let state = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The name of the span that says what was decided.
const CHECK: &str = "check";

/// The span of one decision that a trace begins with here.
pub(crate) fn check() -> Span {
    tracing::debug_span!(
        target: ROOT,
        "check",
        otel.kind = "server",
        tidegate.outcome = Empty,
        tidegate.status = Empty,
        tidegate.rule = Empty,
        tidegate.rules_version = Empty,
    )
}

/// The same for one that is part of something else, if that is traced.
pub fn check_within() -> Span {
    if !spans::are_heard() {
        return Span::none();
    }
    tracing::debug_span!(
        target: spans::TARGET,
        "check",
        tidegate.outcome = Empty,
        tidegate.status = Empty,
        tidegate.rule = Empty,
        tidegate.rules_version = Empty,
    )
}

/// The span of many decisions. There are none within: a thousand items would be thousands of spans.
pub(crate) fn batch() -> Span {
    tracing::debug_span!(target: ROOT, "batch", otel.kind = "server", tidegate.items = Empty)
}

/// The span of what is done for another node.
fn answer(asked: &'static str) -> Span {
    tracing::debug_span!(target: ROOT, "answer", otel.kind = "server", tidegate.asked = asked)
}

/// Says in the present span what was decided, if it is one of a decision.
pub(crate) fn note(decision: &Decision, rules: &RuleSet) {
    let span = Span::current();
    if span.metadata().is_none_or(|metadata| metadata.name() != CHECK) {
        return;
    }
    let outcome = match (decision.status, decision.allowed) {
        (Status::Disabled, true) => "failed_open",
        (Status::Unavailable, _) => "unavailable",
        (_, true) => "allowed",
        (_, false) => "refused",
    };
    span.record("tidegate.outcome", outcome);
    span.record("tidegate.status", decision.status.name());
    if let Some(rule) = decision.binding_rule(rules) {
        span.record("tidegate.rule", rule);
    }
    span.record("tidegate.rules_version", rules.version());
}
