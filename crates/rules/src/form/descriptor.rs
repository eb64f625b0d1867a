//! Descriptors in Tidegate's own documents.

use schemars::JsonSchema;
use serde::Serialize;

use super::{OneOrMany, Written};

/// The descriptors a rule is about: those of a domain with as many entries as are given here, each of them like its
/// counterpart.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// The domain.
    pub domain: Written,
    /// What the entries must be, in order.
    #[schemars(length(min = 1))]
    pub entries: Vec<Entry>,
    /// What answers call the limit, and what others call it that replace it.
    pub name: Option<Written>,
    /// Names of rules that do not count for a request to which this one applies, one or a list.
    pub replaces: Option<OneOrMany<Written>>,
    /// Reports that the limit is exceeded, but does not make the request as a whole refused. Default false.
    pub quota_mode: Option<bool>,
    /// Is charged by itself, whatever becomes of the rest of the request, and as far as the limit goes if that is not far
    /// enough: for what has been used already when it is told, such as tokens an answer took. Default false.
    pub charge_refused: Option<bool>,
    /// Metrics tell all values of these descriptors apart. Default false.
    pub detailed_metric: Option<bool>,
}

/// What one entry of a descriptor must be.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The key.
    pub key: Written,
    /// The value; `*` stands for any text. Without it: any value.
    pub value: Option<Written>,
    /// Whether all values that are like a value with `*` share one counter; otherwise each has its own. Default false.
    pub share_threshold: Option<bool>,
    /// Whether metrics tell its values apart. Default false.
    pub value_to_metric: Option<bool>,
}

/// How a domain is served.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Whether a refused request uses up quota all the same: as if all rules of the domain said so. Default false.
    pub charge_refused: Option<bool>,
}
