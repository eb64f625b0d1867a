//! The tower layer in front of an axum service.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, Response, StatusCode};
use axum::routing::get;
use tidegate::core::HoldId;
use tidegate::core::cost::Charge;
use tidegate::{
    Algorithm, Facet, HeaderStyle, Limiter, ManualClock, Quota, RateLimitLayer, Request, Rule, RuleSet,
    RuleSetParts, Span, Timestamp,
};
use tokio::sync::watch;
use tower::ServiceExt;

/// A service limited to 2 per hour and user that counts how often it is reached.
fn service(styles: &[HeaderStyle]) -> (Router, Arc<AtomicU32>) {
    let quota = Quota::new(Algorithm::FixedWindow, 2, Span::from_secs(3_600)).unwrap();
    let parts = RuleSetParts { rules: vec![Rule::new("two", Facet::User, quota)], ..RuleSetParts::default() };
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
    let limiter = Arc::new(Limiter::builder(RuleSet::new(parts).unwrap()).clock(clock).build().unwrap());
    let layer =
        RateLimitLayer::new(limiter, |head| Request { user: head.header("x-user-id"), ..head.request() })
            .headers(styles)
            .documentation_url("https://example.com/limits");
    let reached = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&reached);
    let handler = async move || {
        count.fetch_add(1, Ordering::SeqCst);
        "hello"
    };
    (Router::new().route("/{*path}", get(handler)).layer(layer), reached)
}

async fn ask(service: &Router, path: &str) -> Response<Body> {
    let request = HttpRequest::get(path).header("x-user-id", "alice").body(Body::empty()).unwrap();
    service.clone().oneshot(request).await.unwrap()
}

fn header<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn padded_values_are_refused() {
    let (service, reached) = service(&[HeaderStyle::XRateLimit]);
    for padded in [" alice", "alice ", "\talice"] {
        let request = HttpRequest::get("/orders").header("x-user-id", padded).body(Body::empty()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{padded:?}");
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0);
    assert_eq!(header(&ask(&service, "/orders").await, "x-ratelimit-remaining"), Some("1"));
}

#[tokio::test]
async fn a_header_that_a_rule_reads_has_one_value() {
    let quota = Quota::new(Algorithm::FixedWindow, 1, Span::from_secs(3_600)).unwrap();
    let by_device = Rule::new("device", Facet::Header("x-device".into()), quota);
    let parts = RuleSetParts { rules: vec![by_device], ..RuleSetParts::default() };
    let limiter = Arc::new(Limiter::new(RuleSet::new(parts).unwrap()).unwrap());
    let layer = RateLimitLayer::new(limiter, |head| head.request());
    let service = Router::new().route("/{*path}", get(async || "hello")).layer(layer);
    for (values, status) in [
        (&["a", "b"][..], StatusCode::BAD_REQUEST),
        (&["", "a"], StatusCode::BAD_REQUEST),
        (&["a", "a"], StatusCode::OK),
        (&["a"], StatusCode::TOO_MANY_REQUESTS),
        (&["\u{fc}"], StatusCode::OK),
    ] {
        let request = HttpRequest::get("/orders").header("accept", "a").header("accept", "b");
        let request =
            values.iter().fold(request, |request, value| request.header("x-device", value.as_bytes()));
        let response = service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{values:?}");
    }
}

#[tokio::test]
async fn allowed_goes_on_and_refused_does_not() {
    let (service, reached) = service(&[HeaderStyle::XRateLimit]);
    for left in ["1", "0"] {
        let response = ask(&service, "/orders").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header(&response, "x-ratelimit-limit"), Some("2"));
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some(left));
        assert_eq!(header(&response, "x-ratelimit-reset"), Some("1704070800"));
        assert_eq!(header(&response, "retry-after"), None);
    }
    let response = ask(&service, "/orders").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&response, "retry-after"), Some("3600"));
    assert_eq!(header(&response, "content-type"), Some("application/json"));
    assert_eq!(reached.load(Ordering::SeqCst), 2, "the service is not touched");
    let body: serde_json::Value =
        serde_json::from_slice(&to_bytes(response.into_body(), 4_096).await.unwrap()).unwrap();
    assert_eq!(
        body,
        serde_json::json!({
            "error": "rate_limit_exceeded",
            "message": "You have made 3 requests. Limit is 2 per hour.",
            "retry_after": 3600,
            "documentation_url": "https://example.com/limits",
        })
    );
}

