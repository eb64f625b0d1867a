//! Fetching a set of keys over HTTP.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, StatusCode};
use tidegate_server::WrittenDown;

use super::follow::MAX_SET_BYTES;

/// Where a set of keys is.
pub(super) struct SetUrl(WrittenDown);

impl SetUrl {
    pub(super) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, String> {
        WrittenDown::new("the keys' address", url, authorities).map(Self)
    }

    /// What is there, if it comes in time and is not too large.
    pub(super) async fn fetch(&self, patience: Duration) -> Result<Vec<u8>, String> {
        let request = Request::get("/").header(ACCEPT, "application/jwk-set+json, application/json");
        match self.0.send(request, "", MAX_SET_BYTES, patience).await? {
            (StatusCode::OK, keys) => Ok(keys.to_vec()),
            (status, _) => Err(format!("the answer is {status}; give an address that answers with 200")),
        }
    }
}

/// Leaves out the query, in which there may be a secret.
impl fmt::Display for SetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.0.path())
    }
}
