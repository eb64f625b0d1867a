//! What the gateway says itself: refusals, and that something went wrong.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body as _;
use serde::Serialize;
use tidegate_wire::RefusalBody;

use crate::body::Answer;
use crate::identity::NotAdmitted;

/// How refusals are written for clients that do not ask for plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalFormat {
    /// `error`, `message`, `retry_after` and `documentation_url`.
    #[default]
    Json,
    /// Problem details (RFC 9457).
    Problem,
}

/// What a client is told about limits.
pub(crate) type Limits = Vec<(HeaderName, HeaderValue)>;

/// In which form a client wants to be answered.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    accept: Option<HeaderValue>,
    content_type: Option<HeaderValue>,
}

impl Wants {
    /// What the headers of a request say of it.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self { accept: headers.get(ACCEPT).cloned(), content_type: headers.get(CONTENT_TYPE).cloned() }
    }
}

/// Something that the gateway says itself.
#[derive(Debug)]
pub(crate) struct Own<'a> {
    pub(crate) status: StatusCode,
    /// A short name for what happened.
    pub(crate) error: &'static str,
    /// What happened, and what to do about it.
    pub(crate) message: Cow<'a, str>,
    retry_after: Option<u64>,
    documentation_url: Option<&'a str>,
    headers: Box<HeaderMap>,
}

impl<'a> Own<'a> {
    pub(crate) fn new(status: StatusCode, error: &'static str, message: impl Into<Cow<'a, str>>) -> Self {
        let message = message.into();
        Self { status, error, message, retry_after: None, documentation_url: None, headers: Box::default() }
    }

    pub(crate) fn bad_request(error: &'static str, message: impl Into<Cow<'a, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, message)
    }

    /// A refusal for limits, with the headers that tell of them.
    pub(crate) fn refusal(status: StatusCode, body: RefusalBody<'a>, limits: Limits) -> Self {
        let RefusalBody { error, message, retry_after, documentation_url } = body;
        Self {
            status,
            error,
            message: message.into(),
            retry_after,
            documentation_url,
            headers: Box::new(limits.into_iter().collect()),
        }
    }

    /// With these headers besides.
    pub(crate) fn with(mut self, headers: Limits) -> Self {
        self.headers.extend(headers);
        self
    }

    /// With the number of seconds after which to retry.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        Self { retry_after: Some(seconds), ..self }
    }

    /// With the methods that would do.
    pub(crate) fn allow(mut self, methods: &'static str) -> Self {
        self.headers.insert(ALLOW, HeaderValue::from_static(methods));
        self
    }

    /// With nothing to come after it on its connection.
    pub(crate) fn close(mut self) -> Self {
        self.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        self
    }

    /// With what a client must show.
    pub(crate) fn authenticate(mut self, challenge: Option<HeaderValue>) -> Self {
        self.headers.extend(challenge.map(|challenge| (WWW_AUTHENTICATE, challenge)));
        self
    }

    /// Writes it for a client that wants it so.
    pub(crate) fn write(self, asked: &Wants, format: RefusalFormat) -> Response<Answer> {
        let (content_type, body) = match Form::of(asked, format) {
            Form::Grpc => return self.grpc(),
            Form::Text => ("text/plain; charset=utf-8", format!("{}\n", self.message).into_bytes()),
            Form::Json => ("application/json", self.json()),
            Form::Problem => ("application/problem+json", self.problem()),
        };
        let mut response = Response::new(Answer::Own(Full::new(Bytes::from(body)), None));
        *response.status_mut() = self.status;
        *response.headers_mut() = *self.headers;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }

    fn json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'b> {
            error: &'b str,
            message: &'b str,
            retry_after: Option<u64>,
            documentation_url: Option<&'b str>,
        }
        let Self { error, message, retry_after, documentation_url, .. } = self;
        to_json(&Body { error, message, retry_after: *retry_after, documentation_url: *documentation_url })
    }

    fn problem(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'b> {
            r#type: &'b str,
            title: &'b str,
            status: u16,
            detail: &'b str,
            error: &'b str,
            retry_after: Option<u64>,
        }
        to_json(&Body {
            r#type: self.documentation_url.unwrap_or("about:blank"),
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.message,
            error: self.error,
            retry_after: self.retry_after,
        })
    }

    /// Whoever calls by gRPC looks for the outcome in its own place.
    fn grpc(self) -> Response<Answer> {
        let code = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "8",
            StatusCode::UNAUTHORIZED => "16",
            StatusCode::FORBIDDEN => "7",
            StatusCode::NOT_FOUND => "12",
            StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => "4",
            status if status.is_server_error() => "14",
            _ => "13",
        };
        let mut response = Response::new(Answer::Own(Full::default(), None));
        *response.headers_mut() = *self.headers;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static(code));
        if let Ok(message) = HeaderValue::from_str(&percent_encoded(&self.message)) {
            headers.insert("grpc-message", message);
        }
        response
    }
}