/// The layer does not tell responses, so whoever hangs up before one has paid already.
#[tokio::test]
async fn a_charge_is_taken_at_once() {
    let quota = Quota::new(Algorithm::FixedWindow, 2, Span::from_secs(3_600)).unwrap();
    let charge = Charge { header: None, statuses: vec![401..=401], within: Span::from_secs(60) };
    let rule = Rule { charge: Some(Box::new(charge)), ..Rule::new("log_ins", Facet::Global, quota) };
    let parts = RuleSetParts { rules: vec![rule], ..RuleSetParts::default() };
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
    let limiter =
        Arc::new(Limiter::builder(RuleSet::new(parts).unwrap()).clock(clock.clone()).build().unwrap());
    // An extractor that asks for a hold as programs do that settle it.
    let layer = RateLimitLayer::new(limiter, |head| Request { hold: Some(HoldId([1, 1])), ..head.request() });
    let service = Router::new().route("/{*path}", get(async || "hello")).layer(layer);
    for status in [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(ask(&service, "/login").await.status(), status);
    }
    clock.advance(Span::from_secs(60));
    assert_eq!(ask(&service, "/login").await.status(), StatusCode::TOO_MANY_REQUESTS, "for good");
}

async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

/// A slot is given back when the service has responded, or when nobody waits for that any more.
#[tokio::test]
async fn requests_in_flight_are_limited() {
    let quota = Quota::new(Algorithm::InFlight, 2, Span::from_secs(3_600)).unwrap();
    let rule = Rule::new("at_once", Facet::Global, quota);
    let parts = RuleSetParts { rules: vec![rule], ..RuleSetParts::default() };
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
    let limiter = Arc::new(Limiter::builder(RuleSet::new(parts).unwrap()).clock(clock).build().unwrap());
    let layer = RateLimitLayer::new(limiter, |head| head.request())
        .headers([HeaderStyle::XRateLimit, HeaderStyle::Ietf]);
    let (open, gate) = watch::channel(false);
    let handler = async move || {
        gate.clone().wait_for(|open| *open).await.unwrap();
        "hello"
    };
    let service = Router::new().route("/{*path}", get(handler)).layer(layer);
    let (mut first, mut second) = (Box::pin(ask(&service, "/a")), Box::pin(ask(&service, "/b")));
    assert!(is_pending(&mut first).await && is_pending(&mut second).await);
    let refused = ask(&service, "/c").await;
    assert_eq!(
        (refused.status(), header(&refused, "retry-after")),
        (StatusCode::TOO_MANY_REQUESTS, Some("1"))
    );
    assert_eq!(header(&refused, "ratelimit-policy"), Some("\"at_once\";q=2;qu=\"concurrent-requests\""));
    assert_eq!(header(&refused, "ratelimit"), Some("\"at_once\";r=0;t=1"));
    drop(second);
    let mut third = Box::pin(ask(&service, "/c"));
    assert!(is_pending(&mut third).await, "it is with the service");
    assert_eq!(ask(&service, "/d").await.status(), StatusCode::TOO_MANY_REQUESTS);
    open.send(true).unwrap();
    for response in [first.await, third.await, ask(&service, "/d").await, ask(&service, "/e").await] {
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn the_ietf_fields_are_there_when_asked_for() {
    let (service, _) = service(&[HeaderStyle::Ietf]);
    let response = ask(&service, "/orders").await;
    assert_eq!(header(&response, "ratelimit-policy"), Some("\"two\";q=2;w=3600"));
    assert_eq!(header(&response, "ratelimit"), Some("\"two\";r=1;t=3600"));
    assert_eq!(header(&response, "x-ratelimit-limit"), None);
}

#[tokio::test]
async fn a_path_that_is_none_is_the_clients_mistake() {
    let (service, reached) = service(&[HeaderStyle::XRateLimit]);
    assert_eq!(ask(&service, "/a%00b").await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

/// A check may be spawned, and so move between threads while it waits.
#[tokio::test]
async fn a_check_can_be_spawned() {
    let quota = Quota::new(Algorithm::FixedWindow, 1, Span::from_secs(3_600)).unwrap();
    let parts =
        RuleSetParts { rules: vec![Rule::new("one", Facet::Global, quota)], ..RuleSetParts::default() };
    let limiter = Arc::new(Limiter::new(RuleSet::new(parts).unwrap()).unwrap());
    let check = async move { limiter.check(&Request::new("/")).await.is_ok_and(|checked| checked.allowed) };
    assert!(tokio::spawn(check).await.unwrap());
}
