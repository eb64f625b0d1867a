//! The tower layer that sheds requests, in front of an axum service.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use tidegate::LoadShedLayer;
use tidegate::overload::{Headroom, InFlightLimiter, LimitBounds, Share};
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

/// A service that tells of each request that reaches it, and responds when it is opened.
struct Gated {
    service: Router,
    reached: mpsc::UnboundedReceiver<()>,
    open: watch::Sender<bool>,
}

impl Gated {
    fn behind(limiter: &Arc<InFlightLimiter>) -> Self {
        let headroom =
            Headroom::new([("free", Share::percent(50).unwrap()), ("premium", Share::FULL)]).unwrap();
        let layer =
            LoadShedLayer::new(Arc::clone(limiter), move |head| headroom.class(head.header("x-plan")).share);
        let (open, gate) = watch::channel(false);
        let (tell, reached) = mpsc::unbounded_channel();
        let handler = async move || {
            let mut gate = gate.clone();
            tell.send(()).unwrap();
            gate.wait_for(|open| *open).await.ok();
            "served"
        };
        Self { service: Router::new().route("/", get(handler)).layer(layer), reached, open }
    }

    fn ask(&self, plan: &str) -> impl Future<Output = Response<Body>> + use<> {
        let request = Request::get("/").header("x-plan", plan).body(Body::empty()).unwrap();
        let service = self.service.clone();
        async move { service.oneshot(request).await.unwrap() }
    }
}

#[tokio::test]
async fn requests_beyond_the_share_of_their_tier_are_shed() {
    let limiter = InFlightLimiter::fixed(2);
    let mut gated = Gated::behind(&limiter);
    let first = tokio::spawn(gated.ask("free"));
    gated.reached.recv().await.unwrap();
    for seconds in ["1", "2", "3", "1"] {
        let shed = gated.ask("free").await;
        assert_eq!(shed.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(shed.headers()["retry-after"], seconds);
        let body = to_bytes(shed.into_body(), 1_024).await.unwrap();
        assert!(body.starts_with(br#"{"error":"overloaded","message":"#), "{body:?}");
    }
    let second = tokio::spawn(gated.ask("premium"));
    gated.reached.recv().await.unwrap();
    assert_eq!(gated.ask("premium").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    gated.open.send(true).unwrap();
    for task in [first, second] {
        assert_eq!(task.await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(limiter.stats().in_flight, 0);
    assert_eq!(gated.ask("free").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_is_given_up_frees_its_room() {
    let limiter = InFlightLimiter::fixed(1);
    let mut gated = Gated::behind(&limiter);
    let first = tokio::spawn(gated.ask("free"));
    gated.reached.recv().await.unwrap();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(limiter.stats().in_flight, 0);
}

#[tokio::test]
async fn an_adaptive_limit_learns_from_responses() {
    let limiter = InFlightLimiter::adaptive(LimitBounds::default(), Instant::now());
    let gated = Gated::behind(&limiter);
    gated.open.send(true).unwrap();
    while limiter.stats().base_latency.is_none() {
        assert_eq!(gated.ask("free").await.status(), StatusCode::OK);
    }
}
