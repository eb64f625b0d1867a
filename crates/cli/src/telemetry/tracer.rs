//! Traces over OTLP.

use std::str::FromStr as _;
use std::time::Duration;

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanExporter as _};
use tidegate_server::{SpanFigures, TraceParent, Tracer};
use tonic::transport::ClientTlsConfig;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::export::{PATIENCE, Queue};
use crate::failure::Failure;

/// How long the last spans may take to be sent.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Which traces there are, and where they go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceSettings {
    /// The collector, `http://…` or `https://…`.
    pub(crate) endpoint: String,
    /// The share of requests that is traced if no caller has decided.
    pub(crate) sample: f64,
    /// What this node is called, if not like its machine.
    pub(crate) node: Option<String>,
}

/// The way to a collector.
pub(super) struct Otlp {
    provider: SdkTracerProvider,
    queue: Queue,
}

impl Otlp {
    /// Whether the collector is there need not be known: it is connected to when there is something to send.
    pub(super) fn start(to: &TraceSettings) -> Result<Self, Failure> {
        let mut exporter = exporter(to)
            .map_err(|error| Failure::Usage(format!("spans cannot be sent to `{}`: {error}", to.endpoint)))?;
        let mut about = vec![KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
        let node = to.node.clone().or_else(machine);
        about.extend(node.map(|node| KeyValue::new("service.instance.id", node)));
        let resource = Resource::builder_empty().with_service_name("tidegate").with_attributes(about).build();
        exporter.set_resource(&resource);
        let queue = Queue::start(exporter);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue.clone())
            .with_resource(resource)
            // Which requests are traced has been decided before there is a span.
            .with_sampler(Sampler::AlwaysOn)
            .build();
        Ok(Self { provider, queue })
    }

    pub(super) fn provider(&self) -> &SdkTracerProvider {
        &self.provider
    }

    pub(super) async fn flush(&self) {
        self.queue.flush(LAST_WORDS).await;
    }
}

/// What the machine is called.
#[cfg(unix)]
fn machine() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(not(unix))]
fn machine() -> Option<String> {
    None
}

fn exporter(to: &TraceSettings) -> Result<SpanExporter, ExporterBuildError> {
    let mut exporter =
        SpanExporter::builder().with_tonic().with_endpoint(&to.endpoint).with_timeout(PATIENCE);
    if to.endpoint.starts_with("https:") {
        exporter = exporter.with_tls_config(ClientTlsConfig::new().with_native_roots());
    }
    exporter.build()
}

impl Tracer for Otlp {
    fn follow(&self, span: &Span, parent: &TraceParent, state: &str) {
        let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        // What cannot be read is nothing that others need.
        let state = TraceState::from_str(state).unwrap_or_default();
        let (trace, from) = (TraceId::from_bytes(parent.trace), SpanId::from_bytes(parent.span));
        let remote = SpanContext::new(trace, from, flags, true, state);
        // Without a layer that collects spans there is nothing to follow.
        span.set_parent(Context::new().with_remote_span_context(remote)).ok();
    }

    fn context(&self, span: &Span) -> Option<(TraceParent, String)> {
        let context = span.context();
        let span = context.span();
        let context = span.span_context();
        context.is_valid().then(|| {
            let parent = TraceParent {
                trace: context.trace_id().to_bytes(),
                span: context.span_id().to_bytes(),
                sampled: context.is_sampled(),
            };
            (parent, context.trace_state().header())
        })
    }

    fn figures(&self) -> SpanFigures {
        self.queue.counts.figures()
    }
}
