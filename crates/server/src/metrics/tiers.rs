//! What came of looking up users' tiers.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tidegate::Limiter;

use super::{encode_histogram, gauge};

/// Writes what there is to say about users' tiers, if they are looked up.
pub(super) fn encode(limiter: &Limiter, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(tiers) = limiter.tiers() else { return Ok(()) };
    let help = "Requests whose user's tier was to be looked up, by what came of it";
    let mut family = encoder.encode_descriptor("tier_lookups", help, None, MetricType::Counter)?;
    for (outcome, count) in tiers.stats().outcomes() {
        family.encode_family(&[("outcome", outcome)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    gauge(encoder, "tier_cache_entries", "Users whose tier is remembered", tiers.entries() as u64)?;
    let help = "How long look-ups took, each of which many requests may have waited for";
    let seconds = encoder.encode_descriptor("tier_lookup_seconds", help, None, MetricType::Histogram)?;
    encode_histogram(&tiers.stats().seconds, seconds)
}
