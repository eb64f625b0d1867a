//! The facts of one request.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::take::HoldId;

/// Named texts a request carries: its headers, its attributes.
///
/// A trait, so that a server's own header map can be asked directly instead of being copied. Requests may move between
/// threads while they wait for an answer, and their fields with them.
pub trait Fields: Sync {
    /// The first value under `name`, whose case does not count.
    fn value(&self, name: &str) -> Option<&str>;

    /// Shows every field to `visit`.
    fn each(&self, visit: &mut dyn FnMut(&str, &str));
}

/// No fields at all.
impl Fields for () {
    fn value(&self, _name: &str) -> Option<&str> {
        None
    }

    fn each(&self, _visit: &mut dyn FnMut(&str, &str)) {}
}

impl<N: AsRef<str> + Sync, V: AsRef<str> + Sync> Fields for [(N, V)] {
    fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| n.as_ref().eq_ignore_ascii_case(name)).map(|(_, v)| v.as_ref())
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.iter().for_each(|(n, v)| visit(n.as_ref(), v.as_ref()));
    }
}

impl<N: AsRef<str> + Sync, V: AsRef<str> + Sync> Fields for Vec<(N, V)> {
    fn value(&self, name: &str) -> Option<&str> {
        self.as_slice().value(name)
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.as_slice().each(visit);
    }
}

impl<N: AsRef<str> + Sync, V: AsRef<str> + Sync, const LEN: usize> Fields for [(N, V); LEN] {
    fn value(&self, name: &str) -> Option<&str> {
        self.as_slice().value(name)
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.as_slice().each(visit);
    }
}

/// Values that are not UTF-8 count as absent.
#[cfg(feature = "http")]
impl Fields for http::HeaderMap {
    fn value(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self {
            if let Ok(value) = std::str::from_utf8(value.as_bytes()) {
                visit(name.as_str(), value);
            }
        }
    }
}

/// What is known about a request when it is to be decided. Only facts; borrowed, so that asking costs nothing.
///
/// ```
/// use tidegate_core::Request;
///
/// let headers = [("x-client-type", "mobile")];
/// let request = Request { user: Some("alice"), method: Some("GET"), headers: &headers, ..Request::new("/orders/7") };
/// assert_eq!(request.cost, 1);
/// ```
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The path asked for, in any spelling.
    pub path: &'a str,
    /// Who the user belongs to.
    pub tenant: Option<&'a str>,
    /// Who asks; present means authenticated.
    pub user: Option<&'a str>,
    /// Name of the user's tier or plan, if the caller knows it; of the tenant's, if there is no user.
    pub tier: Option<&'a str>,
    /// Name of the tenant's tier or plan, if the caller knows it.
    pub plan: Option<&'a str>,
    /// The method, in any case.
    pub method: Option<&'a str>,
    /// Where it comes from.
    pub ip: Option<IpAddr>,
    /// The API key; never stored or shown.
    pub api_key: Option<&'a str>,
    /// The request's headers.
    pub headers: &'a dyn Fields,
    /// Anything else rules may match or count by.
    pub attributes: &'a dyn Fields,
    /// How much of each quota it takes; 0 only looks.
    pub cost: u64,
    /// Makes a retry of an admitted request free, within bounds. Only from callers that are trusted.
    pub request_id: Option<&'a str>,
    /// How long its body is, if that is known.
    pub body_bytes: Option<u64>,
    /// What to call that which is held for rules that are [charged by the answer](crate::cost::Charge); only from callers that
    /// will tell what the answer was. Without it, or with a `request_id`, such rules are charged what would have been held.
    pub hold: Option<HoldId>,
    /// Status of the response, if it is known before the request is decided. Then only rules apply whose
    /// [charge](crate::cost::Charge) [names](crate::cost::Charge::names) it, and they take at once instead of holding.
    pub answered: Option<u16>,
}

impl<'a> Request<'a> {
    /// A request for `path` of cost 1 about which nothing else is known.
    pub fn new(path: &'a str) -> Self {
        Self {
            path,
            tenant: None,
            user: None,
            tier: None,
            plan: None,
            method: None,
            ip: None,
            api_key: None,
            headers: &(),
            attributes: &(),
            cost: 1,
            request_id: None,
            body_bytes: None,
            hold: None,
            answered: None,
        }
    }
}

/// Shows who asks for what, without the key that proves it.
impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("path", &self.path)
            .field("method", &self.method)
            .field("tenant", &self.tenant)
            .field("user", &self.user)
            .field("tier", &self.tier)
            .field("plan", &self.plan)
            .field("ip", &self.ip)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// An address as it is matched and counted: IPv4 in IPv6 clothing is IPv4.
pub fn canonical_ip(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// The part of an address that is counted: all of IPv4, the first `prefix` bits of IPv6, since anybody who has one
/// IPv6 address has a whole network of them.
pub fn counted_ip(ip: IpAddr, prefix: u8) -> IpAddr {
    match canonical_ip(ip) {
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_by_what_one_party_holds() {
        let counted = |text: &str, prefix| counted_ip(text.parse().unwrap(), prefix).to_string();
        assert_eq!(counted("203.0.113.7", 64), "203.0.113.7");
        assert_eq!(counted("::ffff:203.0.113.7", 64), "203.0.113.7");
        assert_eq!(counted("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::");
        assert_eq!(counted("2001:db8:1:2:3:4:5:6", 48), "2001:db8:1::");
        assert_eq!(counted("2001:db8::1", 128), "2001:db8::1");
        assert_eq!(counted("2001:db8::1", 0), "::");
    }

    #[test]
    fn a_debugged_request_keeps_its_key_to_itself() {
        let request = Request { api_key: Some("hunter2"), ..Request::new("/") };
        assert!(!format!("{request:?}").contains("hunter2"));
    }
}
