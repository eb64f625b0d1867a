//! HTTP/2 has lengths of its own and lets any byte be in a header; what HTTP/1.1 is made of it must not.

use tidegate_testkit::Backend;

use crate::frames::{DATA, Duplex, END_HEADERS, END_STREAM, HEADERS, Outcome, block, fields, frame};
use crate::hostile::{Hostile, Then};
use crate::support::{Running, Setup};
use crate::wire::assert_serves;

type Fields<'f> = Vec<(&'f [u8], &'f [u8])>;

/// Sends a request, with a body if there is one, on a connection of its own.
async fn ask(gateway: &Running, fields: &Fields<'_>, body: Option<&[u8]>) -> Outcome {
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let end = if body.is_none() { END_STREAM } else { 0 };
    let mut sent = frame(HEADERS, END_HEADERS | end, 1, &block(fields));
    sent.extend(body.map(|body| frame(DATA, END_STREAM, 1, body)).unwrap_or_default());
    duplex.send(&sent).await;
    duplex.outcome(1).await
}

/// Nothing but a refusal may come of it.
fn assert_refused(what: &str, outcome: &Outcome) {
    let refused = match outcome {
        Outcome::Answered(status, _) => *status == Some(400),
        Outcome::Reset | Outcome::Gone => true,
    };
    assert!(refused, "{what}: {outcome:?}");
}

#[tokio::test]
async fn a_length_that_is_not_that_of_the_body_is_refused() {
    // It does not read bodies: whatever is sent beyond them would be heard as a head.
    let hostile = Hostile::says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Then::Listen).await;
    let gateway = Setup::to(&[hostile.address]).start().await;
    let smuggled = &b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"[..];
    for (length, body) in [
        ("0", Some(smuggled)),
        ("5", Some(smuggled)),
        ("500", Some(smuggled)),
        ("5", None),
        ("5", Some(&b""[..])),
        ("-1", None),
        ("+5", Some(&b"hello"[..])),
        ("5, 5", Some(&b"hello"[..])),
        ("five", Some(&b"hello"[..])),
        ("18446744073709551616", None),
    ] {
        for method in ["POST", "GET"] {
            let fields = fields(method, "/first", &[("content-length", length.as_bytes())]);
            let outcome = ask(&gateway, &fields, body).await;
            // A back end may have answered to the head before it was clear that the body is another.
            if body.is_none() || body == Some(b"") {
                assert_refused(length, &outcome);
            }
            assert_serves(gateway.at.listen).await;
        }
    }
    let heard = hostile.heard();
    assert!(!heard.contains("/smuggled"), "{heard}");
    let mut fields = fields("POST", "/twice", &[("content-length", b"5"), ("content-length", b"6")]);
    assert_refused("twice", &ask(&gateway, &fields, Some(b"hello")).await);
    fields.pop();
    assert!(matches!(ask(&gateway, &fields, Some(b"hello")).await, Outcome::Answered(Some(200), _)));
}

#[tokio::test]
async fn what_is_of_connections_is_no_header_of_http2() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("connection", "keep-alive"),
        ("connection", "x-user-id"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("upgrade", "websocket"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
    ] {
        let fields = fields("POST", "/", &[(name, value.as_bytes())]);
        assert_refused(name, &ask(&gateway, &fields, Some(b"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")).await);
    }
    assert_eq!(backend.requests(), 0);
}

