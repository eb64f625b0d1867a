//! Requests that are hard to read.

use super::{borrowed, use_up};
use crate::ask::{get, try_ask};
use crate::stand::Recipe;

/// Requests that Tidegate or the proxy cannot read, while requests would pass if Tidegate were away.
pub(crate) async fn unreadable_requests_do_not_pass(recipe: Recipe) {
    let stand = recipe.stand_with(&[recipe.pass]).await;
    use_up(&stand, "/orders/7").await;
    for trick in tricks() {
        let answer = try_ask(stand.proxy.address(), &trick).await;
        let answered = answer.as_ref().map_or(0, |answer| answer.status);
        let text = String::from_utf8_lossy(&trick[..trick.len().min(300)]).into_owned();
        assert!(answered == 0 || answered >= 400, "{text}: {answer:?}");
        assert_eq!(stand.backend.requests(), 3, "{text}: {answer:?}");
    }
}

/// Requests for what is used up. None of them may look as if Tidegate were away, which is when they would pass.
fn tricks() -> Vec<Vec<u8>> {
    let mut tricks = vec![
        get("/orders/7%zz", &[]),
        get("/orders/7%00", &[]),
        get("/orders/7%", &[]),
        get("/orders/\u{1}", &[]),
        get("/orders/\u{7f}", &[]),
        get("/orders/ 7", &[]),
        get("/orders/\u{e9}", &[]),
        get("/orders/7#part", &[]),
        get("//orders//7", &[]),
        get("/./orders/x/../7", &[]),
        get("/%6Frders/7", &[]),
        get("http://api.example/orders/7", &[]),
        get("http://127.0.0.1:1/orders/7", &[]),
        get("/orders/7", &[("Connection", "close, Upgrade"), ("Upgrade", "h2c")]),
        get("/orders/7", &[("Connection", "close"), ("Expect", "100-continue")]),
        get("/orders/7", &[("Authorization", "Bearer wrong"), ("Origin", "https://elsewhere.example")]),
        get("/orders/7", &[("Sec-Fetch-Site", "cross-site"), ("Content-Type", "\u{e9}")]),
        b"GET /orders/7 HTTP/1.0\r\n\r\n".to_vec(),
        b"GET /orders/\xff HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET /orders/7 HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\nX-User-Id : m\r\n\r\n".to_vec(),
    ];
    // Around what proxies have room for, and around what Tidegate has.
    let around_16_kib = (14_900..15_500).step_by(25).chain(16_100..16_110);
    let lengths =
        [7, 8, 9, 12, 20, 28, 33, 37, 63, 65, 120, 250, 450, 700, 990].map(|kilobytes| kilobytes * 1_000);
    for length in around_16_kib.chain(lengths) {
        let long = "x".repeat(length);
        tricks.push(get(&format!("/orders/{long}"), &[]));
        tricks.push(get("/orders/7", &[("X-Long", &long)]));
    }
    for count in [50, 90, 95, 98, 100, 102, 150, 1_000] {
        let many: Vec<(String, String)> = (0..count).map(|n| (format!("X-{n}"), "x".to_owned())).collect();
        tricks.push(get("/orders/7", &borrowed(&many)));
    }
    tricks
}
