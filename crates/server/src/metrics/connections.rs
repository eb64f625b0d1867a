//! Connections that were turned away.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::node::ConnectionLimiters;

/// Writes how many connections were beyond what one address may have, by listener.
pub(super) fn encode(limiters: &ConnectionLimiters, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Connections beyond what one address may have without being authenticated";
    let mut family = encoder.encode_descriptor("connections_turned_away", help, None, MetricType::Counter)?;
    let ConnectionLimiters { http, grpc, admin } = limiters;
    for (listener, limiter) in [("http", http), ("grpc", grpc), ("admin", admin)] {
        let labels = [("listener", listener)];
        let mut one = family.encode_family(&labels)?;
        one.encode_counter::<NoLabelSet, _, u64>(&limiter.turned_away(), None)?;
    }
    Ok(())
}
