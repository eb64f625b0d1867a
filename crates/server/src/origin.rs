//! Keeping web pages out.
//!
//! A page that somebody on this machine looks at can make their browser send requests to loopback addresses. It
//! must not be able to use up quotas, read rules or, by giving its own name a loopback address (DNS rebinding),
//! pass for a page of ours. Programs send neither `Origin` nor `Sec-Fetch-Site`, and are not bothered.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Request, StatusCode};

use crate::reply::Wrong;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names a listener goes by.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    bound: IpAddr,
    names: Vec<String>,
}

impl Hosts {
    /// A listener bound to `bound` that may also be reached by `names`.
    pub(crate) fn new(bound: IpAddr, names: &[String]) -> Self {
        Self { bound, names: names.iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Admits requests to a name that is ours, from a browser only if one of our own pages made it.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Wrong> {
        self.admit_host(request)?;
        from_own_page(request)
    }

    /// Admits requests that no browser made, or that one of our own pages made. Programs may use any name.
    pub(crate) fn admit_origin<B>(&self, request: &Request<B>) -> Result<(), Wrong> {
        // Going through a few names costs less than looking two up.
        let by_browser = request.headers().keys().any(|name| *name == ORIGIN || *name == SEC_FETCH_SITE);
        if by_browser { self.admit(request) } else { Ok(()) }
    }

    fn admit_host<B>(&self, request: &Request<B>) -> Result<(), Wrong> {
        // No browser leaves it out; some health checks do.
        let Some(host) = host(request) else { return Ok(()) };
        if host.to_str().is_some_and(|host| self.is_ours(host)) {
            return Ok(());
        }
        let message =
            "this listener does not go by the name in `Host`; use its address, or configure the name";
        Err(Wrong::new(StatusCode::FORBIDDEN, "forbidden", message).about("host"))
    }

    fn is_ours(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host();
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match address.parse::<IpAddr>() {
            // A page that is reached by an address cannot have been moved there by its name.
            Ok(address) => address.is_loopback() || address == self.bound || self.bound.is_unspecified(),
            Err(_) => {
                let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
                name == "localhost" || self.names.contains(&name)
            }
        }
    }
}

/// The name a request was sent to.
enum Host<'a> {
    Authority(&'a Authority),
    Header(&'a http::HeaderValue),
}

impl Host<'_> {
    fn to_str(&self) -> Option<&str> {
        match self {
            Self::Authority(authority) => Some(authority.as_str()),
            Self::Header(value) => value.to_str().ok(),
        }
    }
}

fn host<B>(request: &Request<B>) -> Option<Host<'_>> {
    let header = || request.headers().get(HOST).map(Host::Header);
    request.uri().authority().map(Host::Authority).or_else(header)
}

fn from_own_page<B>(request: &Request<B>) -> Result<(), Wrong> {
    let own_site = own_site(request.headers());
    let own_origin = match request.headers().get(ORIGIN) {
        None => true,
        Some(origin) => match (origin.to_str(), host(request).as_ref().and_then(Host::to_str)) {
            (Ok(origin), Some(host)) => same_origin(origin, host),
            _ => false,
        },
    };
    if own_site && own_origin {
        return Ok(());
    }
    let message = "requests made by other web pages are refused";
    Err(Wrong::new(StatusCode::FORBIDDEN, "forbidden", message).about("origin"))
}

/// Whether the browser says that no other page is behind this.
fn own_site(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_none_or(|site| site == "same-origin" || site == "none")
}

/// Whether `origin` (`scheme://host[:port]`) is the origin of `host`; TLS may have ended before us.
fn same_origin(origin: &str, host: &str) -> bool {
    [("http://", ":80"), ("https://", ":443")].into_iter().any(|(scheme, port)| {
        let plain = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
        origin.strip_prefix(scheme).is_some_and(|authority| plain(authority) == plain(host))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let request =
            headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap()
    }

    #[test]
    fn the_names_a_listener_goes_by() {
        let hosts = Hosts::new("10.1.2.3".parse().unwrap(), &["Limits.example".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST:8082",
            "localhost.",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]:8082",
            "10.1.2.3:8082",
            "limits.example:8082",
        ] {
            assert!(hosts.admit(&request(&[("host", host)])).is_ok(), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8082",
            "10.1.2.4",
            "localhost.evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "",
            "[::2]",
            "2130706433",
            "localhost/",
        ] {
            assert!(hosts.admit(&request(&[("host", host)])).is_err(), "{host}");
        }
        assert!(hosts.admit(&request(&[])).is_ok());
        let everywhere = Hosts::new("0.0.0.0".parse().unwrap(), &[]);
        assert!(everywhere.admit(&request(&[("host", "192.0.2.1:8082")])).is_ok());
        assert!(everywhere.admit(&request(&[("host", "evil.example")])).is_err());
    }

    #[test]
    fn pages_of_others_are_refused() {
        let hosts = Hosts::new("127.0.0.1".parse().unwrap(), &[]);
        for (headers, admitted) in [
            (vec![], true),
            (vec![("origin", "http://localhost:8080")], true),
            (vec![("origin", "https://localhost:8080")], true),
            (vec![("origin", "http://localhost:8081")], false),
            (vec![("origin", "http://localhost")], false),
            (vec![("origin", "http://evil.example")], false),
            (vec![("origin", "null")], false),
            (vec![("origin", "")], false),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("sec-fetch-site", "same-site")], false),
            (vec![("sec-fetch-site", "none")], true),
            (vec![("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8080")], true),
        ] {
            let mut request = request(&headers);
            request.headers_mut().insert(HOST, "localhost:8080".parse().unwrap());
            assert_eq!(hosts.admit_origin(&request).is_ok(), admitted, "{headers:?}");
            assert_eq!(hosts.admit(&request).is_ok(), admitted, "{headers:?}");
        }
    }

    #[test]
    fn programs_may_use_any_name_and_rebound_pages_none() {
        let hosts = Hosts::new("127.0.0.1".parse().unwrap(), &[]);
        assert!(hosts.admit_origin(&request(&[("host", "tidegate.internal")])).is_ok());
        let rebound = request(&[("host", "evil.example:8080"), ("origin", "http://evil.example:8080")]);
        assert!(hosts.admit_origin(&rebound).is_err());
    }
}
