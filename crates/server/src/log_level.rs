//! How much is logged, which can change while the node runs.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much is logged: what went wrong for good, what may go wrong, what changed, what helps to find out why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What went wrong for good.
    Error,
    /// That, and what may go wrong.
    Warn,
    /// That, and what changed.
    #[default]
    Info,
    /// That, and what helps to find out why.
    Debug,
}

impl LogLevel {
    /// The name used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// Whoever has the log in hand: the program that the server is part of.
pub trait LogControl: Send + Sync {
    /// How much is logged now.
    fn level(&self) -> LogLevel;

    /// Logs so much from now on; false if that cannot be done any more.
    fn set(&self, level: LogLevel) -> bool;
}

/// A log whose level can be changed.
#[derive(Clone)]
pub struct LogHandle(pub Arc<dyn LogControl>);

impl fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogHandle").field(&self.0.level()).finish()
    }
}
