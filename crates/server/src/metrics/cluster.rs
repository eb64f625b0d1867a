//! The nodes that know each other.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tidegate::cluster::{Cluster, State};

use crate::admin::member_state;

/// Writes who is there, as this node sees it, and what was refused.
pub(super) fn encode(cluster: &Cluster, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let members = cluster.members();
    let help = "Other nodes by state: alive, suspect (silent, not given up yet), lost";
    let mut family = encoder.encode_descriptor("cluster_members", help, None, MetricType::Gauge)?;
    for state in [State::Alive, State::Suspect, State::Lost] {
        let count = members.iter().filter(|member| member.state == state).count() as u64;
        family.encode_family(&[("state", member_state(state))])?.encode_gauge(&count)?;
    }
    let refused = cluster.refused();
    let help = "Packets that changed nothing: from strangers, seen before, or too old";
    let mut family = encoder.encode_descriptor("cluster_refused_packets", help, None, MetricType::Counter)?;
    for (kind, count) in
        [("stranger", refused.strangers), ("replay", refused.replays), ("stale", refused.stale)]
    {
        family.encode_family(&[("kind", kind)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}
