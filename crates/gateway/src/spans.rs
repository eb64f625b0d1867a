//! Spans of requests that pass, for those who trace; what is decided about them has its own.

use http::HeaderMap;
use http::header::HeaderValue;
use tidegate_server::front::Node;
use tidegate_server::traces::{ROOT, TRACEPARENT, TRACESTATE};
use tracing::field::Empty;
use tracing::{Span, debug_span};

/// A request from its head until the head of its answer.
pub(crate) fn gateway() -> Span {
    debug_span!(target: ROOT, "gateway", otel.kind = "server", http.response.status_code = Empty)
}

/// Having it answered by a server, if it is traced.
pub(crate) fn forward() -> Span {
    debug_span!(
        target: tidegate::store::spans::TARGET,
        "forward",
        otel.kind = "client",
        http.response.status_code = Empty,
    )
}

/// Tells the server which trace its part belongs to. What a client said passes as it came if nobody here traces the request.
pub(crate) fn tell(node: &Node, span: &Span, headers: &mut HeaderMap) {
    if span.is_disabled() {
        return;
    }
    let Some((parent, state)) = node.tracer().and_then(|tracer| tracer.context(span)) else { return };
    headers.remove(TRACESTATE);
    if let Ok(state) = HeaderValue::try_from(state)
        && !state.is_empty()
    {
        headers.insert(TRACESTATE, state);
    }
    if let Some(value) = parent.value() {
        headers.insert(TRACEPARENT, value);
    }
}
