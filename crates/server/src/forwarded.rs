//! What a proxy says about the request it asks for.
//!
//! Only a trusted proxy is believed. What it sends must be unambiguous: a header that is there twice with different
//! values was most likely sent once by the client, and choosing either would let somebody choose for us.

use std::net::{IpAddr, SocketAddr};

use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use tidegate_core::Request;
use tidegate_core::request::canonical_ip;
use tidegate_wire::ErrorBody;

use crate::config::{Config, IdentityHeaders};

const METHOD: [HeaderName; 2] =
    [HeaderName::from_static("x-original-method"), HeaderName::from_static("x-forwarded-method")];
const URI: [HeaderName; 2] =
    [HeaderName::from_static("x-original-uri"), HeaderName::from_static("x-forwarded-uri")];
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The networks of the proxies whose word is taken.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Trusts everybody in `networks`.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether `ip` is a trusted proxy's.
    pub fn trusts(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&ip))
    }

    /// The last address on the way here that is not a trusted proxy's; if all are, the first of them. `peer` is a
    /// trusted proxy.
    ///
    /// Each proxy appends whom it heard from to `X-Forwarded-For`, so what stands left of an untrusted or unreadable
    /// entry may be made up.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = headers.get_all(FOR).iter().rev();
        // By bytes: what a client wrote left of its address must not make that unreadable.
        let entries = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        self.last_untrusted(peer, entries.map(|entry| std::str::from_utf8(entry).ok().and_then(address)))
    }

    /// The same for addresses that were found elsewhere, the last first; `None` is an unreadable one.
    pub fn last_untrusted(&self, peer: IpAddr, entries: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for entry in entries {
            let Some(ip) = entry else { break };
            client = ip;
            if !self.trusts(ip) {
                break;
            }
        }
        client
    }
}

/// Whom to believe, and where they say it.
#[derive(Debug)]
pub(crate) struct Proxies {
    trusted: TrustedProxies,
    identity: IdentityHeaders,
}

impl Proxies {
    pub(crate) fn new(config: &Config) -> Self {
        let trusted = TrustedProxies::new(config.trusted_proxies.clone());
        Self { trusted, identity: config.identity_headers.clone() }
    }

    /// Whether `peer` is to be believed.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.trusts(canonical_ip(peer))
    }

    /// Whether a trusted proxy describes another request in this one.
    ///
    /// No web page can make a browser do that: these headers need a permission (CORS) that is never given.
    pub(crate) fn is_forwarded(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        self.trusted.trusts(peer) && URI.iter().any(|name| headers.contains_key(name))
    }

    /// The request to decide when `peer` asks to have one authorized.
    pub(crate) fn request<'a>(&self, peer: IpAddr, asked: &'a Parts) -> Result<Request<'a>, ErrorBody> {
        let own = Request {
            method: Some(asked.method.as_str()),
            ip: Some(peer),
            headers: &asked.headers,
            ..Request::new(asked.uri.path())
        };
        if !self.trusted.trusts(peer) {
            return Ok(own);
        }
        let headers = &asked.headers;
        let value = |name: &HeaderName| text(headers, std::slice::from_ref(name));
        Ok(Request {
            path: text(headers, &URI)?.unwrap_or(own.path),
            method: text(headers, &METHOD)?.or(own.method),
            ip: Some(self.trusted.client(peer, headers)),
            user: value(&self.identity.user)?,
            tenant: value(&self.identity.tenant)?,
            api_key: value(&self.identity.api_key)?,
            tier: self.identity.tier.as_ref().map_or(Ok(None), value)?,
            plan: self.identity.plan.as_ref().map_or(Ok(None), value)?,
            ..own
        })
    }
}

/// An address, as proxies write them: plain, in brackets, or with a port.
pub fn address(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let bare = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')).unwrap_or(entry);
    let with_port = || entry.parse().ok().map(|address: SocketAddr| address.ip());
    bare.parse().ok().or_else(with_port).map(canonical_ip)
}

/// The one text in the headers `names`; empty means absent, and two different ones are an error.
pub fn text<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Result<Option<&'a str>, ErrorBody> {
    let mut found = None;
    for name in names {
        for value in headers.get_all(name) {
            let value = readable(name, value)?;
            match found {
                _ if value.is_empty() => {}
                None => found = Some(value),
                Some(earlier) if earlier == value => {}
                Some(_) => {
                    let message = format!(
                        "`{name}` contradicts another header; have the proxy set one and remove what its clients send"
                    );
                    return Err(ErrorBody::field(name.as_str(), message));
                }
            }
        }
    }
    Ok(found)
}

