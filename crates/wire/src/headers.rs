//! The rate limit headers of a response.

use std::str::FromStr;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::header_names::{HeaderNames, HeaderUse};
use tidegate_core::{Algorithm, Decision, RuleSet, Span, Status};

use crate::check::{RETRY_UNAVAILABLE_SECS, wait};
use crate::error::ErrorBody;

/// A family of rate limit headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`.
    XRateLimit,
    /// The IETF draft's `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11).
    Ietf,
}

impl HeaderStyle {
    /// Both, as the configuration names them.
    pub const NAMES: [(&'static str, Self); 2] = [("x-ratelimit", Self::XRateLimit), ("ietf", Self::Ietf)];
}

impl FromStr for HeaderStyle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        known
            .map(|(_, style)| style)
            .ok_or_else(|| format!("`{text}` is not a header style; use x-ratelimit or ietf"))
    }
}

/// Returns the answer to a request with a header whose value begins or ends with white space, if it has one.
///
/// HTTP/1 has such space trimmed and HTTP/2 forbids it (RFC 9113, 8.2.1), but its parsers let it pass. Left there, it would make a value
/// another one: a key with a space would be counted by itself.
pub fn refuse_padded(headers: &HeaderMap) -> Option<ErrorBody> {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let padded =
        |value: &HeaderValue| is_space(value.as_bytes().first()) || is_space(value.as_bytes().last());
    let (name, _) = headers.iter().find(|(_, value)| padded(value))?;
    let message = format!("the value of header {name} begins or ends with white space; send it without");
    Some(ErrorBody::field(name.as_str(), message))
}

/// Returns the answer to a request in which a header that rules read comes more than once with different values, or has a value that is
/// not UTF-8: rules would go by one line, and whoever handles the request by another. `counts` says whether a header is looked at at all.
pub fn refuse_ambiguous(
    headers: &HeaderMap,
    names: &HeaderNames,
    counts: impl Fn(&str) -> bool,
) -> Option<ErrorBody> {
    if names.is_empty() {
        return None;
    }
    let read = headers.keys().filter(|name| names.look_up(name.as_str()) == HeaderUse::Read);
    read.filter(|name| counts(name.as_str())).find_map(|name| {
        let mut values = headers.get_all(name).iter();
        let first = values.next()?;
        let message = if values.any(|value| value != first) {
            format!("header {name} comes more than once with different values; send it once")
        } else if std::str::from_utf8(first.as_bytes()).is_err() {
            format!("the value of header {name} is not UTF-8; send it as text")
        } else {
            return None;
        };
        Some(ErrorBody::field(name.as_str(), message))
    })
}

/// Returns the answer to a request with a header that rules do not look at, but that back ends behind CGI and its descendants take for
/// one that they do: to these, `X_Plan` is `X-Plan`.
pub fn refuse_lookalikes(
    headers: &HeaderMap,
    names: &HeaderNames,
    counts: impl Fn(&str) -> bool,
) -> Option<ErrorBody> {
    if names.is_empty() {
        return None;
    }
    headers.keys().map(HeaderName::as_str).find_map(|name| {
        let HeaderUse::LooksLike(read) = names.look_up(name) else { return None };
        if !counts(name) {
            return None;
        }
        let message = format!("back ends may take header {name} for {read}; send {read}");
        Some(ErrorBody::field(name, message))
    })
}

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const STATUS: HeaderName = HeaderName::from_static("x-ratelimit-status");
const IETF_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const IETF_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Writes what `decision`, taken by `rules`, tells a client into `headers`.
pub fn write(decision: &Decision, rules: &RuleSet, styles: &[HeaderStyle], headers: &mut HeaderMap) {
    tell(decision, rules, styles, |name, value| drop(headers.insert(name, value)));
}

/// Tells the headers one by one, for whoever does not have the response's yet. No name comes twice.
pub fn tell(
    decision: &Decision,
    rules: &RuleSet,
    styles: &[HeaderStyle],
    mut insert: impl FnMut(HeaderName, HeaderValue),
) {
    if decision.status == Status::Disabled {
        insert(STATUS, HeaderValue::from_static("disabled"));
    }
    if decision.status == Status::Unavailable {
        insert(RETRY_AFTER, HeaderValue::from(RETRY_UNAVAILABLE_SECS));
        return;
    }
    let Some(binding) = decision.binding() else { return };
    if !decision.allowed
        && let Some(span) = wait(binding.verdict.retry)
    {
        insert(RETRY_AFTER, HeaderValue::from(span.as_secs_ceil().max(1)));
    }
    for style in styles {
        match style {
            HeaderStyle::XRateLimit => {
                let reset = decision.at + binding.verdict.reset_after;
                let figures =
                    [binding.verdict.quota.limit(), binding.verdict.remaining, reset.as_secs_ceil()];
                for (name, value) in [LIMIT, REMAINING, RESET].into_iter().zip(numbers(figures)) {
                    insert(name, value);
                }
            }
            HeaderStyle::Ietf => ietf(decision, rules, &mut insert),
        }
    }
}

/// Numbers as header values that share one piece of memory: these are written with every answer.
fn numbers<const N: usize>(numbers: [u64; N]) -> [HeaderValue; N] {
    let mut digits = Vec::with_capacity(N * 20);
    let ends = numbers.map(|number| {
        digits.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        digits.len()
    });
    let digits = Bytes::from(digits);
    let mut start = 0;
    ends.map(|end| {
        let value = digits.slice(start..end);
        start = end;
        // Digits are always a header value.
        HeaderValue::from_maybe_shared(value).unwrap_or_else(|_| HeaderValue::from(0))
    })
}

/// Every enforcing rule's policy and standing, as structured-field lists.
fn ietf(decision: &Decision, rules: &RuleSet, insert: &mut impl FnMut(HeaderName, HeaderValue)) {
    let (mut policies, mut limits) = (Vec::new(), Vec::new());
    for said in decision.verdicts.iter().filter(|said| !said.shadow) {
        let (id, verdict) = (&rules.rule(said.rule).id, &said.verdict);
        let limit = verdict.quota.limit();
        policies.push(match verdict.quota.algorithm() {
            Algorithm::InFlight => format!("\"{id}\";q={limit};qu=\"concurrent-requests\""),
            _ => format!("\"{id}\";q={limit};w={}", verdict.quota.window().as_secs_ceil()),
        });
        let wait = wait(verdict.retry).filter(|wait| *wait > Span::ZERO).unwrap_or(verdict.reset_after);
        limits.push(format!("\"{id}\";r={};t={}", verdict.remaining, wait.as_secs_ceil()));
    }
    for (name, list) in [(IETF_POLICY, policies), (IETF_LIMIT, limits)] {
        // A rule id that no header can carry does not get past the rule reader.
        if let Ok(value) = HeaderValue::from_str(&list.join(", ")) {
            insert(name, value);
        }
    }
}
