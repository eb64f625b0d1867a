//! The admin listener: how the node is doing, what rules it has, what they would do.

mod alerts;
mod change;
mod cluster;
mod events;
mod explain;
mod fleet;
mod health;
mod index;
mod insight;
mod log_level;
mod page;
mod rules;
mod status;
mod tiers;
mod whoami;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{MethodRouter, delete, get, post, put};
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tidegate_sources::{OneAtATime, Subject};
use tower::ServiceExt;

use crate::base::Places;
use crate::caller::{Gate, is_watched};
use crate::gzip;
use crate::listen::Connected;
use crate::node::Node;
use crate::openapi;
use crate::origin::Hosts;
use crate::reply::{self, Reply, Wrong};
use crate::{metrics, reply::text};

use change::About;

/// The bodies the API description describes.
pub(crate) use alerts::AlertsBody;
pub(crate) use change::{ChangedBody, HistoryBody, RollbackBody};
pub(crate) use cluster::{ClusterBody, state as member_state};
pub(crate) use events::CONTENT as EVENTS;
pub(crate) use fleet::FleetBody;
pub(crate) use health::HealthBody;
pub(crate) use insight::{HotKeyBody, InsightBody, Told};
pub(crate) use log_level::LogLevelBody;
pub(crate) use page::is_asked_for as is_page;
pub(crate) use rules::{DocumentsBody, RulesBody, Valid};
pub(crate) use status::StatusBody;
pub(crate) use tiers::{SetPlanBody, SetTierBody, TenantPlanBody, UserTierBody};
pub(crate) use whoami::WhoamiBody;

/// Where events are sent for as long as somebody listens.
const EVENTS_PATH: &str = "/v1/events";

/// What the handlers know.
#[derive(Debug)]
struct Door {
    node: Arc<Node>,
    places: Places,
    /// Whether tokens are known here.
    tokens: bool,
    /// What other nodes said last.
    round: fleet::Round,
    /// Those who work with the source of the rules.
    line: rules::Line,
}

/// Every path, its method and what answers.
fn table() -> Vec<(&'static str, &'static str, MethodRouter<Arc<Door>>)> {
    let changes = [
        about(
            "/v1/rules/{rule_id}",
            "/v1/rules/{rule_id}/history",
            "/v1/rules/{rule_id}/rollback",
            Subject::Rule,
        ),
        about(
            "/v1/documents/{name}",
            "/v1/documents/{name}/history",
            "/v1/documents/{name}/rollback",
            Subject::Document,
        ),
    ];
    let others = [
        ("/", "GET", get(page::show)),
        ("/dashboard/{file}", "GET", get(page::show_file)),
        ("/health", "GET", get(health::show)),
        ("/livez", "GET", get(health::live)),
        ("/readyz", "GET", get(health::ready)),
        ("/metrics", "GET", get(scrape)),
        ("/v1/rules", "GET", get(rules::list)),
        ("/v1/rules/{rule_id}", "GET", get(rules::show)),
        ("/v1/rules/validate", "POST", post(rules::validate)),
        ("/v1/explain", "POST", post(explain::explain)),
        ("/v1/status", "GET", get(status::show)),
        ("/v1/alerts", "GET", get(alerts::show)),
        ("/v1/cluster", "GET", get(cluster::show)),
        (EVENTS_PATH, "GET", get(events::show)),
        ("/v1/fleet", "GET", get(fleet::show)),
        ("/v1/insight", "GET", get(insight::show)),
        ("/v1/whoami", "GET", get(whoami::show)),
        ("/v1/log-level", "GET", get(log_level::show)),
        ("/v1/log-level", "PUT", put(log_level::put)),
        ("/v1/users/{user}/tier", "GET", get(tiers::show_tier)),
        ("/v1/users/{user}/tier", "PUT", put(tiers::put_tier)),
        ("/v1/users/{user}/tier", "DELETE", delete(tiers::delete_tier)),
        ("/v1/tenants/{tenant}/plan", "GET", get(tiers::show_plan)),
        ("/v1/tenants/{tenant}/plan", "PUT", put(tiers::put_plan)),
        ("/v1/tenants/{tenant}/plan", "DELETE", delete(tiers::delete_plan)),
        ("/v1/documents", "GET", get(rules::documents)),
        ("/v1/documents/{name}", "GET", get(change::show_document)),
        ("/openapi.json", "GET", get(async || reply::json(StatusCode::OK, openapi::document()))),
    ];
    others.into_iter().chain(changes.into_iter().flatten()).collect()
}

