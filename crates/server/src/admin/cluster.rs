//! `GET /v1/cluster`

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate::cluster::{Member, MemberInfo, State as MemberState};

use super::{Door, rfc3339};
use crate::reply::{self, Reply, Wrong};

/// The nodes that know each other, as this one sees them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClusterBody {
    /// What this node is called.
    name: String,
    /// Where others reach it.
    #[schemars(with = "String")]
    address: SocketAddr,
    /// When it was started, or a little later if its clock was set back, in milliseconds since 1970.
    incarnation: u64,
    /// Whether it can use the store.
    has_store: bool,
    /// For how many keys the store does not know yet what it admitted.
    unsettled: usize,
    /// All other nodes that are there, or were until recently.
    members: Vec<MemberBody>,
    /// What is wrong, if anything is: peers that were never heard, clocks that differ, names that are taken.
    problem: Option<String>,
    /// How many packets changed nothing, because no secret of the fleet opens them, or they were seen before, or are too old.
    refused_packets: u64,
}

/// Another node.
#[derive(Debug, Serialize, JsonSchema)]
struct MemberBody {
    /// What it is called.
    name: String,
    /// Where it is reached.
    #[schemars(with = "String")]
    address: SocketAddr,
    /// `alive`, `suspect` (it does not answer, and is not given up yet) or `lost`.
    state: &'static str,
    /// Since when, as RFC 3339.
    since: String,
    /// When it was started, in milliseconds since 1970.
    incarnation: u64,
    /// Whether it can use the store, by its own account.
    has_store: bool,
    /// Whether it has admitted anything that the store does not know of yet.
    owes: bool,
}

impl From<MemberInfo> for MemberBody {
    fn from(info: MemberInfo) -> Self {
        let Member { name, address, incarnation, .. } = info.member;
        Self {
            name: name.to_string(),
            address,
            state: state(info.state),
            since: rfc3339(info.since.as_millis()),
            incarnation,
            has_store: info.standing.has_store,
            owes: info.standing.owes != 0,
        }
    }
}

/// What a state is called.
pub(crate) const fn state(state: MemberState) -> &'static str {
    match state {
        MemberState::Alive => "alive",
        MemberState::Suspect => "suspect",
        MemberState::Lost => "lost",
    }
}

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    let node = &door.node;
    let Some(membership) = &node.cluster else {
        let message = "this node knows of no others; serve with `--cluster ADDRESS --peers HOST:PORT,…`";
        return Wrong::new(StatusCode::NOT_FOUND, "not_found", message).into();
    };
    let cluster = membership.fleet().cluster();
    let (Member { name, address, incarnation, .. }, refused) = (cluster.me(), cluster.refused());
    let mut members: Vec<MemberBody> = cluster.members().into_iter().map(MemberBody::from).collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    let body = ClusterBody {
        name: name.to_string(),
        address,
        incarnation,
        has_store: node.limiter.shared().is_some_and(|store| store.unwell() == 0),
        unsettled: node.limiter.fallback().map_or(0, tidegate::store::Fallback::unsettled),
        members,
        problem: cluster.problem(),
        refused_packets: refused.strangers + refused.replays + refused.stale,
    };
    reply::json(StatusCode::OK, &body)
}
