//! Commands that only Chromium's driver has.

use fantoccini::wd::WebDriverCompatibleCommand;
use http::Method;
use serde_json::Value;
use url::{ParseError, Url};

/// Something posted to a path below the session's.
#[derive(Debug)]
pub(super) struct Raw {
    path: &'static str,
    body: String,
}

impl Raw {
    #[expect(clippy::needless_pass_by_value, reason = "bodies are written at the call")]
    pub(super) fn new(path: &'static str, body: Value) -> Self {
        Self { path, body: body.to_string() }
    }
}

impl WebDriverCompatibleCommand for Raw {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.clone()))
    }
}
