//! The log: what changed, on standard error, for people or for programs.

use parking_lot::Mutex;
use tidegate::store::spans;
use tidegate_server::{LogControl, LogLevel};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::options::LogFormat;

/// What writes lines, and what says how many.
pub(super) fn lines(format: LogFormat, level: LogLevel) -> (Box<dyn Layer<Registry> + Send + Sync>, Control) {
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let lines = match format {
        LogFormat::Human => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let (filter, handle) = reload::Layer::new(own(level));
    (lines.with_filter(filter).boxed(), Control { handle, level: Mutex::new(level) })
}

/// What libraries have to say is of use to those who work on them, and spans are no part of the log.
fn own(level: LogLevel) -> Targets {
    Targets::new().with_target("tidegate", filter(level)).with_target(spans::TARGET, LevelFilter::OFF)
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// Changes how much is logged.
pub(super) struct Control {
    handle: reload::Handle<Targets, Registry>,
    level: Mutex<LogLevel>,
}

impl LogControl for Control {
    fn level(&self) -> LogLevel {
        *self.level.lock()
    }

    fn set(&self, level: LogLevel) -> bool {
        let mut now = self.level.lock();
        let is_set = self.handle.reload(own(level)).is_ok();
        if is_set {
            *now = level;
        }
        is_set
    }
}
