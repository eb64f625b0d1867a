//! `GET /v1/status`

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::Door;
use super::health::HealthBody;
use crate::reply::{self, Reply};

/// All about the node at a glance.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatusBody {
    /// The version of this program.
    version: &'static str,
    /// How long it has been running, in seconds.
    uptime_seconds: u64,
    /// Whether it is about to end and wants no more requests.
    draining: bool,
    /// How it is doing.
    health: HealthBody,
    /// How many rules are in force.
    rules: usize,
    /// How many counters there are.
    keys: usize,
    /// How many takes shared a counter because there was no room for their own.
    overflowed: u64,
    /// How many decisions there were since the start, by outcome.
    decisions: BTreeMap<&'static str, u64>,
    /// Where it listens.
    listeners: Listeners,
}

/// Where the node listens.
#[derive(Debug, Serialize, JsonSchema)]
struct Listeners {
    /// Decisions over HTTP.
    #[schemars(with = "String")]
    http: SocketAddr,
    /// gRPC.
    #[schemars(with = "String")]
    grpc: SocketAddr,
    /// Administration.
    #[schemars(with = "String")]
    admin: SocketAddr,
}

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    let node = &door.node;
    let store = node.limiter.store();
    let addresses = door.addresses;
    let body = StatusBody {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: node.started.elapsed().as_secs(),
        draining: node.is_draining(),
        health: HealthBody::new(&door),
        rules: node.in_force().table.rules().len(),
        keys: store.keys(),
        overflowed: store.overflowed(),
        decisions: node.metrics.decisions.totals(),
        listeners: Listeners { http: addresses.http, grpc: addresses.grpc, admin: addresses.admin },
    };
    reply::json(StatusCode::OK, &body)
}