impl From<NotAdmitted> for Own<'_> {
    fn from(refused: NotAdmitted) -> Self {
        let NotAdmitted { status, error, message, www_authenticate, retry_after } = refused;
        let own = Self::new(status, error, message).authenticate(www_authenticate);
        match retry_after {
            Some(seconds) => own.retry_after(seconds),
            None => own,
        }
    }
}

/// Makes it the answer to a HEAD: hyper leaves bodies out by itself over HTTP/1.1, but not over HTTP/2.
pub(crate) fn leave_out_body(answer: &mut Response<Answer>) {
    let length = answer.body().size_hint().exact();
    answer.headers_mut().extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
    *answer.body_mut() = Answer::Own(Full::default(), None);
}

/// As gRPC wants messages: ASCII, with `%` before what is not.
fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").unwrap_or_default(),
        }
        out
    })
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    // Texts and numbers can always be written.
    serde_json::to_vec(body).unwrap_or_default()
}

/// In which form a client wants to hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Problem,
    Text,
    Grpc,
}

impl Form {
    fn of(asked: &Wants, format: RefusalFormat) -> Self {
        let grpc =
            asked.content_type.as_ref().is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let usual = match format {
            _ if grpc => return Self::Grpc,
            RefusalFormat::Json => Self::Json,
            RefusalFormat::Problem => Self::Problem,
        };
        let Some(accept) = asked.accept.as_ref().and_then(|accept| accept.to_str().ok()) else {
            return usual;
        };
        let preferred = |names: &[&str]| -> u32 {
            let weights = accept.split(',').filter_map(|item| weight(item, names));
            weights.max().unwrap_or_default()
        };
        // Only who asks for it by name; whoever takes anything takes what there usually is.
        let text = preferred(&["text/plain", "text/*"]);
        let json = preferred(&["application/json", "application/problem+json", "application/*"]);
        if text > json { Self::Text } else { usual }
    }
}

/// How much an item of `Accept` wants one of `names`, in thousandths.
fn weight(item: &str, names: &[&str]) -> Option<u32> {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next()?;
    if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let Some(quality) = quality else { return Some(1_000) };
    let (whole, rest) = quality.split_once('.').unwrap_or((quality, ""));
    let thousandths = format!("{rest:0<3}").get(..3)?.parse::<u32>().ok()?;
    Some((whole.parse::<u32>().ok()? * 1_000 + thousandths).min(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str, format: RefusalFormat) -> Form {
        let mut asked = HeaderMap::new();
        asked.insert(ACCEPT, accept.parse().unwrap());
        Form::of(&Wants::of(&asked), format)
    }

    #[test]
    fn the_client_says_in_which_form() {
        use RefusalFormat::{Json, Problem};
        for (accept, expected) in [
            ("*/*", Form::Json),
            ("text/plain", Form::Text),
            ("text/*", Form::Text),
            ("TEXT/PLAIN;q=0.5", Form::Text),
            ("text/plain, application/json", Form::Json),
            ("text/plain;q=0.9, application/json;q=0.8", Form::Text),
            ("text/plain;q=0.8, application/json", Form::Json),
            ("text/plain;q=0", Form::Json),
            ("text/plain;q=x", Form::Json),
            ("text/plain;q=99999999999", Form::Json),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Form::Json),
            ("", Form::Json),
        ] {
            assert_eq!(form(accept, Json), expected, "{accept}");
        }
        assert_eq!(form("*/*", Problem), Form::Problem);
        assert_eq!(Form::of(&Wants::default(), Problem), Form::Problem);
        let mut grpc = HeaderMap::new();
        grpc.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
        assert_eq!(Form::of(&Wants::of(&grpc), Json), Form::Grpc);
    }

    #[test]
    fn a_message_for_grpc_fits_into_a_header() {
        assert_eq!(percent_encoded("100 % of caf\u{e9}\n"), "100 %25 of caf%C3%A9%0A");
    }
}
