//! Ways to have the gateway carry what it does not look at.

use tidegate_testkit::Backend;

use crate::frames::{Duplex, Outcome, request};
use crate::hostile::{Hostile, Then};
use crate::support::Setup;
use crate::wire::{Wire, get};

#[tokio::test]
async fn nothing_is_tunnelled_or_traced() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for ask in [
        "CONNECT api.example:443 HTTP/1.1\r\nhost: api.example:443\r\nconnection: close\r\n\r\n",
        "TRACE / HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\n\r\n",
    ] {
        let answer = gateway.raw(ask.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }
    assert_eq!(backend.requests(), 0);
}

fn switched(protocol: &str) -> String {
    format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n")
}

/// A tunnel of HTTP/2 would carry any number of requests past the limiter.
#[tokio::test]
async fn only_websocket_is_switched_to() {
    for (method, asked) in [
        (
            "GET",
            "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n",
        ),
        ("GET", "connection: upgrade\r\nupgrade: H2C\r\n"),
        ("GET", "connection: upgrade\r\nupgrade: h2c, websocket\r\n"),
        ("GET", "connection: upgrade\r\nupgrade: websocket, h2c\r\n"),
        ("GET", "connection: upgrade\r\nupgrade: h2c\r\nupgrade: websocket\r\n"),
        ("GET", "connection: upgrade\r\nupgrade: websocket\r\nupgrade: h2c\r\n"),
        ("GET", "connection: upgrade\r\nupgrade: TLS/1.0\r\n"),
        ("GET", "connection: upgrade\r\nupgrade: anything\r\n"),
        ("GET", "upgrade: websocket\r\n"),
        ("POST", "connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 0\r\n"),
    ] {
        // A back end that takes up whatever it is offered.
        let hostile = Hostile::says(switched("h2c"), Then::Echo).await;
        let gateway = Setup::to(&[hostile.address]).start().await;
        let mut wire = Wire::to(gateway.at.listen).await;
        wire.send(format!("{method} / HTTP/1.1\r\nhost: a\r\n{asked}\r\n{}", get("/smuggled"))).await;
        let answer = wire.answer().await;
        assert!(answer.as_ref().is_none_or(|answer| answer.status == 502), "{asked}: {answer:?}");
        let heard = hostile.heard();
        assert!(!heard.contains("http2-settings") && !heard.contains("\r\nupgrade: h2c"), "{asked}: {heard}");
    }
}

#[tokio::test]
async fn what_was_not_asked_for_is_not_switched_to() {
    for protocol in ["websocket", "h2c", ""] {
        let hostile = Hostile::says(switched(protocol), Then::Echo).await;
        let gateway = Setup::to(&[hostile.address]).start().await;
        let answer = Wire::to(gateway.at.listen).await.ask(get("/")).await.unwrap();
        assert_eq!(answer.status, 502, "{protocol}: {answer:?}");
        // There is no such thing in HTTP/2.
        let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
        duplex.send(&request(1, "/")).await;
        let outcome = duplex.outcome(1).await;
        assert!(
            matches!(&outcome, Outcome::Answered(None, body) if body.contains("bad_gateway")),
            "{outcome:?}"
        );
    }
    // Whoever asked for one thing does not get another.
    let hostile = Hostile::says(switched("h2c"), Then::Echo).await;
    let gateway = Setup::to(&[hostile.address]).start().await;
    let asked = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let answer = Wire::to(gateway.at.listen).await.ask(asked).await.unwrap();
    assert_eq!(answer.status, 502, "{answer:?}");
}

#[tokio::test]
async fn websocket_is_let_through_once_it_is_allowed() {
    let hostile = Hostile::says(switched("WebSocket"), Then::Echo).await;
    let rules = "rules:\n  - {rule_id: two, identifier_type: global, algorithm: fixed_window, limit: 2, window: 1h}\n";
    let gateway = Setup::to(&[hostile.address]).rules(rules).start().await;
    let asked =
        "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n\r\n";
    for expected in [101, 101, 429] {
        let mut wire = Wire::to(gateway.at.listen).await;
        let answer = wire.ask(asked).await.unwrap();
        assert_eq!(answer.status, expected, "{answer:?}");
        if expected == 101 {
            let echoed = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nping";
            assert_eq!(wire.ask(echoed).await.unwrap().body, "ping");
        }
    }
    assert_eq!(hostile.connections(), 2);
}
