//! What gets to a back end, and what comes back.

use tidegate_testkit::Backend;

use crate::support::Setup;

#[tokio::test]
async fn what_is_allowed_is_forwarded_and_what_is_not_never_gets_there() {
    let backend = Backend::start();
    let rules = "rules:\n  - {rule_id: two, identifier_type: ip_address, limit: 2, window: 1h, algorithm: fixed_window}\n";
    let gateway = Setup::to(&[backend.address()]).rules(rules).start().await;
    let ask = b"GET //orders/./7?x=1 HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\n\r\n";
    for left in ["1", "0"] {
        let answer = gateway.raw(ask).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&format!("x-ratelimit-remaining: {left}\r\n")), "{answer}");
        assert!(answer.contains("GET /orders/7?x=1\n"), "{answer}");
        assert!(answer.contains("host: api.example\n"), "{answer}");
    }
    let answer = gateway.raw(ask).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("\"error\":\"rate_limit_exceeded\""), "{answer}");
    assert!(answer.contains("retry-after: "), "{answer}");
    assert_eq!(backend.requests(), 2);
    gateway.stop().await.unwrap();
}
