//! The log: what changed, on standard error, for people or for programs.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::failure::Failure;
use crate::options::{LogFormat, LogLevel};

/// Starts logging for the whole process.
pub(crate) fn start(format: LogFormat, level: LogLevel) -> Result<(), Failure> {
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let lines = match format {
        LogFormat::Human => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // What libraries have to say is of use to those who work on them.
    let own = Targets::new().with_target("tidegate", filter(level));
    let subscriber = Registry::default().with(lines.with_filter(own));
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| Failure::Failed(format!("cannot start logging: {error}")))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}
