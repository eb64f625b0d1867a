//! Requests within requests: whoever reads a message's end elsewhere than the gateway would take the rest for another.

use std::fs;

use tidegate_testkit::{Backend, ReverseProxy};

use crate::frames::{DATA, Duplex, END_HEADERS, END_STREAM, HEADERS, Outcome, block, fields, frame};
use crate::support::{DEADLINE, Running, Setup};
use crate::wire::{Wire, get};

/// What may come of a case.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The back end hears nothing, the connection ends.
    Refused,
    /// The head was fine, the body is not: the back end may have heard that there is a request. The connection ends.
    Broken,
    /// There is one way to read it, but it is odd: it is answered, and the connection ends.
    Last,
    /// It is one request, and the connection goes on.
    Plain,
    /// It may be refused, or be one request, but not two.
    Whole,
}

use Expected::{Broken, Last, Plain, Refused, Whole};

/// What comes after the first line and the host. Wherever it says `SMUGGLED`, there is a request that nobody sent.
const CASES: &[(&str, Expected, &str)] = &[
    (
        "length, then chunked",
        Last,
        "content-length: 60\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "chunked, then length",
        Last,
        "transfer-encoding: chunked\r\ncontent-length: 60\r\n\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "a short length, and chunked",
        Last,
        "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nSMUGGLED",
    ),
    ("chunked twice", Refused, "transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\nSMUGGLED"),
    (
        "chunked in two lines",
        Refused,
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "chunked, then something else",
        Refused,
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "something else, then chunked",
        Refused,
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nSMUGGLED",
    ),
    ("nearly chunked", Refused, "transfer-encoding: xchunked\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("chunked in quotes", Refused, "transfer-encoding: \"chunked\"\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("chunked with a parameter", Refused, "transfer-encoding: chunked;q=1\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("chunked is not the last", Refused, "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("compressed, then chunked", Refused, "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\nSMUGGLED"),
    (
        "an unknown encoding and a length",
        Refused,
        "transfer-encoding: cow\r\ncontent-length: 5\r\n\r\nhelloSMUGGLED",
    ),
    ("an empty encoding", Refused, "transfer-encoding: \r\ncontent-length: 5\r\n\r\nhelloSMUGGLED"),
    ("a vertical tab before it", Refused, "transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("a space before the colon", Refused, "transfer-encoding : chunked\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("a tab before the colon", Refused, "content-length\t: 60\r\n\r\nSMUGGLED"),
    ("a folded line", Refused, "transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("a folded value", Refused, "x-a: b\r\n\tcontent-length: 60\r\n\r\nSMUGGLED"),
    ("a line that begins with a space", Refused, " transfer-encoding: chunked\r\n\r\n0\r\n\r\nSMUGGLED"),
    ("a NUL in a value", Refused, "x-a: b\0c\r\n\r\nSMUGGLED"),
    ("a NUL in a name", Refused, "x\0a: b\r\n\r\nSMUGGLED"),
    ("a bare CR in a value", Refused, "x-a: b\rcontent-length: 60\r\n\r\nSMUGGLED"),
    ("a bare CR for a line end", Refused, "x-a: b\r\rSMUGGLED"),
    ("a line without a colon", Refused, "content-length 60\r\n\r\nSMUGGLED"),
    ("an empty name", Refused, ": 60\r\n\r\nSMUGGLED"),
    ("two lengths", Refused, "content-length: 0\r\ncontent-length: 60\r\n\r\nSMUGGLED"),
    ("a list of lengths", Refused, "content-length: 60, 60\r\n\r\nSMUGGLED"),
    ("a list of different lengths", Refused, "content-length: 0, 60\r\n\r\nSMUGGLED"),
    ("a length with a plus", Refused, "content-length: +60\r\n\r\nSMUGGLED"),
    ("a negative length", Refused, "content-length: -1\r\n\r\nSMUGGLED"),
    ("a length with a space in it", Refused, "content-length: 6 0\r\n\r\nSMUGGLED"),
    ("a hexadecimal length", Refused, "content-length: 0x3c\r\n\r\nSMUGGLED"),
    ("an empty length", Refused, "content-length: \r\n\r\nSMUGGLED"),
    ("a fraction", Refused, "content-length: 5.0\r\n\r\nhelloSMUGGLED"),
    ("a length beyond all numbers", Refused, "content-length: 18446744073709551616\r\n\r\nSMUGGLED"),
    ("a length that is nearly one", Refused, "content-length: 18446744073709551615\r\n\r\nSMUGGLED"),
    ("a length with a zero before it", Refused, "content-length: 060\r\n\r\nSMUGGLED"),
    ("the same length in two ways", Refused, "content-length: 060\r\ncontent-length: 60\r\n\r\nSMUGGLED"),
    (
        "the same length in another way",
        Plain,
        "content-length: LENGTH\r\ncontent-length: 0LENGTH\r\n\r\nSMUGGLED",
    ),
    ("a length that is negative to some", Refused, "content-length: 9223372036854775808\r\n\r\nSMUGGLED"),
    ("a negative chunk", Broken, "transfer-encoding: chunked\r\n\r\n-1\r\n\r\nSMUGGLED"),
    ("a chunk with a plus", Broken, "transfer-encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\nSMUGGLED"),
    ("a chunk with a prefix", Broken, "transfer-encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\nSMUGGLED"),
    ("a chunk beyond all numbers", Broken, "transfer-encoding: chunked\r\n\r\n10000000000000000\r\nSMUGGLED"),
    ("a chunk without a size", Broken, "transfer-encoding: chunked\r\n\r\n\r\nSMUGGLED"),
    (
        "a chunk that is longer than it says",
        Broken,
        "transfer-encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "a chunk that is shorter than it says",
        Broken,
        "transfer-encoding: chunked\r\n\r\n7\r\nhello\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "a chunk that ends with a bare LF",
        Broken,
        "transfer-encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\nSMUGGLED",
    ),
    (
        "a size that ends with a bare LF",
        Broken,
        "transfer-encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "a size that ends with a bare CR",
        Broken,
        "transfer-encoding: chunked\r\n\r\n5\rXhello\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "a bare LF in an extension",
        Broken,
        "transfer-encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\nSMUGGLED",
    ),
    (
        "a bare CR in an extension",
        Broken,
        "transfer-encoding: chunked\r\n\r\n5;a\rX\r\nhello\r\n0\r\n\r\nSMUGGLED",
    ),
    ("a body within its length", Plain, "content-length: LENGTH\r\n\r\nSMUGGLED"),
    ("the same length twice", Plain, "content-length: LENGTH\r\ncontent-length: LENGTH\r\n\r\nSMUGGLED"),
    ("a body within its chunk", Plain, "transfer-encoding: chunked\r\n\r\nCHUNK\r\nSMUGGLED\r\n0\r\n\r\n"),
    (
        "a request in a trailer",
        Plain,
        "transfer-encoding: chunked\r\n\r\n0\r\nx-a: GET /smuggled HTTP/1.1\r\n\r\n",
    ),
    ("an extension", Plain, "transfer-encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n"),
    ("bare LFs in trailers", Whole, "transfer-encoding: chunked\r\n\r\n0\r\nx-a: b\n\nSMUGGLED"),
    ("bare LFs at the end", Whole, "transfer-encoding: chunked\r\n\r\n0\r\n\nSMUGGLED"),
    ("bare CRs in trailers", Whole, "transfer-encoding: chunked\r\n\r\n0\r\nx-a: b\r\rSMUGGLED"),
    ("a NUL in trailers", Whole, "transfer-encoding: chunked\r\n\r\n0\r\nx-a: b\0\r\n\r\nSMUGGLED"),
    (
        "lengths in trailers",
        Plain,
        "trailer: content-length\r\ntransfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 60\r\n\r\n",
    ),
    ("no trailers after all", Whole, "transfer-encoding: chunked\r\n\r\n0\r\nx-a\r\n\r\nSMUGGLED"),
    (
        "its length is named as the connection's",
        Plain,
        "connection: content-length, keep-alive\r\ncontent-length: LENGTH\r\n\r\nSMUGGLED",
    ),
    (
        "its encoding is named as the connection's",
        Plain,
        "connection: transfer-encoding\r\ntransfer-encoding: chunked\r\n\r\nCHUNK\r\nSMUGGLED\r\n0\r\n\r\n",
    ),
];

fn request(index: usize, rest: &str) -> String {
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: api.example\r\n\r\n";
    let rest = rest.replace("LENGTH", &smuggled.len().to_string());
    let rest = rest.replace("CHUNK", &format!("{:x}", smuggled.len())).replace("SMUGGLED", smuggled);
    format!("POST /{index}/first HTTP/1.1\r\nhost: api.example\r\n{rest}")
}

/// Sends each case, with a plain request after it, and checks what the client gets.
async fn send_all(gateway: &Running) {
    for (index, (what, expected, rest)) in CASES.iter().enumerate() {
        let mut wire = Wire::to(gateway.at.listen).await;
        // What is odd ends the connection without the next request being looked at: it is there already.
        wire.send(request(index, rest) + &get(&format!("/{index}/after"))).await;
        let first = wire.answer().await;
        match expected {
            Refused => {
                if let Some(first) = first {
                    assert!([400, 431].contains(&first.status), "{what}: {first:?}");
                }
                assert!(wire.answer().await.is_none(), "{what}: the connection ends");
            }
            Broken => assert!(wire.answer().await.is_none(), "{what}: the connection ends, after {first:?}"),
            Last => {
                assert_eq!(first.expect(what).status, 200, "{what}");
                assert!(wire.answer().await.is_none(), "{what}: the connection ends");
            }
            Whole => {}
            Plain => {
                assert_eq!(first.expect(what).status, 200, "{what}");
                assert_eq!(wire.answer().await.expect(what).status, 200, "{what}");
            }
        }
    }
}

/// The paths of a case that a back end may hear of.
fn may_hear(index: usize, expected: Expected, heard: &[&str]) {
    let mine = format!("/{index}/");
    let heard: Vec<&str> = heard.iter().filter_map(|path| path.strip_prefix(&mine)).collect();
    let what = CASES[index].0;
    match expected {
        Refused => assert!(heard.is_empty(), "{what}: {heard:?}"),
        Broken => assert!(heard.is_empty() || heard == ["first"], "{what}: {heard:?}"),
        Last => assert_eq!(heard, ["first"], "{what}"),
        Plain => assert_eq!(heard, ["first", "after"], "{what}"),
        Whole => assert!(["first", "after"].starts_with(&heard), "{what}: {heard:?}"),
    }
}

#[tokio::test]
async fn nginx_hears_no_request_that_was_not_plainly_sent() {
    let nginx = tokio::task::spawn_blocking(|| {
        ReverseProxy::nginx(|place| {
            format!(
                "events {{}} pid nginx.pid; http {{ client_body_temp_path a; proxy_temp_path b; \
                 fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e; log_format asked '$request_uri'; \
                 access_log asked.log asked; server {{ listen {}; return 200 fine; }} }}",
                place.listener
            )
        })
    });
    let nginx = nginx.await.unwrap();
    let gateway = Setup::to(&[nginx.address()]).start().await;
    send_all(&gateway).await;
    assert_eq!(crate::wire::ask(gateway.at.listen, get("/end")).await.unwrap().status, 200);
    let log = nginx.folder().join("asked.log");
    let log = tokio::task::spawn_blocking(move || {
        tidegate_testkit::wait::until("the last request is logged", DEADLINE, || {
            fs::read_to_string(&log).ok().filter(|text| text.lines().any(|line| line == "/end"))
        })
    });
    let log = log.await.unwrap();
    let heard: Vec<&str> = log.lines().collect();
    assert!(!heard.contains(&"/smuggled"), "{log}");
    for (index, (_, expected, _)) in CASES.iter().enumerate() {
        may_hear(index, *expected, &heard);
    }
}

#[tokio::test]
async fn hyper_hears_no_request_that_was_not_plainly_sent() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    send_all(&gateway).await;
    let least = CASES.iter().map(|(_, expected, _)| match expected {
        Refused | Broken | Whole => 0,
        Last => 1,
        Plain => 2,
    });
    let least: usize = least.sum();
    let most = CASES.iter().map(|(_, expected, _)| match expected {
        Refused => 0,
        Broken | Last => 1,
        Plain | Whole => 2,
    });
    let most: usize = most.sum();
    let heard = backend.requests();
    assert!((least..=most).contains(&heard), "{heard} instead of {least} to {most}");
}

#[tokio::test]
async fn older_clients_have_no_chunks() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for connection in ["close", "keep-alive"] {
        let sent = format!(
            "POST /first HTTP/1.0\r\nhost: a\r\nconnection: {connection}\r\ntransfer-encoding: chunked\r\n\r\n\
             0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
        );
        let mut wire = Wire::to(gateway.at.listen).await;
        assert_eq!(wire.ask(sent).await.unwrap().status, 400);
        assert!(wire.answer().await.is_none());
    }
    assert_eq!(backend.requests(), 0);
}

#[tokio::test]
async fn first_lines_are_read_in_one_way() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for first in [
        "GET  /two-spaces HTTP/1.1",
        "GET\t/a-tab HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /a\0b HTTP/1.1",
        "GET /a\rb HTTP/1.1",
        "GET /a HTTP/1.1 more",
        "GET /a HTTP/1.2",
        "GET /a HTTP/2.0",
        "GET /a http/1.1",
        "GET /a",
        "GET HTTP/1.1",
        " GET /a HTTP/1.1",
        "G\u{e9}T /a HTTP/1.1",
        "GET: /a HTTP/1.1",
        "GET a/b HTTP/1.1",
        "GET api.example HTTP/1.1",
        "GET api.example:80 HTTP/1.1",
        "POST api.example:80 HTTP/1.1",
        "OPTIONS api.example HTTP/1.1",
    ] {
        let mut wire = Wire::to(gateway.at.listen).await;
        wire.send(format!("{first}\r\nhost: api.example\r\n\r\n{}", get("/after"))).await;
        let answer = wire.answer().await;
        assert!(answer.as_ref().is_none_or(|answer| answer.status == 400), "{first}: {answer:?}");
        assert_eq!(backend.requests(), 0, "{first}");
    }
}

/// Line ends without CR are taken for line ends (RFC 9112, 2.2) wherever they are, and what is sent on has none: nobody behind the
/// gateway gets to read them in another way.
#[tokio::test]
async fn bare_line_feeds_are_not_passed_on() {
    let hostile =
        crate::hostile::Hostile::says("HTTP/1.1 204 No Content\r\n\r\n", crate::hostile::Then::Listen).await;
    let gateway = Setup::to(&[hostile.address]).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    for (heads, request) in [
        (1, "GET /first HTTP/1.1\nhost: a\nx-a: b\n\n"),
        (2, "GET /first HTTP/1.1\r\nhost: a\r\nx-a: b\nx-c: d\r\n\r\n"),
        (3, "GET /first HTTP/1.1\nhost: a\r\n\n"),
    ] {
        assert_eq!(wire.ask(request).await.unwrap().status, 204, "{request:?}");
        assert_eq!(hostile.heads(), heads);
    }
    let heard = hostile.heard();
    assert!(!heard.replace("\r\n", "").contains(['\r', '\n']), "{heard:?}");
    assert!(heard.contains("\r\nx-a: b\r\nx-c: d\r\n"), "a line of its own, as it was read: {heard:?}");
    // What follows a head that ends so is its body or the next request, as if it had ended with CRLF.
    let smuggled = "POST /first HTTP/1.1\r\nhost: a\r\nx-a: b\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(wire.ask(smuggled).await.unwrap().status, 204);
    crate::slow::wait_for("its body has come", || hostile.heard().ends_with("\r\n\r\nhello")).await;
}

/// What HTTP/2 says several times, HTTP/1.1 says once.
#[tokio::test]
async fn one_length_is_passed_on() {
    let hostile =
        crate::hostile::Hostile::says("HTTP/1.1 204 No Content\r\n\r\n", crate::hostile::Then::Close).await;
    let gateway = Setup::to(&[hostile.address]).start().await;
    let twice =
        "POST /x HTTP/1.1\r\nhost: api.example\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(crate::wire::ask(gateway.at.listen, twice).await.unwrap().status, 204);
    for (lengths, expected) in [
        (&["5"][..], Some(204)),
        (&["5", "5"], Some(204)),
        (&["05"], Some(400)),
        (&["5", "05"], Some(400)),
        (&["9223372036854775808"], Some(400)),
        (&["+5"], None),
        (&["5", "6"], None),
    ] {
        let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
        let more: Vec<_> = lengths.iter().map(|length| ("content-length", length.as_bytes())).collect();
        duplex.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields("POST", "/x", &more)))).await;
        if expected == Some(204) {
            duplex.send(&frame(DATA, END_STREAM, 1, b"hello")).await;
        }
        let outcome = duplex.outcome(1).await;
        match expected {
            Some(status) => {
                assert!(
                    matches!(outcome, Outcome::Answered(Some(known), _) if known == status),
                    "{lengths:?}: {outcome:?}"
                );
            }
            None => assert!(matches!(outcome, Outcome::Reset | Outcome::Gone), "{lengths:?}: {outcome:?}"),
        }
    }
    let heard = hostile.heard();
    assert_eq!(heard.matches("content-length: 5\r\n").count(), 3, "{heard}");
    assert_eq!(heard.matches("content-length").count(), 3, "{heard}");
}

