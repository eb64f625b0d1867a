//! `envoy.service.ratelimit.v3`: what Envoy asks, and what it is told.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use prost::Message;
use prost_types::Duration;
use smallvec::SmallVec;
use tidegate_core::descriptor::{Descriptor, DescriptorDecision, Entry, Hits, Said};
use tidegate_core::{Algorithm, Quota, RuleSet, Span, Verdict};

use crate::HeaderStyle;
use crate::error::ErrorBody;
use crate::headers;
use crate::refusal::RefusalBody;

use super::protobuf::envoy::config::core::v3::HeaderValue;
use super::protobuf::envoy::service::ratelimit::v3::RateLimitResponse;
use super::protobuf::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::protobuf::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};

/// The most descriptors of a request: proxies send a handful.
pub const MAX_DESCRIPTORS: usize = 256;

/// The most entries of a descriptor.
pub const MAX_ENTRIES: usize = 64;

/// What is left of no limit at all.
const ENDLESS: u32 = u32::MAX;

/// `RateLimitRequest` as it is read: its texts stay where they are, and need not have been text.
///
/// A proxy may pass on a header that is not UTF-8. Were that an error, whoever sends such a header would pass
/// unlimited wherever errors let requests pass.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitAsked {
    #[prost(bytes = "bytes", tag = "1")]
    domain: Bytes,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<DescriptorAsked>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct DescriptorAsked {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<EntryAsked>,
    #[prost(message, optional, tag = "2")]
    limit: Option<LimitAsked>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
struct EntryAsked {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LimitAsked {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
}

impl RateLimitAsked {
    /// Reads a message. What is no message at all is told in words; what is no text in it is mended.
    pub fn read(message: Bytes) -> Result<Self, ErrorBody> {
        let mut asked = Self::decode(message).map_err(|error| {
            ErrorBody::new("invalid_request", format!("this is not a RateLimitRequest: {error}"))
        })?;
        mend(&mut asked.domain);
        for entry in asked.descriptors.iter_mut().flat_map(|descriptor| &mut descriptor.entries) {
            mend(&mut entry.key);
            mend(&mut entry.value);
        }
        Ok(asked)
    }

    /// What is asked: the domain, and the descriptors to be decided on, or what is wrong with them.
    pub fn asked(&self) -> Result<(&str, Descriptors<'_>), ErrorBody> {
        let domain = text(&self.domain);
        let descriptors = self.descriptors.iter().map(|descriptor| RawDescriptor {
            entries: descriptor.entries.iter().map(EntryAsked::texts).collect(),
            limit: descriptor.limit.clone(),
            hits: descriptor.hits_addend,
            is_negative: descriptor.is_negative_hits,
        });
        Ok((domain, check(domain, descriptors, self.hits_addend)?))
    }
}

impl EntryAsked {
    fn texts(&self) -> Entry<'_> {
        Entry { key: text(&self.key), value: text(&self.value) }
    }
}

/// Makes a text of what should be one.
fn mend(bytes: &mut Bytes) {
    if let Cow::Owned(mended) = String::from_utf8_lossy(bytes) {
        *bytes = mended.into();
    }
}

/// A text that has been mended.
fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The descriptors of a request.
pub type Descriptors<'a> = SmallVec<[Descriptor<'a>; 2]>;

/// A descriptor that nobody has looked at.
pub(super) struct RawDescriptor<'a> {
    pub(super) entries: SmallVec<[Entry<'a>; 4]>,
    pub(super) limit: Option<LimitAsked>,
    pub(super) hits: Option<u64>,
    pub(super) is_negative: bool,
}

/// Refuses what no proxy that is set up right sends.
pub(super) fn check<'a>(
    domain: &str,
    descriptors: impl ExactSizeIterator<Item = RawDescriptor<'a>>,
    hits: u32,
) -> Result<Descriptors<'a>, ErrorBody> {
    if domain.is_empty() {
        return Err(ErrorBody::field("domain", "the domain is empty; name the one that the rules are in"));
    }
    if descriptors.len() == 0 {
        return Err(ErrorBody::field("descriptors", "there are no descriptors; send at least one"));
    }
    if descriptors.len() > MAX_DESCRIPTORS {
        let message = format!(
            "a request has at most {MAX_DESCRIPTORS} descriptors, this one has {}; send fewer",
            descriptors.len()
        );
        return Err(ErrorBody::field("descriptors", message));
    }
    // 0 is what a proxy sends that knows nothing of costs.
    let hits = u64::from(hits.max(1));
    descriptors
        .enumerate()
        .map(|(index, raw)| {
            check_one(raw, hits).map_err(|(field, message)| {
                ErrorBody::field(
                    format!("descriptors[{index}].{field}"),
                    format!("descriptor {index}: {message}"),
                )
            })
        })
        .collect()
}

