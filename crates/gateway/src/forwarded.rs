//! What the back end is told about who asks.
//!
//! Back ends believe headers such as `X-User-Id` and `X-Forwarded-For` because a proxy sets them. So whatever a client sends
//! under such a name must not arrive, in no spelling: to programs behind CGI and its descendants `X_User_Id` and
//! `X.User.Id` are `X-User-Id`, too.
//!
//! Headers that only concern one connection, and those that `Connection` names, have to be removed *before*: otherwise a
//! client could name ours there, and the next hop would remove them.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::OnceLock;

use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use tidegate_core::header_names::{first_bit, is_like};
use tidegate_core::request::canonical_ip;
use tidegate_server::forwarded::TrustedProxies;

use crate::identity::hops::{FORWARDED_FOR, client_by_forwarded};
use crate::identity::{Identify, Peer, Text, Who};

const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Names that begin like this are a proxy's to say.
const PROXY_PREFIXES: [&str; 2] = ["x-forwarded-", "x-original-"];

/// Further names that are a proxy's to say: addresses and URLs.
const PROXY_NAMES: [&str; 8] = [
    "forwarded",
    "x-forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "client-ip",
    "true-client-ip",
    "x-rewrite-url",
];

/// Names by which a back end would take the request for one of another method than was decided on.
const METHOD_NAMES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// To programs behind CGI it names the proxy that they are to use.
const CGI_NAMES: [&str; 1] = ["proxy"];

/// Names that say where a request ends and whom it is for.
const MESSAGE_NAMES: [&str; 3] = ["host", "content-length", "transfer-encoding"];

/// Whose word on a header counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Nobody's but ours, if anybody's.
    Ours,
    /// A trusted proxy's.
    Proxy,
    /// Everybody's own: credentials, and what makes a message one. But only the spelling that was looked at.
    Client,
}

/// What is said about a connection again and again, written once.
#[derive(Debug, Default)]
pub(crate) struct Sayings {
    address: OnceLock<Option<HeaderValue>>,
    /// The last host that was asked for, and `Forwarded` for it.
    hop: Mutex<Option<(Option<HeaderValue>, HeaderValue)>>,
}

impl Sayings {
    fn address(&self, ip: IpAddr) -> Option<HeaderValue> {
        self.address.get_or_init(|| HeaderValue::try_from(ip.to_string()).ok()).clone()
    }

    /// What `Forwarded` has to say about the connection itself.
    fn hop(&self, hop: &Element<'_>) -> Option<HeaderValue> {
        let mut last = self.hop.lock();
        if let Some((host, said)) = &*last
            && host.as_ref() == hop.host
        {
            return Some(said.clone());
        }
        let said = HeaderValue::try_from(hop.to_string()).ok()?;
        *last = Some((hop.host.cloned(), said.clone()));
        Some(said)
    }
}

/// Others have nothing to say yet.
impl Clone for Sayings {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Tells back ends who asks.
#[derive(Debug)]
pub(crate) struct Forwarding {
    trusted: TrustedProxies,
    user: HeaderName,
    tenant: HeaderName,
    tier: Option<HeaderName>,
    plan: Option<HeaderName>,
    names: Vec<(HeaderName, Owner)>,
    /// The bytes, [folded](tidegate_core::header_names::fold), that names of interest begin with: most headers of a request begin otherwise.
    begins: u128,
}

impl Forwarding {
    /// Tells what `identify` finds out, under the names it uses.
    pub(crate) fn new(identify: &Identify) -> Self {
        let headers = identify.headers();
        let ours = [Some(&headers.user), Some(&headers.tenant), headers.tier.as_ref(), headers.plan.as_ref()];
        let ours = ours.into_iter().flatten().cloned();
        let ours = ours.chain(METHOD_NAMES.into_iter().chain(CGI_NAMES).map(HeaderName::from_static));
        let proxy = identify.request_id_header().cloned().into_iter();
        let proxy = proxy.chain(PROXY_NAMES.map(HeaderName::from_static));
        let client = identify.credential_headers().cloned().chain(MESSAGE_NAMES.map(HeaderName::from_static));
        let names: Vec<(HeaderName, Owner)> = ours
            .map(|name| (name, Owner::Ours))
            .chain(proxy.map(|name| (name, Owner::Proxy)))
            .chain(client.map(|name| (name, Owner::Client)))
            .collect();
        let begins = names.iter().map(|(name, _)| name.as_str()).chain(PROXY_PREFIXES);
        let begins = begins.fold(0, |all, name| all | first_bit(name));
        Self {
            trusted: identify.trusted().clone(),
            user: headers.user.clone(),
            tenant: headers.tenant.clone(),
            tier: headers.tier.clone(),
            plan: headers.plan.clone(),
            names,
            begins,
        }
    }

