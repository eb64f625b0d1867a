//! Requests that are too large.

use tidegate_testkit::Backend;

use crate::frames::{
    CONTINUATION, DATA, Duplex, END_HEADERS, END_STREAM, HEADERS, Outcome, block, fields, frame,
};
use crate::hostile::{Hostile, Then};
use crate::support::Setup;
use crate::wire::{Wire, ask, assert_serves};

const HEAD: u32 = 16 * 1024;

#[tokio::test]
async fn large_heads_are_refused() {
    let backend = Backend::start();
    let gateway =
        Setup::to(&[backend.address()]).gateway(|config| config.max_head_bytes = HEAD).start().await;
    let long = "a".repeat(HEAD as usize);
    let many: String = (0..101).map(|name| format!("x-{name}: 1\r\n")).collect();
    let small = "x-a: 12345678901234567890\r\n".repeat(90)
        + &format!("x-b: {}\r\n", "b".repeat(HEAD as usize - 2_000));
    for (what, first, headers) in [
        ("one header", "GET / HTTP/1.1", format!("x-a: {long}\r\n")),
        ("a name", "GET / HTTP/1.1", format!("x-{long}: a\r\n")),
        ("more than fit", "GET / HTTP/1.1", small),
        ("too many", "GET / HTTP/1.1", many),
        ("a path", &format!("GET /{long} HTTP/1.1"), String::new()),
        ("a query", &format!("GET /?{long} HTTP/1.1"), String::new()),
        ("a method", &format!("{long} / HTTP/1.1"), String::new()),
        ("a host", "GET / HTTP/1.1", format!("host: {long}\r\n")),
        ("no end at all", &long.repeat(8), String::new()),
    ] {
        let mut wire = Wire::to(gateway.at.listen).await;
        wire.send(format!("{first}\r\nhost: api.example\r\n{headers}\r\n")).await;
        let answer = wire.answer().await;
        let refused = answer.as_ref().is_none_or(|answer| [400, 414, 431].contains(&answer.status));
        assert!(refused, "{what}: {answer:?}");
        wire.rest().await;
    }
    assert_eq!(backend.requests(), 0);
    assert_serves(gateway.at.listen).await;
}

#[tokio::test]
async fn a_long_path_is_refused_as_such() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let path = |length: usize| format!("/{}", "a".repeat(length - 1));
    let answer = ask(gateway.at.listen, crate::wire::get(&path(8 * 1024 + 1))).await.unwrap();
    assert_eq!(answer.status, 414, "{answer:?}");
    assert_eq!(backend.requests(), 0);
    let answer = ask(gateway.at.listen, crate::wire::get(&path(8 * 1024))).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn a_hundred_headers_are_enough() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    // With the host; the back end counts those that the gateway adds, and has the same limit.
    for (count, status) in [(90, 200), (100, 431), (5_000, 431)] {
        let headers: String = (0..count).map(|name| format!("x{name}:\r\n")).collect();
        let answer =
            ask(gateway.at.listen, format!("GET / HTTP/1.1\r\nhost: a\r\n{headers}\r\n")).await.unwrap();
        assert_eq!(answer.status, status, "{count}: {answer:?}");
    }
    assert_eq!(backend.requests(), 1);
    assert_serves(gateway.at.listen).await;
}

#[tokio::test]
async fn large_heads_of_http2_are_refused() {
    let backend = Backend::start();
    let gateway =
        Setup::to(&[backend.address()]).gateway(|config| config.max_head_bytes = HEAD).start().await;
    let long = vec![b'a'; HEAD as usize];
    let block = block(&fields("GET", "/", &[("x-a", &long)]));
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let (first, rest) = block.split_at(16_000);
    duplex.send(&frame(HEADERS, END_STREAM, 1, first)).await;
    duplex.send(&frame(CONTINUATION, END_HEADERS, 1, rest)).await;
    let outcome = duplex.outcome(1).await;
    // 431 has no number in HPACK.
    assert!(!matches!(outcome, Outcome::Answered(Some(200), _)), "{outcome:?}");
    assert_eq!(backend.requests(), 0);
    assert_serves(gateway.at.listen).await;
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_never_gets_to_the_back_end() {
    let hostile = Hostile::says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Then::Listen).await;
    let gateway =
        Setup::to(&[hostile.address]).gateway(|config| config.max_body_bytes = Some(1_000)).start().await;
    for length in ["1001", "9223372036854775807"] {
        let mut wire = Wire::to(gateway.at.listen).await;
        wire.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\nhello")).await;
        assert_eq!(wire.answer().await.unwrap().status, 413);
        wire.rest().await;
    }
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let head = block(&fields("POST", "/", &[("content-length", b"1001")]));
    duplex.send(&frame(HEADERS, END_HEADERS, 1, &head)).await;
    let outcome = duplex.outcome(1).await;
    assert!(
        matches!(&outcome, Outcome::Answered(None, body) if body.contains("body_too_large")),
        "{outcome:?}"
    );
    assert_eq!(hostile.connections(), 0);
}

#[tokio::test]
async fn a_body_that_turns_out_too_large_never_gets_there_whole() {
    let backend = Backend::start();
    let gateway =
        Setup::to(&[backend.address()]).gateway(|config| config.max_body_bytes = Some(1_000)).start().await;
    let chunk = format!("1f4\r\n{}\r\n", "a".repeat(500));
    let body = |chunks: usize| format!("{}0\r\n\r\n", chunk.repeat(chunks));
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = ask(gateway.at.listen, format!("{head}{}", body(2))).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut wire = Wire::to(gateway.at.listen).await;
    wire.send(format!("{head}{}", body(3))).await;
    let answer = wire.answer().await.unwrap();
    assert_eq!(answer.status, 413, "{answer:?}");

    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    duplex.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields("POST", "/", &[])))).await;
    duplex.send(&frame(DATA, END_STREAM, 1, &[b'a'; 1_001])).await;
    let outcome = duplex.outcome(1).await;
    assert!(
        matches!(&outcome, Outcome::Answered(None, body) if body.contains("body_too_large")),
        "{outcome:?}"
    );
    assert_serves(gateway.at.listen).await;
}

/// A limit that is of no use is no reason to fall over.
#[tokio::test]
async fn a_limit_may_be_smaller_than_can_be() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).gateway(|config| config.max_head_bytes = 1).start().await;
    assert_serves(gateway.at.listen).await;
}
