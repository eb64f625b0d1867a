//! What metrics say about the store.

use tidegate_testkit::Redis;

use super::{OPEN, connected_to, series};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_what_the_store_was_asked() {
    let redis = Redis::start();
    let server = connected_to(&redis).await;
    for _ in 0..12 {
        server.check(OPEN).await;
    }
    server.explain(OPEN).await;
    let metric = async |name: &str, labels: &str| server.metric(&series(name, &redis, labels)).await.unwrap();
    let taken = metric("store_operations_total", r#",op="take""#).await;
    let denied = server.metric("tidegate_denied_from_cache_total").await.unwrap();
    assert!(taken >= 11.0 && taken + denied == 12.0, "{taken} and {denied}");
    assert!(metric("store_operations_total", r#",op="peek""#).await >= 1.0);
    let calls = metric("store_calls_total", "").await;
    assert!(calls >= 12.0, "{calls}");
    assert_eq!(metric("store_seconds_count", "").await, calls);
    assert!(metric("store_seconds_sum", "").await > 0.0);
    assert_eq!(server.metric("tidegate_fallback_requests_total").await, Some(0.0));
    let text = server.admin("/metrics").await.text();
    assert!(!text.contains("tidegate_store_errors_total{"), "no failures, no kinds: {text}");
}