    /// Removes from a request's `headers` what its sender may not say, and sets what is known: `who` asks, on the
    /// connection of `peer`, for something on `host`.
    pub(crate) fn rewrite(
        &self,
        peer: &Peer,
        who: &Who<'_>,
        host: Option<&HeaderValue>,
        headers: &mut HeaderMap,
    ) {
        let ip = canonical_ip(peer.ip);
        let trusted = self.trusted.trusts(ip);
        self.remove(trusted, headers);

        let scheme = if peer.tls { "https" } else { "http" };
        let hop = Element { sender: ip, host, scheme: Some(scheme) };
        let is_first =
            who.ip == ip && !headers.contains_key(FORWARDED) && !headers.contains_key(FORWARDED_FOR);
        if is_first {
            // Nobody was before, so there is nothing to say but what was said about this connection already.
            let address = peer.sayings.address(ip);
            set(headers, FORWARDED_FOR, address.clone());
            set(headers, FORWARDED, peer.sayings.hop(&hop));
            set(headers, REAL_IP, address);
        } else {
            let way = self.way(trusted, who.ip, &hop, headers);
            set(headers, FORWARDED_FOR, list(trusted, who.ip, ip, headers));
            set(headers, FORWARDED, way);
            set(headers, REAL_IP, HeaderValue::try_from(who.ip.to_string()).ok());
        }
        if !trusted || !headers.contains_key(PROTO) {
            set(headers, PROTO, Some(HeaderValue::from_static(scheme)));
        }
        if !trusted || !headers.contains_key(HOST) {
            set(headers, HOST, host.cloned());
        }

        // Whatever was there under these names is gone already.
        let names = [
            (Some(&self.user), &who.user),
            (Some(&self.tenant), &who.tenant),
            (self.tier.as_ref(), &who.tier),
            (self.plan.as_ref(), &who.plan),
        ];
        for (name, text) in names {
            if let (Some(name), Some(value)) = (name, text.as_ref().and_then(value)) {
                set(headers, name.clone(), Some(value));
            }
        }
    }

    fn remove(&self, trusted: bool, headers: &mut HeaderMap) {
        remove_if(headers, |name| !self.keeps(trusted, name));
    }

    /// Removes from what comes after a request's body all that would have been looked at before it: to some back ends these are
    /// headers like any other.
    pub(crate) fn strip_trailers(&self, trailers: &mut HeaderMap) {
        let known = |name: &str| self.names.iter().any(|(known, _)| is_like(name, known.as_str()));
        remove_if(trailers, |name| known(name) || !self.keeps(false, name));
    }

    /// Whether `peer` is to be believed about the header `name`, which is in lower case.
    pub(crate) fn believes(&self, peer: &Peer, name: &str) -> bool {
        if self.begins & first_bit(name) == 0 {
            return true;
        }
        let trusted = self.trusted.trusts(canonical_ip(peer.ip));
        // A trusted proxy may say who its client is, which is then ours to say to the back end.
        self.keeps(trusted, name) || trusted && self.names.iter().any(|(known, _)| known == name)
    }

