//! Spellings of paths: what was decided on is what the back end is asked for.

use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use tidegate_testkit::Backend;

use crate::support::{Running, Setup};
use crate::wire::{Wire, ask, get};

const BLOCKED: &str = "rules:
  - {rule_id: below, identifier_type: global, limit: 0, window: 1h, match: {path_pattern: '/admin/*'}}
  - {rule_id: itself, identifier_type: global, limit: 0, window: 1h, match: {path_pattern: /admin}}
  - {rule_id: all, identifier_type: ip_address, limit: 1000000, window: 1m}
";

/// What the back end is asked for, or the status.
async fn asked(gateway: &Running, target: &str) -> Result<String, u16> {
    let answer = ask(gateway.at.listen, get(target)).await.expect("an answer");
    let line = answer.body.lines().next().and_then(|line| line.strip_prefix("GET ")).map(str::to_owned);
    line.filter(|_| answer.status == 200).ok_or(answer.status)
}

#[tokio::test]
async fn every_spelling_is_read_in_one_way() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(BLOCKED).start().await;
    for (target, expected) in [
        ("/admin", Err(429)),
        ("/admin/", Err(429)),
        ("/admin/users", Err(429)),
        ("//admin//users", Err(429)),
        ("/./admin/users", Err(429)),
        ("/x/../admin/users", Err(429)),
        ("/../../admin/users", Err(429)),
        ("/%61dmin/users", Err(429)),
        ("/%61%64%6d%69%6e", Err(429)),
        ("/x/%2e%2e/admin", Err(429)),
        ("/x/.%2E/admin", Err(429)),
        ("/admin?x", Err(429)),
        ("/admin#x", Err(429)),
        ("/admin/?x=/../..", Err(429)),
        ("http://api.example/admin/users", Err(429)),
        ("HTTP://api.example//admin", Err(429)),
        ("/x%2F..%2Fadmin", Err(400)),
        ("/x%2f%61dmin", Err(400)),
        ("/%5Cadmin", Err(400)),
        ("/x\\..\\admin", Err(400)),
        ("/\\admin", Err(400)),
        ("/%2561dmin", Err(400)),
        ("/%252561dmin", Err(400)),
        ("/x/%252e%252e/admin", Err(400)),
        ("/admin%00", Err(400)),
        ("/%00/../admin", Err(400)),
        ("/x/%c", Err(400)),
        ("/x/%zz/", Err(400)),
        ("/%", Err(400)),
        ("/x/..;/admin", Err(400)),
        ("/x/..;a=b/admin", Err(400)),
        ("/.;/admin", Err(400)),
        ("/x/%2e%2e;/admin", Err(400)),
        ("/x/..%3b/admin", Err(400)),
        ("*", Err(400)),
        ("ftp://api.example/x", Err(400)),
        ("http://user@api.example/x", Err(400)),
        ("/x", Ok("/x")),
        ("/x/", Ok("/x/")),
        ("/x//", Ok("/x/")),
        ("/x/?y=/../admin", Ok("/x/?y=/../admin")),
        ("/x?y=%2F%00%zz", Ok("/x?y=%2F%00%zz")),
        ("/x#/../admin", Ok("/x")),
        ("/x;a=b/y", Ok("/x;a=b/y")),
        ("/x/...", Ok("/x/...")),
        ("/x/%7e%41", Ok("/x/~A")),
        ("/caf\u{e9}", Ok("/caf%C3%A9")),
        ("/%ef%bc%8fadmin", Ok("/%EF%BC%8Fadmin")),
        ("/%c0%afadmin", Err(400)),
        ("http://other.example/x?y", Ok("/x?y")),
        ("http://other.example", Ok("/")),
        ("http://other.example?y", Ok("/?y")),
    ] {
        let got = asked(&gateway, target).await;
        assert_eq!(got.as_deref(), expected.as_deref(), "{target}");
    }
}

/// Bytes that are not UTF-8 need not be encoded to be read in several ways.
#[tokio::test]
async fn a_path_is_utf_8() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(BLOCKED).start().await;
    for path in
        [&b"/caf\xe9"[..], b"/\xc0\xafadmin", b"/x\xff", b"/%c0\xafadmin", b"/caf%e9", b"/%e0%80%afadmin"]
    {
        let line = [b"GET ", path, b" HTTP/1.1\r\nhost: api.example\r\n\r\n"].concat();
        assert_eq!(ask(gateway.at.listen, line).await.unwrap().status, 400, "{path:?}");
    }
    assert_eq!(backend.requests(), 0);
}

