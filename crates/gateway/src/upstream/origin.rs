//! Where a server is: scheme, host and port, and nothing else.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

/// A server's address as documents write it: `http://10.0.0.1:9000`, `https://api.internal`.
///
/// Spellings of one address are equal: hosts are in lower case, and the port that a scheme has anyway is left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: Scheme,
    authority: Authority,
}

/// Why a text is no [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Not a URL at all.
    #[error("`{0}` is not a URL; write http://host:port or https://host:port")]
    NotUrl(String),
    /// A scheme that is not spoken.
    #[error("`{0}` is neither http nor https; write http://host:port or https://host:port")]
    Scheme(String),
    /// More than an address.
    #[error("`{url}` has {what}; a server is scheme, host and port only{instead}")]
    TooMuch {
        /// The text.
        url: String,
        /// What it has.
        what: &'static str,
        /// Where that belongs.
        instead: &'static str,
    },
    /// A port that nobody listens on.
    #[error("`{0}` has a port that cannot be; ports are 1 to 65535")]
    Port(String),
}

/// More of a text than this is not repeated in a message.
const SHOWN: usize = 100;

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let shown = || text.chars().filter(|c| !c.is_control()).take(SHOWN).collect::<String>();
        let too_much = |what, instead| OriginError::TooMuch { url: shown(), what, instead };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| OriginError::NotUrl(shown()))?;
        let scheme = match scheme {
            _ if scheme.eq_ignore_ascii_case("http") => Scheme::HTTP,
            _ if scheme.eq_ignore_ascii_case("https") => Scheme::HTTPS,
            _ => return Err(OriginError::Scheme(shown())),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.contains('@') {
            // Not shown: it may be a password.
            let url = format!("{scheme}://\u{2026}");
            return Err(OriginError::TooMuch { url, what: "a user", instead: "" });
        }
        match tail {
            "" | "/" => {}
            _ if tail.contains('?') => return Err(too_much("a query", "")),
            _ if tail.contains('#') => return Err(too_much("a fragment", "")),
            _ => return Err(too_much("a path", "; use a route's `prefix: {add: /path}` for that")),
        }
        let authority: Authority =
            authority.to_ascii_lowercase().parse().map_err(|_| OriginError::NotUrl(shown()))?;
        let host = authority.host();
        if host.is_empty() {
            return Err(OriginError::NotUrl(shown()));
        }
        let usual: u16 = if scheme == Scheme::HTTP { 80 } else { 443 };
        let port = match authority.as_str()[host.len()..].strip_prefix(':') {
            None => usual,
            Some(port) => {
                port.parse().ok().filter(|port| *port > 0).ok_or_else(|| OriginError::Port(shown()))?
            }
        };
        let text = if port == usual { host.to_owned() } else { format!("{host}:{port}") };
        let authority = text.parse().map_err(|_| OriginError::NotUrl(shown()))?;
        Ok(Self { scheme, authority })
    }
}

impl Origin {
    /// Whether connections to it are encrypted.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Host and, unless it is the scheme's own, port: what `Host` says if a route asks for the back end's.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The address of something on this server, as the client of a group wants it.
    pub fn uri(&self, target: PathAndQuery) -> Uri {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(target);
        // All three parts are there, which is all that can be wrong with parts.
        Uri::from_parts(parts).unwrap_or_default()
    }
}

/// `scheme://host[:port]`
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_address_are_equal() {
        for (text, origin) in [
            ("http://10.0.0.1:9000", "http://10.0.0.1:9000"),
            ("HTTP://Api.Internal:80/", "http://api.internal"),
            ("https://api.internal:443", "https://api.internal"),
            ("https://api.internal:80", "https://api.internal:80"),
            ("http://[::1]:9000", "http://[::1]:9000"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), origin, "{text}");
        }
    }

    #[test]
    fn what_is_no_server() {
        for (text, part) in [
            ("", "not a URL"),
            ("api", "not a URL"),
            ("http://", "not a URL"),
            ("http://a b", "not a URL"),
            ("http://:80", "not a URL"),
            ("ftp://a", "neither http nor https"),
            ("http://a/v1", "has a path; a server is scheme, host and port only; use a route's `prefix"),
            ("http://a?x=1", "has a query"),
            ("http://a/#x", "has a fragment"),
            ("http://u:secret@a", "has a user"),
            ("http://a:0", "ports are"),
            ("http://a:65536", "ports are"),
            ("http://a:", "ports are"),
        ] {
            let error = text.parse::<Origin>().map(|o| o.to_string()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn uris_are_made_of_it() {
        let origin: Origin = "http://[::1]:9000".parse().unwrap();
        assert_eq!(origin.uri(PathAndQuery::from_static("/a?b=1")), "http://[::1]:9000/a?b=1");
    }
}