    /// Whether the sender of a request may say what is in the header `name`.
    fn keeps(&self, trusted: bool, name: &str) -> bool {
        if self.begins & first_bit(name) == 0 {
            return true;
        }
        let mut keeps = true;
        for (known, owner) in &self.names {
            if is_like(name, known.as_str()) {
                keeps &= match owner {
                    Owner::Ours => false,
                    Owner::Proxy => trusted && name == known.as_str(),
                    Owner::Client => name == known.as_str(),
                };
            }
        }
        let is_proxy = |prefix: &str| name.len() > prefix.len() && is_like(&name[..prefix.len()], prefix);
        if PROXY_PREFIXES.iter().any(|prefix| is_proxy(prefix)) {
            keeps &= trusted && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        }
        keeps
    }

    /// `Forwarded`, with `hop` at its end.
    ///
    /// Many proxies set `X-Forwarded-For` and pass on whatever their clients send as `Forwarded`. So that of a trusted
    /// proxy is only kept if both lead to the same client.
    fn way(
        &self,
        trusted: bool,
        client: IpAddr,
        hop: &Element<'_>,
        headers: &HeaderMap,
    ) -> Option<HeaderValue> {
        let mut way = Vec::new();
        if trusted
            && headers.contains_key(FORWARDED)
            && client_by_forwarded(&self.trusted, hop.sender, headers) == client
        {
            headers.get_all(FORWARDED).iter().for_each(|line| push(&mut way, line.as_bytes()));
        } else if client != hop.sender {
            let scheme = headers.get(PROTO).and_then(|value| scheme(value.as_bytes()));
            let first = Element { sender: client, host: headers.get(HOST), scheme };
            push(&mut way, first.to_string().as_bytes());
        }
        push(&mut way, hop.to_string().as_bytes());
        HeaderValue::from_bytes(&way).ok()
    }
}

fn remove_if(headers: &mut HeaderMap, is_unwanted: impl Fn(&str) -> bool) {
    let removed: Vec<HeaderName> =
        headers.keys().filter(|name| is_unwanted(name.as_str())).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// `X-Forwarded-For`, with `peer` at its end.
fn list(trusted: bool, client: IpAddr, peer: IpAddr, headers: &HeaderMap) -> Option<HeaderValue> {
    let mut list = Vec::new();
    if trusted && headers.contains_key(FORWARDED_FOR) {
        headers.get_all(FORWARDED_FOR).iter().for_each(|line| push(&mut list, line.as_bytes()));
    } else if client != peer {
        push(&mut list, client.to_string().as_bytes());
    }
    push(&mut list, peer.to_string().as_bytes());
    HeaderValue::from_bytes(&list).ok()
}

/// Appends an entry to a list.
fn push(list: &mut Vec<u8>, entry: &[u8]) {
    if entry.is_empty() {
        return;
    }
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(entry);
}

/// Replaces all values of a header; by nothing if there is none.
fn set(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    match value {
        // There is room: no server accepts as many headers as a map can hold.
        Some(value) => drop(headers.try_insert(name, value)),
        None => drop(headers.remove(name)),
    }
}

/// A name as a header's value, in UTF-8. Control characters have no place in one; spaces around it would get lost, and what
/// is left may be another's name.
fn value(text: &Text<'_>) -> Option<HeaderValue> {
    let plain = !text.is_empty() && text.trim() == &**text && !text.contains(char::is_control);
    plain.then(|| HeaderValue::from_bytes(text.as_bytes()).ok()).flatten()
}

fn scheme(value: &[u8]) -> Option<&'static str> {
    ["http", "https"].into_iter().find(|scheme| value.eq_ignore_ascii_case(scheme.as_bytes()))
}

/// One hop, as `Forwarded` has it (RFC 7239).
struct Element<'h> {
    sender: IpAddr,
    host: Option<&'h HeaderValue>,
    scheme: Option<&'static str>,
}

impl std::fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.sender {
            IpAddr::V4(v4) => write!(f, "for={v4}")?,
            IpAddr::V6(v6) => write!(f, "for=\"[{v6}]\"")?,
        }
        if let Some(host) = self.host.and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty()) {
            f.write_str(";host=\"")?;
            for c in host.chars() {
                if matches!(c, '"' | '\\') {
                    f.write_char('\\')?;
                }
                f.write_char(c)?;
            }
            f.write_char('"')?;
        }
        self.scheme.map_or(Ok(()), |scheme| write!(f, ";proto={scheme}"))
    }
}