/// What can be done with rules as with whole documents.
fn about(
    one: &'static str,
    history: &'static str,
    rollback: &'static str,
    subject: About,
) -> [(&'static str, &'static str, MethodRouter<Arc<Door>>); 4] {
    [
        (
            one,
            "PUT",
            put(move |door, caller, name, request| change::put(subject, door, caller, name, request)),
        ),
        (
            one,
            "DELETE",
            delete(move |door, caller, name, headers| change::delete(subject, door, caller, name, headers)),
        ),
        (history, "GET", get(move |door, name| change::history(subject, door, name))),
        (
            rollback,
            "POST",
            post(move |door, caller, name, request| change::roll_back(subject, door, caller, name, request)),
        ),
    ]
}

/// Every path and method, for the API description to be held against.
pub(crate) fn routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    table().into_iter().map(|(path, method, _)| (path, method))
}

/// The admin listener.
#[derive(Debug)]
pub(crate) struct Admin {
    node: Arc<Node>,
    gate: Arc<Gate>,
    hosts: Hosts,
    router: Router,
}

impl Admin {
    pub(crate) fn new(node: Arc<Node>, gate: Arc<Gate>, hosts: Hosts, places: Places) -> Self {
        let tokens = gate.knows_tokens(&node.access);
        let door = Arc::new(Door {
            node: Arc::clone(&node),
            places,
            tokens,
            round: fleet::Round::default(),
            line: rules::Line::new(),
        });
        let router = table().into_iter().fold(Router::new(), |router, (path, _, to)| router.route(path, to));
        let router = router
            .fallback(async |uri: Uri| Reply::from(Wrong::not_found(uri.path())))
            .method_not_allowed_fallback(async |uri: Uri| method_not_allowed(uri.path()))
            .with_state(door);
        Self { node, gate, hosts, router }
    }

    /// Answers `request` of the client `from`. Handlers find out who asks by `Extension<Caller>`.
    pub(crate) async fn answer(&self, from: &Connected, mut request: Request<Incoming>) -> Response<Body> {
        // Web pages are turned away before they could learn anything about tokens.
        let admitted = self.hosts.admit(&request);
        let caller = match admitted.and_then(|()| self.gate.admit(&self.node.access, from.ip, &request)) {
            Ok(caller) => caller,
            Err(wrong) => {
                from.room.trust().refuse();
                return Reply::from(wrong).map(Body::new);
            }
        };
        // The page and what probes read need no token, so that they prove nothing.
        if caller.is_authenticated() {
            from.room.trust().authenticate();
        }
        if from.room.is_reserved() && !is_for_reserve(from, request.uri().path()) {
            return Reply::from(all_taken()).map(Body::new);
        }
        request.extensions_mut().insert(caller);
        let packed = gzip::is_read(request.headers());
        let Ok(response) = self.router.clone().oneshot(request).await.map_err(|never: Infallible| never);
        if packed { gzip::packed(response).await } else { response }
    }
}

/// Returns whether a client with a reserved place may ask for `path`: whatever is over soon on this machine, and what
/// probes read elsewhere.
fn is_for_reserve(from: &Connected, path: &str) -> bool {
    is_watched(path) || (from.ip.is_loopback() && path != EVENTS_PATH)
}

fn all_taken() -> Wrong {
    let message = "all connections of this listener are taken, and the few in reserve are for probes; try again later, end \
                   those that do not belong there, or raise `--max-connections`";
    Wrong::new(StatusCode::SERVICE_UNAVAILABLE, "connections_exhausted", message)
}

fn method_not_allowed(path: &str) -> Reply {
    let allowed: Vec<_> =
        routes().filter(|(known, _)| is_like(path, known)).map(|(_, method)| method).collect();
    reply::method_not_allowed(&allowed)
}

/// Whether a path is one that the router knows; names in braces stand for any part.
fn is_like(path: &str, known: &str) -> bool {
    if path == "/v1/rules/validate" {
        return path == known;
    }
    let (parts, known) = (path.split('/').collect::<Vec<_>>(), known.split('/').collect::<Vec<_>>());
    parts.len() == known.len()
        && parts.iter().zip(known).all(|(part, known)| *part == known || known.starts_with('{'))
}

/// Writing metrics: thousands of rules have tens of thousands of series.
static SCRAPES: OneAtATime = OneAtATime::new();

async fn scrape(State(door): State<Arc<Door>>) -> Reply {
    match SCRAPES.run(move || metrics::scrape(&door.node)).await {
        Ok(Ok(metrics)) => text(StatusCode::OK, metrics::CONTENT_TYPE, metrics),
        Err(error) => rules::interrupted(error),
        Ok(Err(_)) => {
            Wrong::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the metrics cannot be written").into()
        }
    }
}

/// A time in milliseconds since the epoch, for people and programs.
pub(crate) fn rfc3339(at_ms: u64) -> String {
    let millis = i64::try_from(at_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
}
