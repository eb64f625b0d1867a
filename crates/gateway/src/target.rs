//! What a request asks for: read once, in one way, for the rules, the routes and the back end alike.
//!
//! A request that can be understood in two ways is refused: whoever is behind the gateway might choose the other.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Method, StatusCode, Version};
use tidegate_core::Path;
use tidegate_core::path::PathError;

use crate::answer::Own;
use crate::routes::Route;

/// The methods that a gateway answers to, for those who tried another.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// What a request asks for.
#[derive(Debug)]
pub(crate) struct Target<'h> {
    /// The path, in the one form that everybody gets to see.
    pub(crate) path: Path<'h>,
    host: Option<Host<'h>>,
}

/// The host of a request.
#[derive(Debug)]
struct Host<'h> {
    said: Said<'h>,
    /// Without its port.
    name: &'h str,
}

/// Where it is named.
#[derive(Debug)]
enum Said<'h> {
    Authority(&'h Authority),
    Header(&'h HeaderValue),
}

impl<'h> Target<'h> {
    /// Reads the head of a request.
    pub(crate) fn read(head: &'h Parts) -> Result<Self, Own<'static>> {
        // What the one tunnels and the other echoes is not for us to see.
        if head.method == Method::CONNECT || head.method == Method::TRACE {
            let message = "this gateway does neither tunnel nor trace; use another method";
            let refused = Own::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
            return Err(refused.allow(METHODS));
        }
        if head.uri.path() == "*" {
            return Err(Own::bad_request("invalid_path", "`*` is nobody's path; ask for one, such as /"));
        }
        match (head.uri.scheme_str(), head.uri.authority()) {
            (None, Some(_)) => {
                let message = "a host alone is what CONNECT asks for; ask for a path, such as /";
                return Err(Own::bad_request("invalid_target", message).close());
            }
            (Some(scheme), _) if !["http", "https"].contains(&scheme) => {
                return Err(Own::bad_request("invalid_target", "only http and https are served here"));
            }
            _ => {}
        }
        framing(head)?;
        let host = host(head)?;
        let path = Path::parse(head.uri.path()).map_err(|error| no_path(&error))?;
        if path.is_ambiguous() || has_dots_with_parameters(path.as_str()) {
            let message = "the path has a slash or backslash that is encoded, is encoded twice, is not UTF-8, or has dots with parameters, which back ends read differently; send it plain";
            return Err(Own::bad_request("ambiguous_path", message));
        }
        Ok(Self { path, host })
    }

    /// The name of the host, without its port.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_ref().map(|host| host.name)
    }

    /// The same in the one spelling that rules get to see: in lower case, without the dot that may be at its end.
    pub(crate) fn plain_host(&self) -> Option<Cow<'_, str>> {
        let host = self.host()?;
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_lower = !host.bytes().any(|byte| byte.is_ascii_uppercase());
        Some(if is_lower { Cow::Borrowed(host) } else { Cow::Owned(host.to_ascii_lowercase()) })
    }

    /// The host as the back end is to be told.
    pub(crate) fn host_value(&self) -> Option<HeaderValue> {
        match self.host.as_ref()?.said {
            Said::Authority(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            Said::Header(value) => Some(value.clone()),
        }
    }

    /// The path and query as the back end is to be told: the path is the one that was decided on, with the slash at its end
    /// that the client may have put there. (It counts as the same path with and without; back ends may answer the one by
    /// pointing to the other.)
    pub(crate) fn forwarded(&self, head: &Parts, route: &Route) -> Result<PathAndQuery, Own<'static>> {
        self.rewritten(head, &route.rewrite(self.path.as_str()))
    }

    fn rewritten(&self, head: &Parts, path: &str) -> Result<PathAndQuery, Own<'static>> {
        let raw = head.uri.path();
        let slash = raw.len() > 1 && raw.ends_with('/') && path != "/";
        let same = raw.strip_suffix('/').filter(|_| slash).unwrap_or(raw) == path;
        match head.uri.path_and_query() {
            Some(whole) if same => Ok(whole.clone()),
            _ => {
                let query = head.uri.query();
                let end = if slash { "/" } else { "" };
                let mark = if query.is_some() { "?" } else { "" };
                let whole = format!("{path}{end}{mark}{}", query.unwrap_or_default());
                PathAndQuery::try_from(whole).map_err(|_| no_path(&PathError::BadEscape))
            }
        }
    }
}

