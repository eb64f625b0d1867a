//! What is known about who asks.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use tidegate_core::Request;

use super::certificate::ClientName;
use crate::forwarded::Sayings;

/// Longest name of a user, tenant, tier or plan, in bytes.
const MAX_NAME_BYTES: usize = 1_024;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub ip: IpAddr,
    /// The names in the certificate it has shown, which has been verified.
    pub certificate: Option<Arc<ClientName>>,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// What back ends are told about it again and again.
    pub(crate) sayings: Sayings,
}

impl Peer {
    /// Somebody at `ip` of whom nothing else is known.
    pub fn plain(ip: IpAddr) -> Self {
        Self { ip, certificate: None, tls: false, sayings: Sayings::default() }
    }
}

/// A text of the request itself, or one that is shared with other requests: neither is copied.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Part of the request.
    Borrowed(&'a str),
    /// Kept for all requests of the same client.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// The same, for longer than the request.
    pub fn into_shared(self) -> Arc<str> {
        match self {
            Self::Borrowed(text) => text.into(),
            Self::Shared(text) => text,
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl<'a> From<Cow<'a, str>> for Text<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Borrowed(text),
            Cow::Owned(text) => Self::Shared(text.into()),
        }
    }
}

/// Where a user's name comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// Nothing says who it is.
    #[default]
    Nobody,
    /// The certificate of the connection.
    Certificate,
    /// A token that was verified.
    Token,
    /// A key that is known.
    ApiKey,
    /// A trusted proxy's word.
    Header,
}

/// Who asks.
#[derive(Clone)]
pub struct Who<'a> {
    /// The user; present means authenticated.
    pub user: Option<Text<'a>>,
    /// Who the user belongs to.
    pub tenant: Option<Text<'a>>,
    /// Name of the user's tier or plan.
    pub tier: Option<Text<'a>>,
    /// Name of the tenant's plan or tier.
    pub plan: Option<Text<'a>>,
    /// The API key that was sent.
    pub api_key: Option<Text<'a>>,
    /// What a trusted proxy calls this request.
    pub request_id: Option<Text<'a>>,
    /// The client's address.
    pub ip: IpAddr,
    /// What says so.
    pub how: How,
}

impl<'a> Who<'a> {
    /// Somebody at `ip` of whom nothing else is known.
    pub fn nobody(ip: IpAddr) -> Self {
        Self {
            user: None,
            tenant: None,
            tier: None,
            plan: None,
            api_key: None,
            request_id: None,
            ip,
            how: How::Nobody,
        }
    }

    /// `request` with who asks for it.
    pub fn describe<'r>(&'r self, request: Request<'r>) -> Request<'r> {
        Request {
            user: self.user.as_deref(),
            tenant: self.tenant.as_deref(),
            tier: self.tier.as_deref(),
            plan: self.plan.as_deref(),
            api_key: self.api_key.as_deref(),
            request_id: self.request_id.as_deref(),
            ip: Some(self.ip),
            ..request
        }
    }

    /// The same, for longer than the request.
    pub fn into_static(self) -> Who<'static> {
        let shared = |text: Option<Text<'a>>| text.map(|text| Text::Shared(text.into_shared()));
        Who {
            user: shared(self.user),
            tenant: shared(self.tenant),
            tier: shared(self.tier),
            plan: shared(self.plan),
            api_key: shared(self.api_key),
            request_id: shared(self.request_id),
            ip: self.ip,
            how: self.how,
        }
    }
}

/// Leaves out the key.
impl fmt::Debug for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Who")
            .field("user", &self.user)
            .field("tenant", &self.tenant)
            .field("tier", &self.tier)
            .field("plan", &self.plan)
            .field("api_key", &self.api_key.is_some())
            .field("request_id", &self.request_id)
            .field("ip", &self.ip)
            .field("how", &self.how)
            .finish()
    }
}

/// Why a request is answered without being counted or forwarded. Nothing in it comes from the request.
#[derive(Clone, Debug)]
pub struct NotAdmitted {
    /// The status of the answer.
    pub status: StatusCode,
    /// A short name for what is wrong.
    pub error: &'static str,
    /// What is wrong and what to do about it.
    pub message: Cow<'static, str>,
    /// What to show instead, if it was not accepted.
    pub www_authenticate: Option<HeaderValue>,
    /// After how many seconds to try again, if that helps.
    pub retry_after: Option<u64>,
}

impl NotAdmitted {
    /// A token that proves nothing.
    pub(super) fn token(message: impl Into<Cow<'static, str>>) -> Self {
        let asks = HeaderValue::from_static(r#"Bearer error="invalid_token""#);
        Self {
            status: StatusCode::UNAUTHORIZED,
            error: "invalid_token",
            message: message.into(),
            www_authenticate: Some(asks),
            retry_after: None,
        }
    }

    /// An API key that nobody has.
    pub(super) fn api_key() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            error: "invalid_api_key",
            message: "the API key is not known; send one that is".into(),
            www_authenticate: Some(HeaderValue::from_static("ApiKey")),
            retry_after: None,
        }
    }

    /// A request that can be understood in more than one way, or in none.
    pub(super) fn request(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error: "invalid_request",
            message: message.into(),
            www_authenticate: None,
            retry_after: None,
        }
    }

    /// An address that has shown too much that was not good.
    pub(super) fn too_many_failures(retry_after: u64) -> Self {
        let message = "too many tokens or API keys from your address were not accepted; try again later, with one that is good";
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            error: "too_many_failures",
            message: message.into(),
            www_authenticate: None,
            retry_after: Some(retry_after),
        }
    }

    /// Something that is needed to find out is not there yet.
    pub(super) fn not_yet() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            error: "keys_unavailable",
            message: "the keys that tokens are verified with are not there yet; try again later".into(),
            www_authenticate: None,
            retry_after: None,
        }
    }
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.message)
    }
}

impl std::error::Error for NotAdmitted {}

/// Whether a name means the same to everybody who reads it out of a header: spaces around it would be lost on the way to
/// the back end, and what is left may be somebody else's name.
pub(super) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.trim() == text && !text.contains(char::is_control)
}
