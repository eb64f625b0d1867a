//! Descriptors as the files of Envoy's rate limit service state them, and what Tidegate adds to these.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Duration, EnvoyAlgorithm, OnStoreFailure, Unit, Written};

/// The descriptors of a domain, as Envoy's rate limit service reads them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvoyDomain {
    /// The domain; described in one document only.
    pub domain: Written,
    /// What the first entry of a descriptor may be.
    pub descriptors: Option<Vec<EnvoyDescriptor>>,
    /// Whether a refused request uses up quota all the same: descriptors are then charged each by itself, whatever
    /// becomes of the others. Default false. Tidegate only.
    pub charge_refused: Option<bool>,
    /// What becomes of a request when the store cannot be asked, where a descriptor does not say otherwise: `local`
    /// (default) decides without it, `allow` lets it pass, `deny` refuses it. Tidegate only.
    pub on_store_failure: Option<OnStoreFailure>,
}

/// What an entry of a descriptor may be, the limit of descriptors that end with it, and what may follow. Without
/// either, descriptors that end with it have no limit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvoyDescriptor {
    /// The key.
    pub key: Written,
    /// The value; `*` stands for any text. Without it: any value.
    pub value: Option<Written>,
    /// The limit.
    pub rate_limit: Option<EnvoyRateLimit>,
    /// What the next entry may be.
    pub descriptors: Option<Vec<EnvoyDescriptor>>,
    /// Counts and reports, but never refuses. Default false.
    pub shadow_mode: Option<bool>,
    /// Reports that the limit is exceeded, but does not make the request as a whole refused. Default false.
    pub quota_mode: Option<bool>,
    /// Is charged by itself, whatever becomes of the rest of the request, and as far as the limit goes if that is not far
    /// enough: for what has been used already when it is told, such as tokens an answer took. Default false. Tidegate
    /// only.
    pub charge_refused: Option<bool>,
    /// Metrics tell all values of these descriptors apart. Default false.
    pub detailed_metric: Option<bool>,
    /// Whether metrics tell the values of this entry apart. Default false.
    pub value_to_metric: Option<bool>,
    /// Whether all values that are like a value with `*` share one counter; otherwise each has its own. Default false.
    pub share_threshold: Option<bool>,
    /// What becomes of a request when the store cannot be asked; the domain's if not given. Tidegate only.
    pub on_store_failure: Option<OnStoreFailure>,
    /// What the limit is for, in words. Tidegate only.
    pub description: Option<Written>,
}

/// How much, per how long. Needs `requests_per_unit` and exactly one of `unit` and `window`, unless it is `unlimited`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = {"properties": {"unlimited": {"const": true}}, "required": ["unlimited"]},
    "then" = {"not": {"anyOf": [
        {"required": ["requests_per_unit"]}, {"required": ["unit"]}, {"required": ["unit_multiplier"]},
        {"required": ["window"]}, {"required": ["burst"]}, {"required": ["algorithm"]}
    ]}},
    "else" = {
        "required": ["requests_per_unit"],
        "oneOf": [{"required": ["unit"]}, {"required": ["window"]}],
        "not": {"required": ["window", "unit_multiplier"]}
    }
))]
pub struct EnvoyRateLimit {
    /// The unit of time: `second`, `minute`, `hour`, `day`, `week`, `month` (30 days) or `year` (365 days).
    pub unit: Option<Unit>,
    /// How much per unit. 0 blocks.
    pub requests_per_unit: Option<u64>,
    /// How many units the window lasts. Default 1.
    #[schemars(range(min = 1))]
    pub unit_multiplier: Option<u64>,
    /// No limit at all, instead of stating one. Default false.
    pub unlimited: Option<bool>,
    /// What answers call the limit, and what others call it that replace it.
    pub name: Option<Written>,
    /// Limits that do not count for a request to which this one applies.
    pub replaces: Option<Vec<EnvoyReplaced>>,
    /// The window, instead of `unit`: a whole number and `ms`, `s`, `m`, `h`, `d` or `w`; 1ms to 366d. Tidegate only.
    pub window: Option<Duration>,
    /// How much a token bucket holds at most; `requests_per_unit` if not given or smaller. Tidegate only.
    pub burst: Option<u64>,
    /// How it is counted. Default `fixed_window`. Tidegate only.
    pub algorithm: Option<EnvoyAlgorithm>,
}

/// A limit that is replaced by another.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvoyReplaced {
    /// Its name.
    pub name: Written,
}
