//! `GET /` and the files of the page.

use http::StatusCode;

use crate::client::{Ask, send, start};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: global, limit: 100, window: 1h}
";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

#[tokio::test]
async fn browsers_get_the_page_and_programs_a_list() {
    let server = start(RULES).await;
    let page = send(server.addresses.admin, Ask::get("/").headers(&[BROWSER])).await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for (name, expected) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.header(name), Some(expected));
    }
    for accept in [&[][..], &[("accept", "*/*")]] {
        let list = send(server.addresses.admin, Ask::get("/").headers(accept)).await;
        assert_eq!(list.header("content-type"), Some("text/plain; charset=utf-8"));
        assert!(list.text().contains("/v1/events"));
    }
}

#[tokio::test]
async fn files_are_sent_once() {
    let server = start(RULES).await;
    let file = server.admin("/dashboard/app.js").await;
    assert_eq!(file.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(file.header("content-security-policy"), Some(POLICY));
    let tag = file.header("etag").unwrap();
    let again =
        send(server.addresses.admin, Ask::get("/dashboard/app.js").headers(&[("if-none-match", tag)])).await;
    assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(again.header("etag"), Some(tag));
    for missing in ["/dashboard/nothing.js", "/dashboard/..%2fCargo.toml", "/dashboard/", "/dashboard/a/b"] {
        assert_eq!(server.admin(missing).await.status, StatusCode::NOT_FOUND, "{missing}");
    }
}

#[tokio::test]
async fn other_pages_may_not_have_it() {
    let server = start(RULES).await;
    for headers in [&[("host", "evil.example")][..], &[("sec-fetch-site", "cross-site")]] {
        for path in ["/", "/dashboard/app.js", "/v1/events"] {
            let ask = Ask::get(path).headers(&[BROWSER]).headers(headers);
            assert_eq!(send(server.addresses.admin, ask).await.status, StatusCode::FORBIDDEN, "{path}");
        }
    }
}
