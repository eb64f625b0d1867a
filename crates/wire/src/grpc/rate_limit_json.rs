//! The same questions and answers as JSON, as Envoy's reference server takes them at `/json`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_core::descriptor::Entry;

use crate::error::ErrorBody;

use super::protobuf::envoy::service::ratelimit::v3::RateLimitResponse;
use super::protobuf::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::protobuf::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
use super::rate_limit::{Descriptors, LimitAsked, RawDescriptor, check};

/// A question. Keys are written in either way that the JSON form of protobuf allows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitJson<'a> {
    #[serde(borrow, default)]
    domain: Cow<'a, str>,
    #[serde(borrow, default)]
    descriptors: Vec<DescriptorJson<'a>>,
    #[serde(default, alias = "hitsAddend")]
    hits_addend: Number,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescriptorJson<'a> {
    #[serde(borrow, default)]
    entries: Vec<EntryJson<'a>>,
    limit: Option<LimitJson>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number>,
    #[serde(default, alias = "isNegativeHits")]
    is_negative_hits: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryJson<'a> {
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitJson {
    #[serde(default, alias = "requestsPerUnit")]
    requests_per_unit: Number,
    #[serde(default)]
    unit: UnitJson,
}

impl<'a> RateLimitJson<'a> {
    /// Reads a body; what is wrong with it is told in words.
    pub fn parse(json: &'a [u8]) -> Result<Self, ErrorBody> {
        serde_json::from_slice(json).map_err(|error| {
            ErrorBody::new("invalid_request", format!("this is not a RateLimitRequest: {error}"))
        })
    }

    /// What is asked: the domain, and the descriptors to be decided on, or what is wrong with them.
    pub fn asked(&self) -> Result<(&str, Descriptors<'_>), ErrorBody> {
        let descriptors = self.descriptors.iter().map(|descriptor| RawDescriptor {
            entries: descriptor
                .entries
                .iter()
                .map(|entry| Entry { key: &entry.key, value: &entry.value })
                .collect(),
            limit: descriptor.limit.as_ref().map(|limit| LimitAsked {
                requests_per_unit: u32::try_from(limit.requests_per_unit.0).unwrap_or(u32::MAX),
                unit: limit.unit.0,
            }),
            hits: descriptor.hits_addend.as_ref().map(|hits| hits.0),
            is_negative: descriptor.is_negative_hits,
        });
        let hits = u32::try_from(self.hits_addend.0).map_err(|_| {
            ErrorBody::field("hits_addend", "`hits_addend` is larger than 4294967295; send less")
        })?;
        Ok((&self.domain, check(&self.domain, descriptors, hits)?))
    }
}

/// A whole number, which may be in quotes.
#[derive(Debug, Default)]
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, 0 or more")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map(Number).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(NumberVisitor)
    }
}

/// A unit, by name or by number.
#[derive(Debug, Default)]
struct UnitJson(i32);

impl<'de> Deserialize<'de> for UnitJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Name(String),
            Number(i32),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Name(name) => Unit::from_str_name(&name)
                .map(|unit| Self(unit.into()))
                .ok_or_else(|| D::Error::custom(format_args!("`{name}` is no unit; use SECOND to YEAR"))),
        }
    }
}

/// An answer as JSON: what protobuf leaves out because it is empty is left out here too.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitAnswer<'a> {
    overall_code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statuses: Vec<StatusJson<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusJson<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<CurrentLimitJson<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CurrentLimitJson<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> RateLimitAnswer<'a> {
    /// `response` as JSON.
    pub fn new(response: &'a RateLimitResponse) -> Self {
        Self {
            overall_code: response.overall_code().as_str_name(),
            statuses: response.statuses.iter().map(StatusJson::new).collect(),
        }
    }
}

impl<'a> StatusJson<'a> {
    fn new(status: &'a DescriptorStatus) -> Self {
        let code: Code = status.code();
        Self {
            code: code.as_str_name(),
            current_limit: status.current_limit.as_ref().map(CurrentLimitJson::new),
            limit_remaining: status.limit_remaining,
            duration_until_reset: status
                .duration_until_reset
                .as_ref()
                .map(|left| format!("{}s", left.seconds)),
        }
    }
}

impl<'a> CurrentLimitJson<'a> {
    fn new(limit: &'a RateLimit) -> Self {
        let unit = limit.unit();
        Self {
            name: &limit.name,
            requests_per_unit: limit.requests_per_unit,
            unit: (unit != Unit::Unknown).then(|| unit.as_str_name()),
        }
    }
}
