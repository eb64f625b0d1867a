//! `GET /` for programs: what there is.

use http::StatusCode;

use crate::openapi;
use crate::reply::{self, Reply};

/// A line for each endpoint of this listener, from the API description.
pub(super) fn show() -> Reply {
    let mut text = format!("Tidegate {}, admin listener\n\n", env!("CARGO_PKG_VERSION"));
    for (path, method) in super::routes() {
        let summary = openapi::summary(path, method).unwrap_or_default();
        text.push_str(&format!("{method:<5} {path:<22} {summary}\n"));
    }
    reply::text(StatusCode::OK, "text/plain; charset=utf-8", text)
}
