//! Requests within and over a limit.

use serde_json::json;
use tidegate::Span;

use super::{refused, use_up};
use crate::ask::request;
use crate::stand::Recipe;

/// The end of the hour that the server's clock stands at the beginning of.
const HOUR_ENDS: &str = "1704070800";

pub(crate) async fn requests_within_the_limit_pass(recipe: Recipe) {
    let stand = recipe.stand().await;
    // Nobody else's limits are told for ours.
    let others = ["limit", "remaining", "reset", "status"].map(|name| format!("x-ratelimit-{name}"));
    let others = others.iter().map(|name| (name.as_str(), "77")).chain([("x-own", "1")]);
    stand.backend.answer_with(&others.collect::<Vec<_>>());
    for (made, left) in [(1, "2"), (2, "1"), (3, "0")] {
        let answer = stand.get("/orders/7?deny_status=%7E2").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.starts_with("GET /orders/7?deny_status=%7E2\n"), "{answer:?}");
        assert_eq!(answer.figures(), [Some("3"), Some(left), Some(HOUR_ENDS)], "{answer:?}");
        assert_eq!((answer.header("x-ratelimit-status"), answer.header("retry-after")), (None, None));
        assert_eq!(answer.header("x-own"), Some("1"), "{answer:?}");
        assert!(answer.body.contains("\nhost: api.example\n"), "{answer:?}");
        assert_eq!(stand.backend.requests(), made);
    }
    let answer = stand.get("/no-rule").await;
    assert_eq!((answer.status, answer.figures()), (200, [None; 3]), "{answer:?}");
    assert_eq!(answer.header("x-ratelimit-status"), None);
}

pub(crate) async fn bodies_arrive(recipe: Recipe) {
    let stand = recipe.stand().await;
    let body = "0123456789".repeat(10_000);
    let upload = request("POST", "/uploads", &[("Content-Type", "text/plain")], &body);
    let answer = stand.ask(&upload).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, Some("1")), "{answer:?}");
    assert!(answer.body.starts_with("POST /uploads\n"), "{answer:?}");
    assert!(answer.body.contains(&body), "what arrived has {} bytes", answer.body.len());
    refused(&stand.ask(&upload).await);
    assert_eq!(stand.backend.requests(), 1);
}

pub(crate) async fn requests_over_the_limit_stay_outside(recipe: Recipe) {
    let stand = recipe.stand().await;
    use_up(&stand, "/orders/7").await;
    let answer = stand.get("/orders/8").await;
    refused(&answer);
    assert_eq!(answer.figures(), [Some("3"), Some("0"), Some(HOUR_ENDS)], "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("3600"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["retry_after"], 3600);

    let answer = stand.get("/blocked").await;
    refused(&answer);
    assert_eq!((answer.header("retry-after"), &answer.json()["retry_after"]), (None, &json!(null)));
    assert_eq!(stand.backend.requests(), 3);

    stand.tidegate.clock.advance(Span::from_millis(3_600_000));
    assert_eq!(stand.get("/orders/7").await.status, 200);
    assert_eq!(stand.backend.requests(), 4);
}
