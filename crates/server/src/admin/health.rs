//! `GET /health`, `/livez`, `/readyz`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use bytes::Bytes;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Door, rfc3339};
use crate::data_plane;
use crate::health::Change;
use crate::node::InForce;
use crate::reply::{self, Reply};

/// How the node is doing.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HealthBody {
    /// `normal`, `degraded` or `emergency`.
    status: &'static str,
    /// What is wrong. A store that has just failed is shown here before it makes the status another.
    reasons: Vec<String>,
    /// Since when the status has been so (RFC 3339).
    since: String,
    /// Since when the store that nodes share has not been well for long (RFC 3339), or null.
    store_unwell_since: Option<String>,
    /// How the status changed of late, newest first, up to ten times.
    changes: Vec<ChangeBody>,
    /// Where counters live: `memory`, or the kind of store that nodes share.
    store: String,
    /// The version of the rules in force, as their source counts.
    rules_version: u64,
    /// The version their author gave them.
    document_version: Option<u64>,
    /// How long ago their source last showed that it is there and has no others, in seconds; absent if they are built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_age: Option<f64>,
}

/// A change of the status.
#[derive(Debug, Serialize, JsonSchema)]
struct ChangeBody {
    /// When (RFC 3339).
    at: String,
    from: &'static str,
    to: &'static str,
    /// The first few reasons at that time.
    reasons: Vec<String>,
}

impl From<Change> for ChangeBody {
    fn from(Change { at, from, to, reasons }: Change) -> Self {
        Self { at: rfc3339(at.as_millis()), from: from.name(), to: to.name(), reasons }
    }
}

/// More changes than these do not help to see how it is now.
const SHOWN_CHANGES: usize = 10;

impl HealthBody {
    pub(super) fn new(door: &Door) -> Self {
        let health = &door.node.health;
        let condition = health.condition();
        let rules = door.node.limiter.rules();
        Self {
            status: condition.mode.name(),
            reasons: condition.reasons.clone(),
            since: rfc3339(condition.since.as_millis()),
            store_unwell_since: condition.store_unwell_since.map(|since| rfc3339(since.as_millis())),
            changes: health.changes(SHOWN_CHANGES).into_iter().map(ChangeBody::from).collect(),
            store: door.node.store_kind.clone(),
            rules_version: rules.version(),
            document_version: InForce::of(&rules).and_then(|it| it.document_version),
            rules_age: door.node.pulse.as_ref().map(|pulse| pulse.age().as_secs_f64()),
        }
    }
}

/// 200 whatever the status: whoever asks wants to read it.
pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    reply::json(StatusCode::OK, &HealthBody::new(&door))
}

/// Says whether the process is alive: it answers, and none of the threads that serve requests is stuck.
pub(super) async fn live(State(door): State<Arc<Door>>) -> Reply {
    let stuck =
        |(name, time): (String, Duration)| format!("{name} has been stuck for {} s\n", time.as_secs());
    let stuck: String = data_plane::stuck(&door.node.data_threads).map(stuck).collect();
    if stuck.is_empty() {
        return plain(StatusCode::OK, "alive\n");
    }
    plain(StatusCode::SERVICE_UNAVAILABLE, stuck)
}

/// Whether it wants requests: not if it is about to end, nor if it knows of rules that it does not have.
pub(super) async fn ready(State(door): State<Arc<Door>>) -> Reply {
    if door.node.is_draining() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if door.node.lacks_rules() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "some rules cannot be read, see /health\n");
    }
    plain(StatusCode::OK, "ready\n")
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    reply::text(status, "text/plain; charset=utf-8", text)
}
