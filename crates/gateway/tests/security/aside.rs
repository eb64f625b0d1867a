//! Clients that would have servers put aside, by requests that come to nothing.

use std::time::Duration;

use tidegate_gateway::GatewayConfig;
use tidegate_testkit::Backend;

use crate::frames::{DATA, Duplex, END_HEADERS, HEADERS, RST_STREAM, block, fields, frame};
use crate::support::{Running, Setup};
use crate::wire::{Wire, ask, get};

/// More than it takes to put any server aside.
const OFTEN: usize = 20;

fn strict(config: &mut GatewayConfig) {
    config.body_timeout = Duration::from_millis(100);
    config.max_body_bytes = Some(1_000);
}

/// Both servers are still asked.
async fn assert_both_in_use(what: &str, gateway: &Running, servers: &[Backend; 2]) {
    let before = [servers[0].requests(), servers[1].requests()];
    for _ in 0..10 {
        assert_eq!(ask(gateway.at.listen, get("/fine")).await.unwrap().status, 200);
    }
    for (server, before) in servers.iter().zip(before) {
        assert!(server.requests() > before, "{what} put a server aside");
    }
}

#[tokio::test]
async fn requests_that_their_client_broke_are_no_servers_fault() {
    let servers = [Backend::start(), Backend::start()];
    let gateway = Setup::to(&[servers[0].address(), servers[1].address()]).gateway(strict).start().await;
    let large = format!("transfer-encoding: chunked\r\n\r\n7d0\r\n{}\r\n0\r\n\r\n", "a".repeat(2_000));
    for (what, body, stays) in [
        ("a body that is cut off", "content-length: 100\r\n\r\nhello", false),
        ("a chunk that is cut off", "transfer-encoding: chunked\r\n\r\n64\r\nhello", false),
        ("a chunk that is none", "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n", true),
        ("a body that is late", "content-length: 100\r\n\r\nhello", true),
        ("a body that is too large", &large, true),
    ] {
        for _ in 0..OFTEN {
            let mut wire = Wire::to(gateway.at.listen).await;
            wire.send(format!("POST /broken HTTP/1.1\r\nhost: api.example\r\n{body}")).await;
            if stays {
                drop(wire.answer().await);
            }
        }
        assert_both_in_use(what, &gateway, &servers).await;
    }
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    for stream in (0..).step_by(2).map(|even| even + 1).take(OFTEN) {
        let head = frame(HEADERS, END_HEADERS, stream, &block(&fields("POST", "/reset", &[])));
        duplex.send(&[head, frame(DATA, 0, stream, b"hello")].concat()).await;
        // Once the server is at it, not before.
        let asked = servers[0].requests() + servers[1].requests();
        let begun = || servers[0].requests() + servers[1].requests() > asked;
        crate::slow::wait_for_a_while(begun).await;
        duplex.send(&frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())).await;
    }
    assert_both_in_use("a reset", &gateway, &servers).await;
}
