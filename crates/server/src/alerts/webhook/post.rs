//! Posting, and what it means if that does not work.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};

use crate::written_down::WrittenDown;

/// Why it did not work.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) why: String,
    /// Whether the same would not work later, either.
    pub(super) is_final: bool,
}

/// Posts a body of JSON, and says whether it was taken. What the answer says is not read: there is nothing in it to go by.
pub(super) async fn post(to: &WrittenDown, body: &str, patience: Duration) -> Result<(), Failed> {
    let request = Request::post("/").header(CONTENT_TYPE, "application/json");
    let (status, _) = to
        .send(request, body.to_owned(), 0, patience)
        .await
        .map_err(|why| Failed { why, is_final: false })?;
    if status.is_success() {
        return Ok(());
    }
    let later = status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT;
    Err(Failed { why: format!("the answer is {status}"), is_final: !later })
}
