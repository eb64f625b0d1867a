//! The tower layer in front of an axum service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, Response, StatusCode};
use axum::routing::post;
use tidegate::core::rule::OnStoreFailure::{self, Allow, Deny};
use tidegate::{RateLimitLayer, Request};
use tower::ServiceExt;

use crate::fake::Say::{self, No, Unavailable, Yes};
use crate::fake::{Fake, limiter};

/// What a client of a limited service that echoes gets, and whether the service was reached.
async fn ask(policy: OnStoreFailure, says: Say, path: &str) -> (Response<Body>, bool) {
    let limiter = Arc::new(limiter(&Fake::new(&[says]), &[policy]));
    let layer =
        RateLimitLayer::new(limiter, |head| Request { user: head.header("x-user-id"), ..head.request() });
    let reached = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&reached);
    let handler = async move |body: String| {
        count.fetch_add(1, Ordering::SeqCst);
        body
    };
    let service = Router::new().route("/{*path}", post(handler)).layer(layer);
    let request = HttpRequest::post(path).header("x-user-id", "alice").body(Body::from("hello")).unwrap();
    let response = tokio::spawn(service.oneshot(request)).await.unwrap().unwrap();
    (response, reached.load(Ordering::SeqCst) == 1)
}

fn header<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

async fn body(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), 4_096).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn allowed_goes_on_as_it_came() {
    let (response, reached) = ask(Deny, Yes, "/orders").await;
    assert_eq!((response.status(), reached), (StatusCode::OK, true));
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("4"));
    assert_eq!(header(&response, "x-ratelimit-status"), None);
    assert_eq!(body(response).await, "hello");
}

#[tokio::test]
async fn refused_does_not() {
    let (response, reached) = ask(Deny, No, "/orders").await;
    assert_eq!((response.status(), reached), (StatusCode::TOO_MANY_REQUESTS, false));
    assert_eq!(header(&response, "retry-after"), Some("60"));
}

#[tokio::test]
async fn failed_open_goes_on_and_says_so() {
    let (response, reached) = ask(Allow, Unavailable, "/orders").await;
    assert_eq!((response.status(), reached), (StatusCode::OK, true));
    assert_eq!(header(&response, "x-ratelimit-status"), Some("disabled"));
    assert_eq!(header(&response, "x-ratelimit-limit"), None);
    assert_eq!(body(response).await, "hello");
}

#[tokio::test]
async fn failed_closed_is_not_the_clients_fault() {
    let (response, reached) = ask(Deny, Unavailable, "/orders").await;
    assert_eq!((response.status(), reached), (StatusCode::SERVICE_UNAVAILABLE, false));
    assert_eq!(header(&response, "retry-after"), Some("1"));
    let body: serde_json::Value = serde_json::from_str(&body(response).await).unwrap();
    assert_eq!(body["error"], "unavailable");
}

#[tokio::test]
async fn a_path_that_is_none_is_the_clients_mistake() {
    let (response, reached) = ask(Deny, Yes, "/a%00b").await;
    assert_eq!((response.status(), reached), (StatusCode::BAD_REQUEST, false));
}
