//! How the gateway says no.

use serde_json::json;
use tidegate_gateway::RefusalFormat;
use tidegate_testkit::Backend;

use crate::client::{Client, request, with_headers};
use crate::support::Setup;

const NONE: &str = "rules:\n  - {rule_id: none, identifier_type: ip_address, limit: 0, window: 1h, algorithm: fixed_window}\n";
const ONE: &str = "rules:\n  - {rule_id: one, identifier_type: ip_address, limit: 1, window: 1h, algorithm: fixed_window}\n";

#[tokio::test]
async fn in_the_form_that_the_client_wants() {
    let backend = Backend::start();
    for (format, accept, kind) in [
        (RefusalFormat::Json, "*/*", "application/json"),
        (RefusalFormat::Json, "text/plain", "text/plain; charset=utf-8"),
        (RefusalFormat::Problem, "*/*", "application/problem+json"),
        (RefusalFormat::Problem, "text/plain", "text/plain; charset=utf-8"),
    ] {
        let setup = Setup::to(&[backend.address()]).rules(ONE).gateway(|gateway| gateway.refusals = format);
        let gateway = setup
            .node(|node| node.documentation_url = Some("https://docs.example/limits".into()))
            .start()
            .await;
        let before = backend.requests();
        for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
            client.get("/").await;
            let told = client.ask(with_headers(request("GET", "/"), &[("accept", accept)])).await;
            assert_eq!((told.status, told.header("content-type")), (429, Some(kind)));
            let retry: u64 = told.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=3600).contains(&retry));
            assert_eq!(told.header("x-ratelimit-limit"), Some("1"));
            assert_eq!(told.header("x-ratelimit-remaining"), Some("0"));
            match kind {
                "application/json" => {
                    let body = told.json();
                    assert_eq!(body["error"], "rate_limit_exceeded");
                    assert_eq!(body["retry_after"], json!(retry));
                    assert_eq!(body["documentation_url"], "https://docs.example/limits");
                }
                "application/problem+json" => {
                    let body = told.json();
                    assert_eq!((&body["status"], &body["title"]), (&json!(429), &json!("Too Many Requests")));
                    assert_eq!(body["type"], "https://docs.example/limits");
                    assert_eq!(body["retry_after"], json!(retry));
                }
                _ => assert!(told.body.ends_with(".\n") && !told.body.contains('{'), "{told:?}"),
            }
        }
        assert_eq!(backend.requests(), before + 1, "the second client had nothing left");
    }
}

#[tokio::test]
async fn a_head_has_no_body_whatever_it_says() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(NONE).start().await;
    for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
        for _ in 0..2 {
            let told = client.ask(request("HEAD", "/")).await;
            assert_eq!((told.status, told.body.as_str()), (429, ""));
        }
    }
    assert_eq!(backend.requests(), 0);
}

/// The body of what is refused is not waited for.
#[tokio::test]
async fn who_sends_a_lot_is_refused_at_once() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(NONE).start().await;
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nbegin";
    let text = gateway.raw(head.as_bytes()).await;
    assert!(text.starts_with("HTTP/1.1 429"), "{text}");
    assert_eq!(backend.requests(), 0);
}
