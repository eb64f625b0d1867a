//! What pages and the browser say on the console.

use serde_json::Value;

/// One message on the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleMessage {
    /// `SEVERE` for errors, `WARNING`, `INFO` or `DEBUG`.
    pub level: String,
    /// Who says it: `console-api` for scripts; `javascript` for errors nobody caught, `network` for what could not be loaded,
    /// `security` for what a policy forbids, and others.
    pub source: String,
    /// Where in the page, and what.
    pub text: String,
}

impl ConsoleMessage {
    pub(super) fn from_log(entry: &Value) -> Self {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        Self { level: text("level"), source: text("source"), text: text("message") }
    }

    /// Whether something went wrong.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.level == "SEVERE"
    }
}
