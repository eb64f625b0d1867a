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

/// Headers that are about one connection, or that a gateway has to look at, which it therefore does once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hop {
    Connection,
    /// Belongs to the connection, whatever it says.
    Always,
    Upgrade,
    Te,
    /// Is said to the gateway and to nobody else.
    Ours,
    Cookie,
}

impl Hop {
    /// As one bit of many.
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// What a name in lower case is, if it is any.
    fn of(name: &str) -> Option<Self> {
        match name {
            "connection" => Some(Self::Connection),
            "keep-alive" | "proxy-connection" | "http2-settings" | "proxy-authenticate"
            | "transfer-encoding" => Some(Self::Always),
            "upgrade" => Some(Self::Upgrade),
            "te" => Some(Self::Te),
            "expect" | "proxy-authorization" => Some(Self::Ours),
            "cookie" => Some(Self::Cookie),
            _ => None,
        }
    }

    /// Those that there are. Most messages have none, and that is all that is to be done about them.
    fn present(headers: &HeaderMap) -> u8 {
        headers.keys().filter_map(|name| Self::of(name.as_str())).fold(0, |all, hop| all | hop.bit())
    }
}

/// Removes what belongs to the connection a message came by, and says what protocol both ends were to switch to, if that
/// was asked for and is one that may be.
///
/// What `Connection` names is removed too: it is its sender's to name. What the gateway says itself is added only after this, so
/// that nobody can have that removed.
pub(crate) fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    strip_present(headers, Hop::present(headers))
}

fn strip_present(headers: &mut HeaderMap, present: u8) -> Option<HeaderValue> {
    let mut upgrade = None;
    if present & Hop::Connection.bit() != 0 {
        let named = named(headers);
        if named.contains(&UPGRADE) {
            upgrade = only(headers, &UPGRADE).filter(|protocol| is_websocket(protocol)).cloned();
        }
        for name in named.iter().filter(|name| **name != HOST && **name != TE) {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    if present & Hop::Upgrade.bit() != 0 {
        headers.remove(UPGRADE);
    }
    if present & Hop::Always.bit() != 0 {
        for name in [KEEP_ALIVE, PROXY_CONNECTION, HTTP2_SETTINGS, PROXY_AUTHENTICATE, TRANSFER_ENCODING] {
            headers.remove(name);
        }
    }
    upgrade
}

/// The same for a request, of which the back end must also not hear what only the gateway is asked for.
pub(crate) fn strip_request(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let present = Hop::present(headers);
    let upgrade = strip_present(headers, present);
    if present & Hop::Ours.bit() != 0 {
        headers.remove(PROXY_AUTHORIZATION);
        // Whoever waits for a sign to go on gets it from us, once the back end takes the body.
        headers.remove(EXPECT);
    }
    if present & Hop::Te.bit() != 0
        && let Some(value) = headers.remove(TE)
        && value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("trailers"))
    {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if present & Hop::Cookie.bit() != 0 {
        join_cookies(headers);
    }
    upgrade
}

/// HTTP/2 may send cookies one by one; whoever speaks HTTP/1.1 expects them in one line.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// A header's value, if it has one and not several.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Whether that is spoken which may be tunnelled. HTTP/2 (`h2c`) may not: any number of requests would go by unseen.
fn is_websocket(protocol: &HeaderValue) -> bool {
    protocol.as_bytes().eq_ignore_ascii_case(b"websocket")
}

/// The headers that `Connection` names.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = lines.flat_map(|line| line.split(',')).map(str::trim);
    // What most connections say, which names nothing.
    let names =
        names.filter(|name| !["keep-alive", "close"].iter().any(|usual| usual.eq_ignore_ascii_case(name)));
    names.filter_map(|name| name.parse().ok()).take(MOST_NAMED).collect()
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
            ("connection", "host, a b, te"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
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
        for protocols in
            [&["h2c"][..], &["h2c", "websocket"], &["websocket", "h2c"], &["websocket, h2c"], &["TLS/1.0"]]
        {
            let mut request =
                headers(&[("connection", "upgrade, http2-settings"), ("http2-settings", "AAMAAABk")]);
            for protocol in protocols {
                request.append(UPGRADE, protocol.parse().unwrap());
            }
            assert_eq!(strip_request(&mut request), None, "{protocols:?}");
            assert!(request.is_empty());
        }
    }

    #[test]
    fn cookies_are_put_together() {
        let mut request = headers(&[("cookie", "a=1"), ("cookie", "b=2"), ("accept", "x")]);
        strip_request(&mut request);
        assert_eq!(shown(&request), ["accept: x", "cookie: a=1; b=2"]);
    }
}
