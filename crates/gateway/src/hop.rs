//! Headers that are about one connection and not about the message.

use http::header::{
    CONNECTION, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// The most headers that one may name as belonging to its connection.
const MOST_NAMED: usize = 32;

/// Removes what belongs to the connection a message came by, and says what protocol both ends were to switch to, if that
/// was asked for.
///
/// What `Connection` names is removed too: it is its sender's to name. What the gateway says itself is added only after this, so
/// that nobody can have that removed.
pub(crate) fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let mut upgrade = None;
    if headers.contains_key(CONNECTION) {
        let named = named(headers);
        if named.contains(&UPGRADE) {
            upgrade = headers.get(UPGRADE).cloned();
        }
        for name in named.iter().filter(|name| **name != HOST && **name != TE) {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, HTTP2_SETTINGS, PROXY_AUTHENTICATE, TRANSFER_ENCODING, UPGRADE]
    {
        headers.remove(name);
    }
    upgrade
}

/// The same for a request, of which the back end must also not hear what only the gateway is asked for.
pub(crate) fn strip_request(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let upgrade = strip(headers);
    headers.remove(PROXY_AUTHORIZATION);
    // Whoever waits for a sign to go on gets it from us, once the back end takes the body.
    headers.remove(EXPECT);
    if let Some(value) = headers.remove(TE)
        && value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("trailers"))
    {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    join_cookies(headers);
    upgrade
}

/// HTTP/2 may send cookies one by one; whoever speaks HTTP/1.1 expects them in one line.
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// The headers that `Connection` names.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = lines.flat_map(|line| line.split(',')).filter_map(|name| name.trim().parse().ok());
    names.take(MOST_NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_belongs_to_a_connection_stays_there() {
        let mut request = headers(&[
            ("connection", "keep-alive, X-Mine"),
            ("connection", "host, no name, te"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip, Trailers"),
            ("expect", "100-continue"),
            ("proxy-authorization", "Basic x"),
            ("host", "a.example"),
            ("accept", "*/*"),
        ]);
        assert_eq!(strip_request(&mut request), None);
        assert_eq!(shown(&request), ["accept: */*", "host: a.example", "te: trailers"]);
    }

    #[test]
    fn a_switch_of_protocols_is_told() {
        let mut request = headers(&[("connection", "Upgrade"), ("upgrade", "websocket"), ("te", "gzip")]);
        assert_eq!(strip_request(&mut request).unwrap(), "websocket");
        assert!(request.is_empty());
        let mut request = headers(&[("upgrade", "websocket")]);
        assert_eq!(strip_request(&mut request), None, "it was not asked of this connection");
        assert!(request.is_empty());
    }

    #[test]
    fn cookies_are_put_together() {
        let mut request = headers(&[("cookie", "a=1"), ("cookie", "b=2"), ("accept", "x")]);
        strip_request(&mut request);
        assert_eq!(shown(&request), ["accept: x", "cookie: a=1; b=2"]);
    }
}