fn no_path(error: &PathError) -> Own<'static> {
    let status = match error {
        PathError::TooLong => StatusCode::URI_TOO_LONG,
        PathError::BadEscape | PathError::Nul => StatusCode::BAD_REQUEST,
    };
    Own::new(status, "invalid_path", error.to_string())
}

/// Whether a segment is `.` or `..` to back ends that leave out parameters before they resolve those.
fn has_dots_with_parameters(path: &str) -> bool {
    path.split('/').any(|segment| {
        let rest = segment.trim_start_matches('.');
        matches!(segment.len() - rest.len(), 1 | 2) && (rest.starts_with(';') || rest.starts_with("%3B"))
    })
}

/// Keeps one of the lines that say a request's length, if all say the same: HTTP/1 requests may arrive with several (RFC 9112, 6.3), but
/// none leaves so.
pub(crate) fn merge_lengths(headers: &mut HeaderMap) {
    // Most requests have no header twice.
    if headers.len() == headers.keys_len() {
        return;
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    if let Some(first) = lengths.next().cloned()
        && lengths.all(|other| *other == first)
    {
        headers.insert(CONTENT_LENGTH, first);
    }
}

/// The largest length that every back end can count to.
const MAX_LENGTH: &[u8] = b"9223372036854775807";

/// Whether a length is written in the one way that nobody reads differently: no sign, no zeros before it, and not too long.
fn is_length(value: &[u8]) -> bool {
    let in_range = value.len() < MAX_LENGTH.len() || value.len() == MAX_LENGTH.len() && value <= MAX_LENGTH;
    let plain = value == b"0" || value.first().is_some_and(|first| *first != b'0');
    plain && in_range && value.iter().all(u8::is_ascii_digit)
}

/// A body comes in chunks or has a length. Whatever else was done to it, whoever is next would have to know; what is said
/// twice may be heard once. Nothing on such a connection can be relied on to be a request.
fn framing(head: &Parts) -> Result<(), Own<'static>> {
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let is_plain = |length: &HeaderValue| is_length(length.as_bytes());
    if !lengths.next().is_none_or(is_plain) || lengths.next().is_some() {
        let message = "`Content-Length` is there with different values, or is not plainly a number of bytes; send it once, such as 5";
        return Err(Own::bad_request("invalid_framing", message).close());
    }
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_none_or(is_plain) && codings.next().is_none() {
        return Ok(());
    }
    let message = "`Transfer-Encoding` is something else than `chunked`, once; send the body in chunks or with its length";
    Err(Own::bad_request("invalid_framing", message).close())
}

/// The one host that a request names.
fn host(head: &Parts) -> Result<Option<Host<'_>>, Own<'static>> {
    let wrong = |message: &'static str| Own::bad_request("invalid_host", message);
    let mut named = head.headers.get_all(HOST).iter();
    let first = named.next();
    if named.next().is_some() {
        return Err(wrong("`Host` is there twice; send it once"));
    }
    if let Some(authority) = head.uri.authority() {
        if authority.as_str().contains('@') {
            return Err(wrong("a host has no user in it; leave out what is before the `@`"));
        }
        if !is_plain(authority) {
            return Err(wrong("this is no host; ask one with a name or an address"));
        }
        // HTTP/1.1 has the request line win; in HTTP/2 the two must agree.
        let differs =
            |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
        if head.version == Version::HTTP_2 && first.is_some_and(differs) {
            return Err(wrong("`:authority` and `host` contradict each other; send one of them"));
        }
        return Ok(Some(Host { said: Said::Authority(authority), name: authority.host() }));
    }
    let Some(value) = first else {
        // Older clients need not say it.
        return if head.version == Version::HTTP_10 {
            Ok(None)
        } else {
            Err(wrong("`Host` is missing; send it"))
        };
    };
    let Some(name) = value.to_str().ok().and_then(name_in) else {
        return Err(wrong("`Host` is no host; send a name or an address, with a port if need be"));
    };
    Ok(Some(Host { said: Said::Header(value), name }))
}

