//! From the spans in the code to those of OpenTelemetry.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tidegate::store::spans::TARGET;
use tidegate_server::traces::ROOT;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// What hands spans to `provider`: those that begin a trace, and those within one.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> Filtered<OpenTelemetryLayer<S, SdkTracer>, Traced, S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    // Where in the code and on which thread something happened tells operators nothing.
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("tidegate"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        .with_filter(Traced)
}

/// Lets spans of a decision come to be only within a trace: all others are of requests that nobody traces.
pub(super) struct Traced;

impl<S> Filter<S> for Traced
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn enabled(&self, metadata: &Metadata<'_>, cx: &Context<'_, S>) -> bool {
        metadata.is_span()
            && (metadata.target() == ROOT || metadata.target() == TARGET && cx.lookup_current().is_some())
    }

    /// Nothing else is ever of interest, so that the log costs what it did.
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.target() {
            ROOT if metadata.is_span() => Interest::always(),
            TARGET if metadata.is_span() => Interest::sometimes(),
            _ => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}
