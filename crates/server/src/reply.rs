//! Answers.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use tidegate_wire::{DecisionBody, ErrorBody};

/// An answer whose body is all there.
pub(crate) type Reply = Response<Full<Bytes>>;

/// Most bodies are smaller, so that writing one seldom has to grow the buffer.
const USUAL_BODY_BYTES: usize = 512;

/// `body` as JSON.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    written(status, HeaderMap::new(), to_json(body))
}

/// `body` as the bytes of its JSON.
pub(crate) fn to_json(body: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL_BODY_BYTES);
    // Our own types, into memory: nothing here can fail but a map with keys that are no texts, and there is none.
    if serde_json::to_writer(&mut bytes, body).is_err() {
        bytes.clear();
    }
    bytes
}

/// A decision, with `headers`.
pub(crate) fn decision(status: StatusCode, headers: HeaderMap, body: &DecisionBody<'_>) -> Reply {
    written(status, headers, to_json(body))
}

fn written(status: StatusCode, headers: HeaderMap, json: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(json.into()));
    *reply.status_mut() = status;
    *reply.headers_mut() = headers;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// `text` as it is.
pub(crate) fn text(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(text.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// What was wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    status: StatusCode,
    body: ErrorBody,
}

impl Wrong {
    /// `error` is a short name for the kind of mistake, `message` says what to do about it.
    pub(crate) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, body: ErrorBody::new(error, message) }
    }

    /// The part of the request it is about.
    pub(crate) fn about(mut self, field: &str) -> Self {
        self.body.field = Some(field.to_owned());
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn message(&self) -> &str {
        &self.body.message
    }

    pub(crate) fn not_found(path: &str) -> Self {
        let path: String = path.chars().take(100).collect();
        let message = format!("there is nothing at {path}; /openapi.json lists what there is");
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }
}

/// A request that cannot be understood.
impl From<ErrorBody> for Wrong {
    fn from(body: ErrorBody) -> Self {
        Self { status: StatusCode::BAD_REQUEST, body }
    }
}

impl From<Wrong> for Reply {
    fn from(wrong: Wrong) -> Self {
        json(wrong.status, &wrong.body)
    }
}

/// The answer to a method that a path does not have.
pub(crate) fn method_not_allowed(allowed: &[&str]) -> Reply {
    let allowed = allowed.join(", ");
    let message = format!("this path answers to {allowed} only");
    let mut reply = Reply::from(Wrong::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        reply.headers_mut().insert(http::header::ALLOW, allowed);
    }
    reply
}
