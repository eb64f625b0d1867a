//! Back ends that are broken, or were taken over.

use crate::hostile::{Hostile, Then};
use crate::slow::wait_for;
use crate::support::{Running, Setup};
use crate::wire::{Wire, get};

async fn before(hostile: &Hostile) -> Running {
    let routes = format!(
        "upstreams:\n  one: {{servers: 'http://{}', response_timeout: 1s, idle_timeout: 1s, passive: off}}\n\
         routes:\n  - {{upstream: one}}\n",
        hostile.address
    );
    Setup::by(&routes).start().await
}

/// What a client gets, all of it: the connection ends, or there is a whole answer.
async fn got(gateway: &Running) -> String {
    let mut wire = Wire::to(gateway.at.listen).await;
    wire.send("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    String::from_utf8_lossy(&wire.rest().await).into_owned()
}

#[tokio::test]
async fn answers_that_cannot_be_read_are_not_passed_on() {
    let many: String = (0..200).map(|name| format!("x-{name}: 1\r\n")).collect();
    let long = "a".repeat(1024 * 1024);
    for answer in [
        String::new(),
        "nonsense".to_owned(),
        "HTTP/1.1\r\n\r\n".to_owned(),
        "HTTP/1.1 20 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 2000 OK\r\n\r\n".to_owned(),
        "HTTP/3.0 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nx-a\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nx-a : b\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nx-a: b\0c\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nx-a: b\rx-user-id: c\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
        format!("HTTP/1.1 200 OK\r\nx-a: {long}\r\n\r\n"),
        format!("HTTP/1.1 200 {long}\r\n\r\n"),
    ] {
        let hostile = Hostile::says(answer.clone(), Then::Close).await;
        let got = got(&before(&hostile).await).await;
        let shown: String = answer.chars().take(80).collect();
        assert!(got.starts_with("HTTP/1.1 502"), "{shown:?}: {got}");
    }
}

#[tokio::test]
async fn answers_without_end_end() {
    for (answer, again) in [
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\n", "x-a: b\r\n"),
        ("", "\r\n"),
    ] {
        let hostile = Hostile::says(answer, Then::Repeat(again.as_bytes())).await;
        let gateway = before(&hostile).await;
        let got = got(&gateway).await;
        assert!(got.starts_with("HTTP/1.1 50"), "{again:?}: {got}");
        wait_for("it is hung up on", || hostile.open() == 0).await;
    }
    // Nothing, for ever.
    let hostile = Hostile::says("", Then::Echo).await;
    let gateway = before(&hostile).await;
    assert!(got(&gateway).await.starts_with("HTTP/1.1 504"));
    wait_for("it is hung up on", || hostile.open() == 0).await;
    // A body that stops.
    let hostile = Hostile::says("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", Then::Echo).await;
    let gateway = before(&hostile).await;
    let got = got(&gateway).await;
    assert!(got.starts_with("HTTP/1.1 200") && got.ends_with("half"), "{got}");
    wait_for("it is hung up on", || hostile.open() == 0).await;
}

/// A client can tell that the body is not whole: it does not end as it should.
#[tokio::test]
async fn broken_bodies_are_not_made_whole() {
    for (answer, then) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", Then::Close),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", Then::Close),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nx\r\n", Then::Listen),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n-1\r\n\r\n", Then::Listen),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nfffffffffffffffff\r\n",
            Then::Listen,
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalfway\r\n0\r\n\r\n", Then::Listen),
    ] {
        let hostile = Hostile::says(answer, then).await;
        let got = got(&before(&hostile).await).await;
        let whole = got.ends_with("0\r\n\r\n")
            || (got.contains("content-length") && !got.contains("content-length: 10"));
        assert!(got.starts_with("HTTP/1.1 502") || !whole, "{answer:?}: {got}");
    }
}

/// What a back end sends beyond its answer is nobody's answer.
#[tokio::test]
async fn nobody_gets_the_rest_of_another_answer() {
    let poison = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison";
    for first in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nconnection: close, keep-alive\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 204 No Content\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let hostile = Hostile::says(format!("{first}{poison}"), Then::Listen).await;
        let gateway = before(&hostile).await;
        let mut one = Wire::to(gateway.at.listen).await;
        let mut two = Wire::to(gateway.at.listen).await;
        for turn in 0..6 {
            let wire = if turn % 2 == 0 { &mut one } else { &mut two };
            let answer = wire.ask(get("/")).await.expect(first);
            assert!(!answer.body.contains("poison"), "{first:?}: {answer:?}");
            assert!([200, 204, 304].contains(&answer.status), "{first:?}: {answer:?}");
        }
    }
}

/// An answer to `HEAD` has no body, whatever the back end thinks.
#[tokio::test]
async fn a_body_in_answer_to_head_is_nobodys_answer() {
    let hostile = Hostile::says(
        "HTTP/1.1 200 OK\r\ncontent-length: 31\r\n\r\nHTTP/1.1 200 OK\r\nx-poison: 1\r\n\r\n",
        Then::Listen,
    )
    .await;
    let gateway = before(&hostile).await;
    for _ in 0..5 {
        let mut wire = Wire::to(gateway.at.listen).await;
        wire.send("HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        let got = String::from_utf8_lossy(&wire.rest().await).into_owned();
        assert!(got.starts_with("HTTP/1.1 200") && !got.contains("poison"), "{got}");
    }
}

/// A back end has no say in the gateway's connections, and cannot name its headers away.
#[tokio::test]
async fn the_clients_connection_is_not_the_back_ends() {
    let answer = "HTTP/1.1 200 OK\r\nconnection: close, x-ratelimit-limit, date\r\nkeep-alive: timeout=0\r\n\
                  transfer-encoding: chunked\r\nupgrade: h2c\r\nproxy-connection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let hostile = Hostile::says(answer, Then::Close).await;
    let gateway = before(&hostile).await;
    let mut wire = Wire::to(gateway.at.listen).await;
    for _ in 0..3 {
        let answer = wire.ask(get("/")).await.expect("the connection stays");
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
        for name in ["connection:", "keep-alive:", "upgrade:", "proxy-connection:"] {
            assert!(!answer.head.contains(&format!("\r\n{name}")), "{answer:?}");
        }
        assert!(answer.head.contains("ratelimit"), "{answer:?}");
    }
}
