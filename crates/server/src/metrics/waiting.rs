//! Requests that wait for their turn.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tidegate::{Limiter, TurnedAway, Waiting};

use super::gauge;

/// Writes how many wait, and what became of those that did.
pub(super) fn encode(limiter: &Limiter, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Waiting { now, allowed, refused, gone } = limiter.waiting();
    gauge(encoder, "waiting", "Requests that wait for their turn", now as u64)?;
    let help = "Requests that waited for their turn, by what came of it";
    let mut family = encoder.encode_descriptor("delayed", help, None, MetricType::Counter)?;
    for (outcome, count) in [("allowed", allowed), ("refused", refused), ("gone", gone)] {
        family.encode_family(&[("outcome", outcome)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    let TurnedAway { all, line, rule, address } = limiter.turned_away();
    let help = "Requests refused because no place was left to wait, by whose share was used up";
    let mut family = encoder.encode_descriptor("delays_turned_away", help, None, MetricType::Counter)?;
    for (share, count) in [("all", all), ("line", line), ("rule", rule), ("address", address)] {
        family.encode_family(&[("share", share)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}
