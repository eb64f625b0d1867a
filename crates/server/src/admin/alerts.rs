//! `GET /v1/alerts`

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Door, rfc3339};
use crate::alerts::{AlertSettings, Deliveries, Evaluator, Event, Fired, Severity};
use crate::reply::{self, Reply};

/// What is wrong, what was, and what else happened.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AlertsBody {
    /// The alerts that fire, the worst first.
    active: Vec<AlertBody>,
    /// The last hundred that are over, newest first.
    resolved: Vec<AlertBody>,
    /// What else happened, the last hundred, newest first.
    events: Vec<EventBody>,
    /// How deliveries to the webhook go; null if there is none.
    webhook: Option<WebhookBody>,
}

/// An alert that fires, or did.
#[derive(Debug, Serialize, JsonSchema)]
struct AlertBody {
    /// What it is called.
    alert: &'static str,
    /// `critical` or `warning`.
    severity: &'static str,
    /// What is wrong.
    summary: String,
    /// Since when (RFC 3339).
    since: String,
    /// When it was over (RFC 3339); absent while it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_at: Option<String>,
    /// Where it says what to do.
    runbook: String,
}

/// Something that happened and is not wrong.
#[derive(Debug, Serialize, JsonSchema)]
struct EventBody {
    /// `rules_changed`, `shard_added`, `shard_removed` or `failover`.
    event: &'static str,
    /// `info`.
    severity: &'static str,
    /// What happened.
    summary: String,
    /// When (RFC 3339).
    at: String,
    /// Where it says what that means.
    runbook: String,
}

/// How deliveries to the webhook go.
#[derive(Debug, Serialize, JsonSchema)]
struct WebhookBody {
    /// Messages that wait.
    waiting: usize,
    /// Messages that were taken.
    delivered: u64,
    /// Attempts that failed.
    failed: u64,
    /// Messages that were given up.
    given_up: u64,
    /// Why the last attempt failed; null if it did not.
    problem: Option<String>,
}

impl AlertBody {
    fn new(fired: Fired, settings: &AlertSettings) -> Self {
        let Fired { alert, summary, since, resolved } = fired;
        Self {
            alert: alert.name(),
            severity: alert.severity().name(),
            summary,
            since: rfc3339(since.as_millis()),
            resolved_at: resolved.map(|at| rfc3339(at.as_millis())),
            runbook: settings.runbook(alert.name()),
        }
    }
}

impl EventBody {
    fn new(Event { kind, at, summary }: Event, settings: &AlertSettings) -> Self {
        let (severity, runbook) = (Severity::Info.name(), settings.runbook(kind.name()));
        Self { event: kind.name(), severity, summary, at: rfc3339(at.as_millis()), runbook }
    }
}

impl From<Deliveries> for WebhookBody {
    fn from(Deliveries { waiting, delivered, failed, given_up, problem }: Deliveries) -> Self {
        Self { waiting, delivered, failed, given_up, problem }
    }
}

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    let alerts = &door.node.alerts;
    let webhook = alerts.courier.as_ref().map(|courier| courier.deliveries().into());
    let body = alerts.read(|evaluator: &Evaluator| {
        let settings = evaluator.settings();
        let bodies = |all: Vec<Fired>| all.into_iter().map(|fired| AlertBody::new(fired, settings)).collect();
        AlertsBody {
            active: bodies(evaluator.active()),
            resolved: bodies(evaluator.resolved()),
            events: evaluator.events().into_iter().map(|event| EventBody::new(event, settings)).collect(),
            webhook,
        }
    });
    reply::json(StatusCode::OK, &body)
}