/// The name or address in a host that may have a port.
fn name_in(host: &str) -> Option<&str> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let end = host.bytes().position(|byte| !is_name(byte)).unwrap_or(host.len());
    let (name, rest) = host.split_at(end);
    // As most are, which need not be taken apart with more care.
    let is_port =
        |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    if !name.is_empty()
        && !has_empty_label(name)
        && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
    {
        return Some(name);
    }
    let authority = host.parse::<Authority>().ok().filter(is_plain)?;
    // There is no user before it.
    host.get(..authority.host().len())
}

/// Whether it is a name or an address, with a port or without. URLs may have more in that place, such as lists; no host has.
fn is_plain(authority: &Authority) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let name = authority.host();
    !name.is_empty() && !has_empty_label(name) && authority.as_str().bytes().all(plain)
}

/// Returns true if a name has nothing before a dot. Without the dot at its end, such as `.` would be no host to rules, and one to others.
fn has_empty_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first() == Some(&b'.') || bytes.windows(2).any(|pair| pair == b"..")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = headers
            .iter()
            .fold(Request::builder().uri(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn forwarded(path: &str) -> Result<String, &'static str> {
        let head = head(path, &[("host", "api.example")]);
        let target = Target::read(&head).map_err(|own| own.error)?;
        Ok(target.rewritten(&head, target.path.as_str()).map_err(|own| own.error)?.to_string())
    }

    #[test]
    fn what_was_decided_on_is_what_is_sent() {
        for (sent, expected) in [
            ("/orders/7", "/orders/7"),
            ("/orders/7?a=%2F&b", "/orders/7?a=%2F&b"),
            ("/orders/7/", "/orders/7/"),
            ("/", "/"),
            ("/?x", "/?x"),
            ("//orders//7", "/orders/7"),
            ("/x/../orders/./7", "/orders/7"),
            ("/x/%2e%2e/orders/7?y=/../", "/orders/7?y=/../"),
            ("/%6Frders/7/", "/orders/7/"),
            ("/a/../", "/"),
            ("/a;b=c/...;/d;/.e;", "/a;b=c/...;/d;/.e;"),
            ("/caf%c3%a9", "/caf%C3%A9"),
            ("http://other.example//a?b", "/a?b"),
            ("http://other.example", "/"),
        ] {
            assert_eq!(forwarded(sent).as_deref(), Ok(expected), "{sent}");
        }
        for (sent, error) in [
            ("/a%2Fb", "ambiguous_path"),
            ("/a%5cb", "ambiguous_path"),
            ("/a%252e%252e/b", "ambiguous_path"),
            ("/a/..;/b", "ambiguous_path"),
            ("/a/.;x=y", "ambiguous_path"),
            ("/a/%2e%2e%3b/b", "ambiguous_path"),
            ("/a%zz", "invalid_path"),
            ("/a%00", "invalid_path"),
            ("/a%", "invalid_path"),
            ("*", "invalid_path"),
            ("/a%C0%AFb", "ambiguous_path"),
            ("/a%c0%ae%c0%ae/b", "ambiguous_path"),
            ("/a%E0%80%AFb", "ambiguous_path"),
            ("/caf%E9", "ambiguous_path"),
            ("/%ED%A0%80", "ambiguous_path"),
            ("other.example:80", "invalid_target"),
            ("other.example", "invalid_target"),
            ("ftp://a.example/", "invalid_target"),
        ] {
            assert_eq!(forwarded(sent), Err(error), "{sent}");
        }
    }

    #[test]
    fn a_body_is_chunked_or_has_a_length() {
        let read = |codings: &[&str]| {
            let headers: Vec<_> = codings.iter().map(|coding| ("transfer-encoding", *coding)).collect();
            let head = head("/", &[&[("host", "a.example")], &headers[..]].concat());
            Target::read(&head).map(drop).map_err(|own| own.error)
        };
        assert_eq!(read(&[]), Ok(()));
        assert_eq!(read(&["Chunked"]), Ok(()));
        for codings in [
            &["gzip, chunked"][..],
            &["chunked, chunked"],
            &["chunked", "chunked"],
            &["gzip", "chunked"],
            &[""],
        ] {
            assert_eq!(read(codings), Err("invalid_framing"), "{codings:?}");
        }
    }

    #[test]
    fn a_length_is_written_in_one_way() {
        let read = |lengths: &[&str]| {
            let headers: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
            let mut head = head("/", &[&[("host", "a.example")], &headers[..]].concat());
            merge_lengths(&mut head.headers);
            Target::read(&head).map_err(|own| own.error)?;
            Ok(head.headers.get_all(CONTENT_LENGTH).iter().count())
        };
        for lengths in [&["0"][..], &["5"], &["10"], &["9223372036854775807"], &["5", "5", "5"]] {
            assert_eq!(read(lengths), Ok(1), "{lengths:?}");
        }
        for length in
            ["", "05", "00", "+5", "-5", "5 ", "5, 5", "5;5", "0x5", "5.0", "\u{b2}", "9223372036854775808"]
        {
            assert_eq!(read(&[length]), Err("invalid_framing"), "{length}");
        }
        assert_eq!(read(&["18446744073709551616"]), Err("invalid_framing"));
        assert_eq!(read(&["5", "6"]), Err("invalid_framing"));
        assert_eq!(read(&["5", "05"]), Err("invalid_framing"));
    }

    #[test]
    fn there_is_one_host() {
        let host = |uri: &str, headers: &[(&str, &str)], version: Version| {
            let head = Parts::clone(&{
                let mut head = head(uri, headers);
                head.version = version;
                head
            });
            Target::read(&head).map(|target| target.host().map(str::to_owned)).map_err(|own| own.error)
        };
        let v11 = Version::HTTP_11;
        let ours = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(host("/", &[("host", "a.example:80")], v11), ours("a.example"));
        assert_eq!(host("/", &[("host", "[::1]:80")], v11), ours("[::1]"));
        assert_eq!(host("http://b.example/", &[("host", "a.example")], v11), ours("b.example"));
        assert_eq!(host("/", &[], v11), Err("invalid_host"));
        assert_eq!(host("/", &[], Version::HTTP_10), Ok(None));
        assert_eq!(host("/", &[("host", "a"), ("host", "a")], v11), Err("invalid_host"));
        for bad in ["", "a b", "a/b", "user@a", "a:b:c", ".", "..", ".a", "a..b", "a..", ".:80", "a..:80"] {
            assert_eq!(host("/", &[("host", bad)], v11), Err("invalid_host"), "{bad}");
        }
        assert_eq!(host("http://u@b.example/", &[], v11), Err("invalid_host"));
        for bad in ["a,b", ".", "..", "a..b", "a..:80"] {
            assert_eq!(host(&format!("http://{bad}/"), &[], v11), Err("invalid_host"), "{bad}");
        }
        assert_eq!(host("/", &[("host", "a.example.")], v11), ours("a.example."));
        let v2 = Version::HTTP_2;
        assert_eq!(host("https://b.example/", &[("host", "a.example")], v2), Err("invalid_host"));
        assert_eq!(host("https://b.example/", &[("host", "B.example")], v2), ours("b.example"));
    }

    #[test]
    fn some_methods_are_for_others() {
        for method in [Method::CONNECT, Method::TRACE] {
            let mut head = head("/", &[("host", "a")]);
            head.method = method;
            assert_eq!(Target::read(&head).unwrap_err().status, StatusCode::METHOD_NOT_ALLOWED);
        }
    }
}
