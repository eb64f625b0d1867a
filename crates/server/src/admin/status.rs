//! `GET /v1/status`

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate::store::{Fallback, MemoryStore, Shard, Store};

use super::Door;
use super::health::HealthBody;
use crate::base::Places;
use crate::node::{Node, Shown};
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
    /// How many counters there are in memory.
    keys: usize,
    /// How many takes shared a counter because there was no room for their own.
    overflowed: u64,
    /// Where counters live.
    store: StoreBody,
    /// How many decisions there were since the start, by outcome.
    decisions: BTreeMap<&'static str, u64>,
    /// Where it listens.
    listeners: Listeners,
    /// Where requests go and how that is, if it is a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<serde_json::Value>,
}

/// Where counters live, and how it has answered.
#[derive(Debug, Serialize, JsonSchema)]
struct StoreBody {
    /// `memory`, or the kind of store that nodes share.
    kind: String,
    /// How many requests were refused without asking a shared store, because it had just refused the same.
    denied_from_cache: u64,
    /// How many requests were decided without it, wholly or in part.
    decided_locally: u64,
    /// How many of them were sent to the nodes that count their keys.
    forwarded: u64,
    /// For how many keys it does not know yet what was admitted here without it.
    unsettled: usize,
    /// How much was admitted here without it.
    admitted_without_store: u64,
    /// How much of that it was told afterwards.
    settled: u64,
    /// How much of that it need not know any more, because waiting has given it back.
    forgiven: u64,
    /// The parts of a shared store; none if counters are in memory.
    shards: Vec<ShardBody>,
}

/// A part of a shared store.
#[derive(Debug, Serialize, JsonSchema)]
struct ShardBody {
    /// What it is called.
    name: String,
    /// How many round trips there were.
    calls: u64,
    /// How many failures there were.
    errors: u64,
    /// Why it cannot be used now; null if it can.
    problem: Option<String>,
    /// Whether it is asked: `closed` (it is), `half-open` or `open` (it is left alone).
    breaker: &'static str,
}

impl StoreBody {
    fn new(node: &Node) -> Self {
        let shards = node.limiter.shared().map(Store::shards).unwrap_or_default();
        let fallback = node.limiter.fallback();
        let settled = fallback.map(Fallback::settled).unwrap_or_default();
        Self {
            kind: node.store_kind.clone(),
            denied_from_cache: node.limiter.denied_from_cache(),
            decided_locally: fallback.map_or(0, Fallback::decided),
            forwarded: fallback.map_or(0, Fallback::forwarded),
            unsettled: fallback.map_or(0, Fallback::unsettled),
            admitted_without_store: settled.admitted,
            settled: settled.settled,
            forgiven: settled.forgiven,
            shards: shards.into_iter().map(ShardBody::from).collect(),
        }
    }
}

impl From<Shard> for ShardBody {
    fn from(Shard { name, stats, problem, breaker }: Shard) -> Self {
        let errors = stats.errors().map(|(_, count)| count).sum();
        Self { name, calls: stats.calls(), errors, problem, breaker: breaker.name() }
    }
}

/// Where the node listens.
#[derive(Debug, Serialize, JsonSchema)]
struct Listeners {
    /// Decisions over HTTP, if it serves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    http: Option<SocketAddr>,
    /// gRPC, if it serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    grpc: Option<SocketAddr>,
    /// The gateway, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    gateway: Option<SocketAddr>,
    /// Administration.
    #[schemars(with = "String")]
    admin: Option<SocketAddr>,
}

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    let node = &door.node;
    let memory = node.limiter.memory();
    let Places { http, grpc, gateway, admin } = door.places;
    let body = StatusBody {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: node.started.elapsed().as_secs(),
        draining: node.is_draining(),
        health: HealthBody::new(&door),
        rules: node.limiter.rules().len(),
        keys: memory.map_or(0, MemoryStore::keys),
        overflowed: memory.map_or(0, MemoryStore::overflowed),
        store: StoreBody::new(node),
        decisions: node.metrics.decisions.totals(),
        listeners: Listeners { http, grpc, gateway, admin },
        gateway: node.gateway().map(Shown::status),
    };
    reply::json(StatusCode::OK, &body)
}
