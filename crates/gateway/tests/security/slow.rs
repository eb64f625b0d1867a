//! Clients that take their time, so that others find no room.

use std::io::ErrorKind;
use std::time::Duration;

use tidegate_gateway::GatewayConfig;
use tidegate_testkit::Backend;
use tokio::io::Interest;

use crate::frames::{DATA, Duplex, END_HEADERS, HEADERS, Outcome, block, fields, frame, request};
use crate::hostile::{Hostile, Then};
use crate::support::{DEADLINE, Setup};
use crate::wire::{Wire, assert_serves, get};

const SHORT: Duration = Duration::from_millis(300);
const NEVER: Duration = Duration::from_secs(600);

/// More than the buffers of two connections, and of all between them, hold.
pub(crate) const LARGE: usize = 64 * 1024 * 1024;

/// Waits for one thing only.
fn patient(config: &mut GatewayConfig) {
    config.patience.head = NEVER;
    config.patience.idle = NEVER;
    config.patience.take = NEVER;
    config.body_timeout = NEVER;
}

/// Dribbles until the other side hangs up.
async fn dribble(wire: &mut Wire, byte: &[u8]) {
    let hung_up = async {
        while wire.send(byte).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, hung_up).await.expect("it hangs up");
}

#[tokio::test]
async fn heads_must_come_in_time() {
    let backend = Backend::start();
    let setup = Setup::to(&[backend.address()]).gateway(patient);
    let gateway = setup.gateway(|config| config.patience.head = SHORT).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    wire.send("GET / HTTP/1.1\r\nhost: api.example\r\nx-slow: ").await;
    dribble(&mut wire, b"a").await;
    // The second request of a connection as well.
    let mut wire = Wire::to(gateway.at.listen).await;
    assert_eq!(wire.ask(get("/first")).await.unwrap().status, 200);
    wire.send("G").await;
    dribble(&mut wire, b"E").await;
    // And who says nothing at all.
    Wire::to(gateway.at.listen).await.rest().await;
    // Whoever begins with HTTP/2 and asks for nothing is no better.
    Duplex::to(gateway.at.listen, &[]).await.ended().await;
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    duplex.send(&frame(HEADERS, 0, 1, &block(&fields("GET", "/", &[])))).await;
    duplex.ended().await;
    assert_eq!(backend.requests(), 1);
    assert_serves(gateway.at.listen).await;
}

#[tokio::test]
async fn idle_connections_end() {
    let backend = Backend::start();
    let setup = Setup::to(&[backend.address()]).gateway(patient);
    let gateway = setup.gateway(|config| config.patience.idle = SHORT).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    assert_eq!(wire.ask(get("/first")).await.unwrap().status, 200);
    wire.rest().await;
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    duplex.send(&request(1, "/first")).await;
    assert!(matches!(duplex.outcome(1).await, Outcome::Answered(Some(200), _)));
    duplex.ended().await;
}

#[tokio::test]
async fn an_answer_that_nobody_takes_is_cut_off() {
    let hostile = Hostile::says(
        "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n",
        Then::Repeat(&[b'a'; 64 * 1024]),
    )
    .await;
    let setup = Setup::to(&[hostile.address]).gateway(patient);
    let gateway = setup.gateway(|config| config.patience.take = SHORT).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    wire.send(get("/large")).await;
    wait_for("the back end is asked", || hostile.open() == 1).await;
    wait_for("the back end is let go", || hostile.open() == 0).await;
    assert!(hostile.repeated() < LARGE, "nothing is piled up for who does not take it");
}

#[tokio::test]
async fn bodies_must_come_in_time_and_cost_the_back_end_no_connection() {
    let hostile = Hostile::says("", Then::Listen).await;
    let setup = Setup::to(&[hostile.address]).gateway(patient);
    let gateway = setup.gateway(|config| config.body_timeout = SHORT).start().await;
    for body in ["content-length: 100\r\n\r\nhello", "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        let mut wire = Wire::to(gateway.at.listen).await;
        let answer = wire.ask(format!("POST / HTTP/1.1\r\nhost: a\r\n{body}")).await.unwrap();
        assert_eq!(answer.status, 408, "{answer:?}");
        wire.rest().await;
    }
    for body in [None, Some(&b"hello"[..])] {
        let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
        duplex.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields("POST", "/", &[])))).await;
        if let Some(body) = body {
            duplex.send(&frame(DATA, 0, 1, body)).await;
        }
        let outcome = duplex.outcome(1).await;
        assert!(
            matches!(&outcome, Outcome::Answered(None, body) if body.contains("body_timeout")),
            "{outcome:?}"
        );
    }
    wait_for("the back end is let go", || hostile.open() == 0).await;
}

/// A body that its server does not take is not piled up either, and somebody is told.
#[tokio::test]
async fn a_body_that_nobody_takes_is_given_up() {
    let hostile = Hostile::says("", Then::Sulk).await;
    let routes = format!(
        "upstreams:\n  one: {{servers: 'http://{}', response_timeout: 1s}}\nroutes:\n  - {{upstream: one}}\n",
        hostile.address
    );
    let gateway = Setup::by(&routes).gateway(patient).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    wire.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n").await;
    let (mut taken, piece) = (0, vec![b'a'; 64 * 1024]);
    while taken < LARGE {
        // It ends with an answer, or with the connection.
        let ready = wire.stream.ready(Interest::READABLE | Interest::WRITABLE);
        let ready = tokio::time::timeout(DEADLINE, ready).await.expect("it ends").unwrap();
        match wire.stream.try_write(&piece) {
            _ if ready.is_readable() => break,
            Ok(sent) => taken += sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    assert!(taken < LARGE, "it takes anything");
    let answer = wire.answer().await;
    assert!(answer.as_ref().is_none_or(|answer| answer.status == 504), "{answer:?}");
    assert_eq!(hostile.heads(), 1, "it is not tried again");
}

/// Waits for a condition that may have come about already, or never will.
pub(crate) async fn wait_for_a_while(mut condition: impl FnMut() -> bool) {
    for _ in 0..20 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for a condition, letting the gateway go on.
pub(crate) async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(DEADLINE, holds).await;
    assert!(in_time.is_ok(), "waited in vain until {what}");
}