fn readable<'a>(name: &HeaderName, value: &'a HeaderValue) -> Result<&'a str, ErrorBody> {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) if !text.contains(char::is_control) => Ok(text),
        _ => {
            let message = format!("`{name}` is not UTF-8 or contains control characters; send it without");
            Err(ErrorBody::field(name.as_str(), message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(trusted: &[&str]) -> Proxies {
        let trusted = trusted.iter().map(|network| network.parse().unwrap()).collect();
        Proxies { trusted: TrustedProxies::new(trusted), identity: IdentityHeaders::default() }
    }

    fn asked(headers: &[(&str, &str)]) -> Parts {
        let request = http::Request::builder().uri("/v1/authorize?deny_status=403");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_client_is_the_last_that_is_not_trusted() {
        let proxies = proxies(&["127.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"]);
        for (lines, client) in [
            (&[][..], "127.0.0.1"),
            (&["203.0.113.7"], "203.0.113.7"),
            (&["1.1.1.1, 203.0.113.7, 10.0.0.2"], "203.0.113.7"),
            (&["1.1.1.1, 203.0.113.7", "10.0.0.2"], "203.0.113.7"),
            (&["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
            (&["203.0.113.7, unknown, 10.0.0.2"], "10.0.0.2"),
            (&["unknown"], "127.0.0.1"),
            (&["203.0.113.7:5123"], "203.0.113.7"),
            (&["[2001:db9::7]:5123, [2001:db8::1]"], "2001:db9::7"),
            (&["::ffff:203.0.113.7, ::ffff:10.0.0.1"], "203.0.113.7"),
            (&[""], "127.0.0.1"),
            (&["203.0.113.7, "], "127.0.0.1"),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
            let found = proxies.trusted.client("127.0.0.1".parse().unwrap(), &asked(&headers).headers);
            assert_eq!(found.to_string(), client, "{lines:?}");
        }
    }

    #[test]
    fn nobody_hides_behind_what_cannot_be_read() {
        let mut headers = HeaderMap::new();
        headers.insert(FOR, HeaderValue::from_bytes(b"1.1.1.1, \xff, 203.0.113.7").unwrap());
        let found = proxies(&["127.0.0.0/8"]).trusted.client("127.0.0.1".parse().unwrap(), &headers);
        assert_eq!(found.to_string(), "203.0.113.7");
    }

    #[test]
    fn a_trusted_proxy_describes_another_request() {
        let headers = [
            ("x-forwarded-method", "PUT"),
            ("x-forwarded-uri", "/orders/7?x=1"),
            ("x-user-id", "zo\u{eb}"),
            ("x-tenant-id", ""),
            ("x-api-key", "k-1"),
            ("x-tier", "premium"),
        ];
        let parts = asked(&headers);
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        let request = proxies(&["10.0.0.0/8"]).request(peer, &parts).unwrap();
        assert_eq!((request.method, request.path), (Some("PUT"), "/orders/7?x=1"));
        assert_eq!((request.user, request.tenant, request.api_key), (Some("zo\u{eb}"), None, Some("k-1")));
        assert_eq!((request.tier, request.request_id), (None, None));

        let request = proxies(&[]).request(peer, &parts).unwrap();
        assert_eq!((request.method, request.path), (Some("GET"), "/v1/authorize"));
        assert_eq!((request.user, request.api_key, request.ip), (None, None, Some(peer)));
    }

    #[test]
    fn nobody_can_choose_between_two_values() {
        let proxies = proxies(&["127.0.0.1/32"]);
        for (headers, field) in [
            (&[("x-user-id", "alice"), ("x-user-id", "bob")][..], Some("x-user-id")),
            (&[("x-user-id", "alice"), ("x-user-id", "alice")], None),
            (&[("x-user-id", ""), ("x-user-id", "bob")], None),
            (&[("x-original-uri", "/a"), ("x-forwarded-uri", "/b")], Some("x-forwarded-uri")),
            (&[("x-original-uri", "/a"), ("x-forwarded-uri", "/a")], None),
            (&[("x-user-id", "a\tb")], Some("x-user-id")),
            (&[("x-user-id", "a\u{85}b")], Some("x-user-id")),
        ] {
            let parts = asked(headers);
            let error = proxies.request("127.0.0.1".parse().unwrap(), &parts).err();
            assert_eq!(error.and_then(|error| error.field).as_deref(), field, "{headers:?}");
        }
    }
}
