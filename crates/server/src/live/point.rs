//! What happened in one second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many buckets there are for how long decisions took: one above the last bound.
pub(crate) const BUCKETS: usize = 17;

/// How many decisions, or calls, fell into each bucket.
pub(crate) type Buckets = [u64; BUCKETS];

/// More tiers than these are not shown.
pub(crate) const MOST_TIERS: usize = 20;

/// More parts of a store than these are not shown.
pub(crate) const MOST_SHARDS: usize = 100;

/// What happened in one second; rates are per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Point {
    /// When it was over, in milliseconds since 1970.
    pub(crate) at: u64,
    /// Decisions by outcome.
    pub(crate) decisions: Rates,
    /// Decisions taken without the store.
    pub(crate) fallback: f64,
    /// How long decisions took; null if there was none.
    pub(crate) latency: Option<Latency>,
    /// How many decisions took how long: one number for each of the `bounds` of the history, and one for what took longer.
    pub(crate) buckets: Buckets,
    /// The busiest tiers, up to 20.
    pub(crate) tiers: Vec<TierRates>,
    /// The parts of the store, the first hundred.
    pub(crate) shards: Vec<ShardRates>,
}

/// Decisions per second, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Rates {
    pub(crate) allowed: f64,
    pub(crate) refused: f64,
    /// What shadow rules would have refused; such decisions are counted above as well.
    pub(crate) shadow_refused: f64,
    pub(crate) failed_open: f64,
    pub(crate) unavailable: f64,
}

/// How long decisions took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// Decisions per second on requests of a tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TierRates {
    /// `other` for tiers that are not known.
    pub(crate) tier: String,
    pub(crate) allowed: f64,
    pub(crate) refused: f64,
}

/// What a part of the store was asked, per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ShardRates {
    /// What it is called.
    pub(crate) name: String,
    /// Round trips.
    pub(crate) calls: f64,
    /// What was carried by them.
    pub(crate) operations: f64,
    /// Failures.
    pub(crate) errors: f64,
    /// How long half of the round trips took at most, in seconds; null if there was none.
    pub(crate) p50: Option<f64>,
    /// The same for 99 %.
    pub(crate) p99: Option<f64>,
}
