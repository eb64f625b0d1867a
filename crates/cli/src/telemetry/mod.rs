//! What a node tells of itself as it goes: the log, and traces if they are asked for.

mod export;
mod log;
mod spans;
mod tracer;

use std::sync::Arc;

use opentelemetry_sdk::trace::SdkTracerProvider;
use tidegate_server::{LogHandle, Traces};
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::failure::Failure;
use crate::settings::Settings;
use tracer::Otlp;
pub(crate) use tracer::TraceSettings;

/// The log and the traces of the whole process.
pub(crate) struct Telemetry {
    pub(crate) log: LogHandle,
    pub(crate) traces: Option<Traces>,
    otlp: Option<Arc<Otlp>>,
}

impl Telemetry {
    /// Starts both, within the present Tokio runtime.
    pub(crate) fn start(settings: &Settings) -> Result<Self, Failure> {
        let (lines, control) = log::lines(settings.log, settings.log_level);
        let otlp = settings.traces.as_ref().map(|to| Otlp::start(to).map(Arc::new)).transpose()?;
        let provider = otlp.as_ref().map(|otlp| otlp.provider());
        tracing::subscriber::set_global_default(subscriber(lines, provider))
            .map_err(|error| Failure::Failed(format!("cannot start logging: {error}")))?;
        let traces = otlp.as_ref().zip(settings.traces.as_ref());
        let traces = traces.map(|(otlp, to)| Traces { tracer: Arc::clone(otlp) as _, sample: to.sample });
        Ok(Self { log: LogHandle(Arc::new(control)), traces, otlp })
    }

    /// Sends what spans there are, for as long as that may take.
    pub(crate) async fn end(&self) {
        if let Some(otlp) = &self.otlp {
            otlp.flush().await;
        }
    }
}

/// What hands everything to the log and to traces, each by its own filter.
fn subscriber(
    lines: Box<dyn Layer<Registry> + Send + Sync>,
    provider: Option<&SdkTracerProvider>,
) -> impl Subscriber + Send + Sync + use<> {
    // Without traces there is nobody whom spans could concern, so that making one comes to looking at one number.
    Registry::default().with(lines).with(provider.map(spans::layer))
}

#[cfg(test)]
mod tests {
    use tidegate_server::{LogControl as _, LogLevel};
    use tracing::level_filters::LevelFilter;

    use super::*;
    use crate::options::LogFormat;

    /// What nobody wants to know is found out by looking at one number, whatever the level was before.
    #[test]
    fn only_what_is_asked_for_is_looked_at() {
        for (format, provider) in
            [(LogFormat::Human, None), (LogFormat::Json, Some(SdkTracerProvider::builder().build()))]
        {
            let (lines, control) = log::lines(format, LogLevel::Info);
            let subscriber = subscriber(lines, provider.as_ref());
            let traced = |level: LevelFilter| if provider.is_some() { LevelFilter::DEBUG } else { level };
            assert_eq!(subscriber.max_level_hint(), Some(traced(LevelFilter::INFO)));
            for (level, filter) in [
                (LogLevel::Debug, LevelFilter::DEBUG),
                (LogLevel::Error, LevelFilter::ERROR),
                (LogLevel::Warn, LevelFilter::WARN),
            ] {
                assert!(control.set(level));
                assert_eq!((control.level(), subscriber.max_level_hint()), (level, Some(traced(filter))));
            }
        }
    }
}