fn check_one<'a>(raw: RawDescriptor<'a>, hits: u64) -> Result<Descriptor<'a>, (&'static str, String)> {
    let RawDescriptor { entries, limit, hits: own, is_negative } = raw;
    if entries.len() > MAX_ENTRIES {
        let message = format!("{} entries are more than the {MAX_ENTRIES} that are read", entries.len());
        return Err(("entries", message));
    }
    if entries.iter().any(|entry| entry.key.is_empty()) {
        return Err(("entries", "an entry has no key; give it one".to_owned()));
    }
    let limit = limit.map(|limit| brought(&limit)).transpose().map_err(|message| ("limit", message))?;
    let hits = own.unwrap_or(hits);
    let hits = if is_negative { Hits::GiveBack(hits) } else { Hits::Take(hits) };
    Ok(Descriptor { entries, limit, hits })
}

/// A limit that came along, which counts as Envoy's own server would count it.
fn brought(limit: &LimitAsked) -> Result<Quota, String> {
    let unit = Unit::try_from(limit.unit).unwrap_or(Unit::Unknown);
    let known = UNITS.into_iter().find(|(known, _)| *known == unit);
    let (_, window) = known.ok_or("the unit of `limit` is unknown; send SECOND to YEAR")?;
    Quota::new(Algorithm::FixedWindow, limit.requests_per_unit.into(), window)
        .map_err(|error| error.to_string())
}

/// The units of the protocol; months and years are those of its reference server.
const UNITS: [(Unit, Span); 7] = [
    (Unit::Second, Span::from_secs(1)),
    (Unit::Minute, Span::from_secs(60)),
    (Unit::Hour, Span::from_secs(3_600)),
    (Unit::Day, Span::from_secs(86_400)),
    (Unit::Week, Span::from_secs(7 * 86_400)),
    (Unit::Month, Span::from_secs(30 * 86_400)),
    (Unit::Year, Span::from_secs(365 * 86_400)),
];

/// What an answer has besides the verdicts.
#[derive(Clone, Copy, Debug)]
pub struct Extras<'a> {
    /// Headers for the client, besides when to retry.
    pub header_styles: &'a [HeaderStyle],
    /// A body for the client, if it is refused.
    pub body: bool,
    /// Where the limits are explained.
    pub documentation_url: Option<&'a str>,
}

/// What a proxy is told about `decision`, taken by `rules`, but for the [metadata](super::metadata). The decision must be
/// one: whoever could not decide tells an error.
pub fn respond(decision: &DescriptorDecision, rules: &RuleSet, extras: Extras<'_>) -> RateLimitResponse {
    let refused = !decision.decision.allowed;
    let code = if refused { Code::OverLimit } else { Code::Ok };
    let mut response = RateLimitResponse {
        overall_code: code.into(),
        statuses: decision.said.iter().map(|said| status(said, rules)).collect(),
        ..RateLimitResponse::default()
    };
    let mut headers = HeaderMap::new();
    headers::write(&decision.decision, rules, extras.header_styles, &mut headers);
    response.response_headers_to_add = headers.iter().filter_map(header).collect();
    if refused && extras.body {
        let body = RefusalBody::new(&decision.decision, extras.documentation_url);
        // Texts and numbers, into memory: that cannot fail.
        response.raw_body = serde_json::to_vec(&body).unwrap_or_default();
        response.response_headers_to_add.push(HeaderValue {
            key: CONTENT_TYPE.as_str().to_owned(),
            value: "application/json".to_owned(),
            ..HeaderValue::default()
        });
    }
    response
}

fn status(said: &Said, rules: &RuleSet) -> DescriptorStatus {
    let code = if said.is_over(rules) { Code::OverLimit } else { Code::Ok };
    let bare = DescriptorStatus { code: code.into(), ..DescriptorStatus::default() };
    match said {
        Said::Nothing | Said::Unknown(_) => bare,
        Said::Unlimited(_) => DescriptorStatus { limit_remaining: ENDLESS, ..bare },
        Said::Verdict(rule, verdict) => {
            let about = rules.rule(*rule).descriptor.as_ref();
            let name = about.and_then(|about| about.name.as_deref()).unwrap_or_default();
            let seconds = i64::try_from(verdict.reset_after.as_secs_ceil()).unwrap_or(i64::MAX);
            DescriptorStatus {
                current_limit: Some(limit(verdict, name)),
                limit_remaining: u32::try_from(verdict.remaining).unwrap_or(u32::MAX),
                duration_until_reset: Some(Duration { seconds, nanos: 0 }),
                ..bare
            }
        }
    }
}

fn limit(verdict: &Verdict, name: &str) -> RateLimit {
    // What is in flight is not per anything.
    let window =
        Some(verdict.quota).filter(|quota| quota.algorithm() != Algorithm::InFlight).map(|it| it.window());
    let unit = UNITS.into_iter().find(|(_, unit)| Some(*unit) == window);
    RateLimit {
        requests_per_unit: u32::try_from(verdict.quota.limit()).unwrap_or(u32::MAX),
        // A window that has no name in the protocol is told by none.
        unit: unit.map_or(Unit::Unknown, |(unit, _)| unit).into(),
        name: name.to_owned(),
    }
}

fn header((name, value): (&http::HeaderName, &http::HeaderValue)) -> Option<HeaderValue> {
    let value = value.to_str().ok()?.to_owned();
    Some(HeaderValue { key: name.as_str().to_owned(), value, ..HeaderValue::default() })
}