#[tokio::test]
async fn no_line_can_be_made_of_a_header() {
    let hostile = Hostile::says("HTTP/1.1 204 No Content\r\n\r\n", Then::Listen).await;
    let gateway = Setup::to(&[hostile.address]).start().await;
    let bad: &[&[u8]] = &[
        b"a\r\nx-user-id: admin",
        b"a\nx-user-id: admin",
        b"a\rx-user-id: admin",
        b"a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
        b"a\0b",
        b"a\x7fb",
    ];
    for value in bad {
        assert_refused("a value", &ask(&gateway, &fields("GET", "/", &[("x-a", value)]), None).await);
        assert_refused("a host", &ask(&gateway, &fields("GET", "/", &[("host", value)]), None).await);
        assert_refused("a cookie", &ask(&gateway, &fields("GET", "/", &[("cookie", value)]), None).await);
        for place in 0..4 {
            let mut fields = fields("GET", "/", &[]);
            let whole = [fields[place].1, *value].concat();
            fields[place].1 = &whole;
            assert_refused(&format!("{:?}", fields[place]), &ask(&gateway, &fields, None).await);
        }
    }
    for name in ["x a", "x:a", "x\r\na", "x\na", "x\0a", "", "X-Upper", "x-\u{e9}", ":new", "x-a: b\r\ny"] {
        assert_refused(name, &ask(&gateway, &fields("GET", "/", &[(name, b"1")]), None).await);
    }
    for (place, value) in [
        (0, "GET /smuggled HTTP/1.1"),
        (0, "G ET"),
        (0, ""),
        (1, "ftp"),
        (1, "http://evil.example/"),
        (2, "a.example/smuggled"),
        (2, "a.example b"),
        (2, "user@a.example"),
        (2, "a.example, b.example"),
        (2, "a.example,b.example"),
        (2, ""),
        (3, "/a b"),
        (3, "/a HTTP/1.1"),
        (3, ""),
        (3, "*"),
        (3, "a"),
        (3, "http://evil.example/"),
    ] {
        let mut fields = fields("GET", "/", &[]);
        fields[place].1 = value.as_bytes();
        let outcome = ask(&gateway, &fields, None).await;
        assert_refused(&format!("{place} {value}"), &outcome);
    }
    assert_eq!(hostile.connections(), 0, "{}", hostile.heard());
}

#[tokio::test]
async fn there_is_one_host_and_one_of_each_of_the_rest() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    assert_refused("host", &ask(&gateway, &fields("GET", "/", &[("host", b"other.example")]), None).await);
    for (name, value) in [(":path", "/other"), (":method", "POST"), (":authority", "b"), (":scheme", "https")]
    {
        assert_refused(name, &ask(&gateway, &fields("GET", "/", &[(name, value.as_bytes())]), None).await);
    }
    let late: Fields<'_> = [(&b"x-a"[..], &b"b"[..])].into_iter().chain(fields("GET", "/", &[])).collect();
    assert_refused("after others", &ask(&gateway, &late, None).await);
    assert_refused("status", &ask(&gateway, &fields("GET", "/", &[(":status", b"200")]), None).await);
    assert_refused(
        "a tunnel",
        &ask(&gateway, &fields("CONNECT", "/", &[(":protocol", b"websocket")]), None).await,
    );
    for missing in [0, 3] {
        let mut fields = fields("GET", "/", &[]);
        fields.remove(missing);
        assert_refused("missing", &ask(&gateway, &fields, None).await);
    }
    assert_eq!(backend.requests(), 0);

    let mut same = fields("GET", "/", &[("host", b"api.example")]);
    let answered = ask(&gateway, &same, None).await;
    let Outcome::Answered(Some(200), body) = answered else { panic!("{answered:?}") };
    assert_eq!(body.matches("\nhost: api.example\n").count(), 1, "{body}");
    // Without `:authority`, `host` is the host.
    same.remove(2);
    let answered = ask(&gateway, &same, None).await;
    let Outcome::Answered(Some(200), body) = answered else { panic!("{answered:?}") };
    assert_eq!(body.matches("\nhost: api.example\n").count(), 1, "{body}");
}

/// What arrives in HTTP/1.1 has the body's real length, whatever the client did not say.
#[tokio::test]
async fn a_body_without_a_length_is_framed_anew() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for method in ["POST", "GET", "DELETE"] {
        let outcome =
            ask(&gateway, &fields(method, "/first", &[]), Some(b"0\r\n\r\nGET /x HTTP/1.1\r\n\r\n")).await;
        let Outcome::Answered(Some(200), body) = outcome else { panic!("{outcome:?}") };
        assert!(body.ends_with("\n\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n\n"), "{method}: {body}");
    }
    assert_eq!(backend.requests(), 3);
}