/// Whoever sends no body after all gets no other client's connection into disorder.
#[tokio::test]
async fn a_body_that_is_cut_off_takes_nobody_else_down() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for body in ["content-length: 100\r\n\r\nhello", "transfer-encoding: chunked\r\n\r\n64\r\nhello"] {
        let mut wire = Wire::to(gateway.at.listen).await;
        wire.send(format!("POST /cut HTTP/1.1\r\nhost: api.example\r\n{body}")).await;
        drop(wire);
        let mut other = Wire::to(gateway.at.listen).await;
        for turn in 0..3 {
            let answer = other.ask(get(&format!("/whole/{turn}"))).await.unwrap();
            assert!(answer.body.starts_with(&format!("GET /whole/{turn}\n")), "{answer:?}");
        }
    }
}

/// A body on a request that seldom has one is neither lost nor left for the next request.
#[tokio::test]
async fn every_method_may_have_a_body() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let mut wire = Wire::to(gateway.at.listen).await;
    for method in ["GET", "DELETE", "OPTIONS", "POST", "PATCH", "BREW"] {
        for body in
            ["content-length: 5\r\n\r\nhello", "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
        {
            let sent = format!("{method} /body HTTP/1.1\r\nhost: api.example\r\n{body}");
            let answer = wire.ask(sent).await.unwrap();
            assert!(answer.body.starts_with(&format!("{method} /body\n")), "{answer:?}");
            assert!(answer.body.ends_with("\n\nhello\n"), "{method} {body}: {answer:?}");
        }
    }
}
