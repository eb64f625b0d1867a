//! The admin listener: how the node is doing, what rules it has, what they would do.

mod explain;
mod health;
mod index;
mod rules;
mod status;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{MethodRouter, get, post};
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tower::ServiceExt;

use crate::caller::Gate;
use crate::node::Node;
use crate::openapi;
use crate::origin::Hosts;
use crate::reply::{self, Reply, Wrong};
use crate::server::Addresses;
use crate::{metrics, reply::text};

/// The bodies the API description describes.
pub(crate) use health::HealthBody;
pub(crate) use rules::{RulesBody, Valid};
pub(crate) use status::StatusBody;

/// What the handlers know.
#[derive(Debug)]
struct Door {
    node: Arc<Node>,
    addresses: Addresses,
}

/// Every path, its method and what answers.
fn table() -> [(&'static str, &'static str, MethodRouter<Arc<Door>>); 11] {
    [
        ("/", "GET", get(async || index::show())),
        ("/health", "GET", get(health::show)),
        ("/livez", "GET", get(async || health::live())),
        ("/readyz", "GET", get(health::ready)),
        ("/metrics", "GET", get(scrape)),
        ("/v1/rules", "GET", get(rules::list)),
        ("/v1/rules/{rule_id}", "GET", get(rules::show)),
        ("/v1/rules/validate", "POST", post(rules::validate)),
        ("/v1/explain", "POST", post(explain::explain)),
        ("/v1/status", "GET", get(status::show)),
        ("/openapi.json", "GET", get(async || reply::json(StatusCode::OK, openapi::document()))),
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
    pub(crate) fn new(node: Arc<Node>, gate: Arc<Gate>, hosts: Hosts, addresses: Addresses) -> Self {
        let door = Arc::new(Door { node: Arc::clone(&node), addresses });
        let router = table().into_iter().fold(Router::new(), |router, (path, _, to)| router.route(path, to));
        let router = router
            .fallback(async |uri: Uri| Reply::from(Wrong::not_found(uri.path())))
            .method_not_allowed_fallback(async |uri: Uri| method_not_allowed(uri.path()))
            .with_state(door);
        Self { node, gate, hosts, router }
    }

    /// Answers `request` from `peer`. Handlers find out who asks by `Extension<Caller>`.
    pub(crate) async fn answer(&self, peer: IpAddr, mut request: Request<Incoming>) -> Response<Body> {
        // Web pages are turned away before they could learn anything about tokens.
        let admitted = self.hosts.admit(&request);
        match admitted.and_then(|()| self.gate.admit(&self.node.access, peer, &request)) {
            Ok(caller) => request.extensions_mut().insert(caller),
            Err(wrong) => return Reply::from(wrong).map(Body::new),
        };
        let Ok(response) = self.router.clone().oneshot(request).await.map_err(|never: Infallible| never);
        response
    }
}

fn method_not_allowed(path: &str) -> Reply {
    let rule = path.starts_with("/v1/rules/") && path != "/v1/rules/validate";
    let known = if rule { "/v1/rules/{rule_id}" } else { path };
    let allowed: Vec<_> = routes().filter(|(path, _)| *path == known).map(|(_, method)| method).collect();
    reply::method_not_allowed(&allowed)
}

async fn scrape(State(door): State<Arc<Door>>) -> Reply {
    match metrics::scrape(&door.node) {
        Ok(metrics) => text(StatusCode::OK, metrics::CONTENT_TYPE, metrics),
        Err(_) => {
            Wrong::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the metrics cannot be written").into()
        }
    }
}
