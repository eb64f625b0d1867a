//! White space around the values of headers, which HTTP/2 lets through to whoever reads them.

use tidegate_testkit::Backend;

use crate::client::{Client, request, with_headers};
use crate::support::Setup;

const RULES: &str = "
rules:
  - {rule_id: per_key, identifier_type: 'header:x-key', limit: 2, window: 1h}
  - {rule_id: blocked, identifier_type: global, limit: 0, window: 1h, match: {required_headers: {x-blocked: '1'}}}
";

#[tokio::test]
async fn a_padded_value_is_refused_before_anything_reads_it() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(RULES).start().await;
    let mut client = Client::http2(gateway.at.listen).await;
    for padded in [" a", "a ", "\ta", "a\t", " "] {
        let told = client.ask(with_headers(request("GET", "/"), &[("x-key", padded)])).await;
        assert_eq!(told.status, 400, "{padded:?}");
        assert_eq!(told.json()["field"], "x-key");
        let blocked = [("x-key", "b"), ("x-blocked", padded)];
        assert_eq!(client.ask(with_headers(request("GET", "/"), &blocked)).await.status, 400, "{padded:?}");
    }
    assert_eq!(backend.requests(), 0, "none of them is passed on");
    // Nor has any of them taken anything.
    for expected in [200, 200, 429] {
        let told = client.ask(with_headers(request("GET", "/"), &[("x-key", "a")])).await;
        assert_eq!(told.status, expected);
    }
    // HTTP/1 means the same with and without it.
    let mut client = Client::http1(gateway.at.listen).await;
    for padded in [" a", "a\t"] {
        let told = client.ask(with_headers(request("GET", "/"), &[("x-key", padded)])).await;
        assert_eq!(told.status, 429, "{padded:?}");
    }
}
