//! Whatever is turned back costs the back end nothing, not even a connection.

use tidegate_gateway::GatewayConfig;
use tidegate_testkit::Backend;

use crate::frames::{Duplex, Outcome, request};
use crate::hostile::{Hostile, Then};
use crate::support::Setup;
use crate::wire::{Wire, ask, get};

#[tokio::test]
async fn refusals_never_touch_the_back_end() {
    let hostile = Hostile::says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Then::Listen).await;
    let routes = format!(
        "upstreams:\n  one: {{servers: 'http://{}'}}\nroutes:\n  - {{host: api.example, methods: [GET, POST], upstream: one}}\n",
        hostile.address
    );
    let rules = "rules:\n  - {rule_id: no, identifier_type: global, limit: 0, window: 1h, match: {path_pattern: '/no/*'}}\n";
    let sized = |config: &mut GatewayConfig| config.max_body_bytes = Some(10);
    let gateway = Setup::by(&routes).rules(rules).gateway(sized).start().await;
    for (sent, status) in [
        (get("/no/way"), 429),
        ("POST /no/way HTTP/1.1\r\nhost: api.example\r\ncontent-length: 5\r\n\r\nhello".to_owned(), 429),
        ("POST /no/way HTTP/1.1\r\nhost: api.example\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned(), 429),
        ("POST /no/way HTTP/1.1\r\nhost: api.example\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n".to_owned(), 429),
        ("GET /no/way HTTP/1.1\r\nhost: api.example\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n".to_owned(), 429),
        ("GET /a HTTP/1.1\r\nhost: other.example\r\n\r\n".to_owned(), 404),
        ("PUT /a HTTP/1.1\r\nhost: api.example\r\n\r\n".to_owned(), 404),
        ("TRACE /a HTTP/1.1\r\nhost: api.example\r\n\r\n".to_owned(), 405),
        ("POST /a HTTP/1.1\r\nhost: api.example\r\ncontent-length: 11\r\n\r\nhello world".to_owned(), 413),
        (get("/a%2Fb"), 400),
    ] {
        let answer = ask(gateway.at.listen, &sent).await.unwrap();
        assert_eq!(answer.status, status, "{sent}: {answer:?}");
    }
    // Refusing is cheap, and the connection stays.
    let mut wire = Wire::to(gateway.at.listen).await;
    for _ in 0..200 {
        assert_eq!(wire.ask(get("/no/way")).await.unwrap().status, 429);
    }
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    for stream in 0..50 {
        duplex.send(&request(2 * stream + 1, "/no/way")).await;
        let outcome = duplex.outcome(2 * stream + 1).await;
        assert!(matches!(&outcome, Outcome::Answered(None, _)), "{outcome:?}");
    }
    assert_eq!((hostile.connections(), hostile.heads()), (0, 0));
    assert_eq!(wire.ask(get("/yes")).await.unwrap().status, 200);
    assert_eq!((hostile.connections(), hostile.heads()), (1, 1));
}

/// A refusal does not wait for a body that never comes, and the connection is not used again with the body still to come.
#[tokio::test]
async fn a_refusal_does_not_wait_for_the_body() {
    let hostile = Hostile::says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Then::Listen).await;
    let rules = "rules:\n  - {rule_id: no, identifier_type: global, limit: 0, window: 1h}\n";
    let gateway = Setup::to(&[hostile.address]).rules(rules).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    wire.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(wire.answer().await.unwrap().status, 429);
    assert!(wire.answer().await.is_none(), "the rest of the body is no request");
    assert_eq!(hostile.connections(), 0);
}

/// Requests that come at once are counted one by one.
#[tokio::test]
async fn no_request_hides_behind_another() {
    let backend = Backend::start();
    let rules = "rules:\n  - {rule_id: few, identifier_type: ip_address, algorithm: fixed_window, limit: 3, window: 1h}\n";
    let gateway = Setup::to(&[backend.address()]).rules(rules).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    wire.send(get("/at/once").repeat(10)).await;
    for turn in 0..10 {
        let status = wire.answer().await.unwrap().status;
        assert_eq!(status, if turn < 3 { 200 } else { 429 });
    }
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let all: Vec<u8> = (0..10).flat_map(|stream| request(2 * stream + 1, "/at/once")).collect();
    duplex.send(&all).await;
    assert!(matches!(duplex.outcome(19).await, Outcome::Answered(None, _)));
    assert_eq!(backend.requests(), 3);
}
