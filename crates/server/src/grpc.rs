//! The gRPC listener: `grpc.health.v1`.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};
use tower::ServiceExt;

use crate::node::Node;
use crate::reply::Wrong;

/// The whole process, in the words of the health protocol.
const EVERYTHING: &str = "";

/// The gRPC listener.
#[derive(Debug)]
pub(crate) struct Grpc {
    node: Arc<Node>,
    router: Router,
}

impl Grpc {
    pub(crate) fn new(node: Arc<Node>) -> (Self, Reporter) {
        let (reporter, health) = health_reporter();
        let router = Routes::new(health).prepare().into_axum_router();
        (Self { node, router }, Reporter(reporter))
    }

    /// Answers `request` from `peer`.
    pub(crate) async fn answer(&self, peer: IpAddr, request: Request<Incoming>) -> Response<Body> {
        if let Err(wrong) = self.node.access.admit(peer, request.headers()) {
            return status(&wrong).into_http();
        }
        let Ok(response) = self.router.clone().oneshot(request).await.map_err(|never: Infallible| never);
        response
    }
}

fn status(wrong: &Wrong) -> Status {
    let code = match wrong.status() {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        _ => Code::PermissionDenied,
    };
    Status::new(code, wrong.message())
}

/// Tells health watchers how things stand.
#[derive(Debug)]
pub(crate) struct Reporter(HealthReporter);

impl Reporter {
    pub(crate) async fn not_serving(&self) {
        self.0.set_service_status(EVERYTHING, ServingStatus::NotServing).await;
    }

    /// Ends all watches, which would otherwise keep their connections busy for good.
    pub(crate) async fn end(&mut self) {
        self.0.clear_service_status(EVERYTHING).await;
    }
}