/// The request line has the last word on the host, and the back end hears of no other.
#[tokio::test]
async fn a_whole_address_names_the_host() {
    let (one, two) = (Backend::start(), Backend::start());
    let routes = format!(
        "upstreams:\n  one: {{servers: 'http://{}'}}\n  two: {{servers: 'http://{}'}}\nroutes:\n  \
         - {{host: one.example, upstream: one}}\n  - {{host: two.example, upstream: two}}\n",
        one.address(),
        two.address()
    );
    let gateway = Setup::by(&routes).start().await;
    let sent = "GET http://one.example/x HTTP/1.1\r\nhost: two.example\r\n\r\n";
    let answer = ask(gateway.at.listen, sent).await.unwrap();
    assert_eq!((answer.status, one.requests(), two.requests()), (200, 1, 0), "{answer:?}");
    assert!(!answer.body.contains("two.example"), "{answer:?}");
    assert_eq!(answer.body.matches("\nhost: one.example\n").count(), 1, "{answer:?}");
    for hosts in [
        "host: one.example\r\nhost: two.example\r\n",
        "host: one.example\r\nhost: one.example\r\n",
        "host: one.example two.example\r\n",
        "host: one.example, two.example\r\n",
        "host: one.example,two.example\r\n",
        "host: one.example;two.example\r\n",
        "host: one%2eexample\r\n",
        "host: one.example/two\r\n",
        "host: one.example@two.example\r\n",
        "host: one.example:80:90\r\n",
        "host: one.example#\r\n",
        "host: \r\n",
        "",
    ] {
        let answer = ask(gateway.at.listen, format!("GET / HTTP/1.1\r\n{hosts}\r\n")).await.unwrap();
        assert_eq!(answer.status, 400, "{hosts}");
    }
    for (host, status) in
        [("ONE.example", 200), ("one.example:8080", 200), ("one.example.", 200), ("none.example", 404)]
    {
        let answer = ask(gateway.at.listen, format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n")).await.unwrap();
        assert_eq!(answer.status, status, "{host}");
    }
    assert_eq!(two.requests(), 0);
}

/// How a request came is seen from the connection; what its sender calls it does not matter.
#[tokio::test]
async fn a_scheme_is_only_a_word() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let answer = ask(gateway.at.listen, get("https://api.example/x")).await.unwrap();
    assert!(answer.body.starts_with("GET /x\n"), "{answer:?}");
    assert!(answer.body.contains("\nx-forwarded-proto: http\n"), "{answer:?}");
}

#[tokio::test]
async fn nobody_asks_for_everything() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let answer = ask(gateway.at.listen, "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert_eq!((answer.status, backend.requests()), (400, 0));
}

/// A path as the most obliging of back ends reads it: decoded until nothing is left to decode, with backslashes for slashes
/// and without parameters on dots.
fn as_read_by_anybody(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut bytes = path.as_bytes().to_vec();
    loop {
        let mut decoded = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let code = bytes.get(at + 1..at + 3).and_then(|code| std::str::from_utf8(code).ok());
            match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| bytes[at] == b'%') {
                Some(byte) => (decoded.push(byte), at += 3).1,
                None => (decoded.push(bytes[at]), at += 1).1,
            }
        }
        if decoded == bytes {
            break;
        }
        bytes = decoded;
    }
    let text = String::from_utf8_lossy(&bytes).replace('\\', "/");
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" if segment.is_empty() => {}
            "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments.join("/")
}

/// Random spellings, made of what such spellings are made of.
fn spellings() -> impl Strategy<Value = String> {
    static PIECES: OnceLock<Vec<&'static str>> = OnceLock::new();
    let pieces = PIECES.get_or_init(|| {
        let text = "/ / / // /./ /../ admin admin admin %61dmin adm%69n %41dmin admi users x %2e %2E%2e . .. ... ; ..; .; ..%3b; \
             ;a=b %2f %2F %5c \\ %252f %252e %25 %00 % %zz ? # @ : ~ %7E %c3%a9 %c0%ae é %0d%0a %20 * + %2B";
        text.split(' ').filter(|piece| !piece.is_empty()).collect()
    });
    let path = proptest::collection::vec(proptest::sample::select(pieces.clone()), 0..10);
    (proptest::bool::weighted(0.1), path).prop_map(|(whole, path)| {
        format!("{}/{}", if whole { "http://api.example" } else { "" }, path.concat())
    })
}

#[tokio::test]
async fn no_spelling_walks_around_a_rule() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(BLOCKED).start().await;
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let (mut passed, mut blocked, mut refused) = (0, 0, 0);
    let mut wire = Wire::to(gateway.at.listen).await;
    for _ in 0..1_500 {
        let target = spellings().new_tree(&mut runner).unwrap().current();
        let Some(answer) = wire.ask(get(&target)).await else { panic!("{target} is answered") };
        match answer.status {
            200 => {
                let line = answer.body.lines().next().unwrap();
                let path = line.strip_prefix("GET ").unwrap();
                let read = as_read_by_anybody(path);
                assert!(read != "admin" && !read.starts_with("admin/"), "{target} became {path}");
                passed += 1;
            }
            429 => blocked += 1,
            400 => refused += 1,
            other => panic!("{target}: {other}"),
        }
        if answer.head.contains("connection: close") {
            wire = Wire::to(gateway.at.listen).await;
        }
    }
    assert!(passed > 100 && blocked > 20 && refused > 100, "{passed} {blocked} {refused}");
}
