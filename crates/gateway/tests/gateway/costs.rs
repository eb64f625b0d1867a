//! Requests that cost more than one.

use tidegate_testkit::{Backend, Pieces};

use crate::client::{request, with_body, with_headers};
use crate::support::Setup;

const RULES: &str = "
rules:
  - {rule_id: queries, identifier_type: ip_address, limit: 20, window: 1h, algorithm: fixed_window,
     cost: {header: X-Query-Cost, default: 5, max: 10}, match: {path_pattern: /queries}}
  - {rule_id: uploads, identifier_type: ip_address, limit: 10, window: 1h, algorithm: fixed_window,
     cost: {body: 1000, max: 8}, match: {path_pattern: /uploads}}
";

#[tokio::test]
async fn by_a_header() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(RULES).start().await;
    for (cost, left) in
        [(Some("3"), "17"), (None, "12"), (Some("nonsense"), "7"), (Some("0"), "6"), (Some("6"), "0")]
    {
        let headers: Vec<(&'static str, &str)> =
            cost.map(|cost| ("x-query-cost", cost)).into_iter().collect();
        let told = gateway.ask(with_headers(request("GET", "/queries"), &headers)).await;
        assert_eq!((told.status, told.header("x-ratelimit-remaining")), (200, Some(left)), "{cost:?}");
    }
    assert_eq!(gateway.get("/queries").await.status, 429);
    assert_eq!(backend.requests(), 5);
}

#[tokio::test]
async fn by_size() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(RULES).start().await;
    for (bytes, status, left) in [(1, 200, "9"), (2_500, 200, "6"), (6_001, 429, "6"), (0, 200, "5")] {
        let told = gateway.ask(with_body("POST", "/uploads", Pieces::whole(vec![b'x'; bytes]))).await;
        assert_eq!((told.status, told.header("x-ratelimit-remaining")), (status, Some(left)), "{bytes}");
    }
    // Who does not say how much is coming pays for the most.
    let (feeder, body) = Pieces::fed();
    drop(feeder);
    assert_eq!(gateway.ask(with_body("POST", "/uploads", body)).await.status, 429);
    assert_eq!(backend.requests(), 3);
}
