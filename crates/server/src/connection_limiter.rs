//! Limits how many connections each address may have.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ipnet::IpNet;
use parking_lot::Mutex;
use tidegate_core::request::counted_ip;
use tidegate_core::ruleset::DEFAULT_IPV6_PREFIX;

/// Keeps one client from taking all connections of a listener.
///
/// It has at most one entry per open connection, and the number of those is bounded.
#[derive(Debug)]
pub struct ConnectionLimiter {
    max_per_address: u32,
    counted: Counted,
    /// Proxies open the connections of many clients.
    exempt: Vec<IpNet>,
    connections: Mutex<HashMap<IpAddr, u32>>,
    turned_away: AtomicU64,
}

/// Connections that count towards the limit of their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    All,
    /// Only those on which no request has been authenticated yet. A client that may ask can have any number: proxies
    /// open many from one address.
    Unauthenticated,
}

impl ConnectionLimiter {
    /// Lets each address have `max` connections at once; those in `exempt` may have any number.
    pub fn new(max: u32, exempt: Vec<IpNet>) -> Arc<Self> {
        Arc::new(Self::counting(Counted::All, max, exempt))
    }

    /// Lets each address have `max` connections at once on which no request has been authenticated yet; addresses in
    /// `exempt` may have any number.
    pub(crate) fn of_unauthenticated(max: u32, exempt: Vec<IpNet>) -> Arc<Self> {
        Arc::new(Self::counting(Counted::Unauthenticated, max, exempt))
    }

    fn counting(counted: Counted, max_per_address: u32, exempt: Vec<IpNet>) -> Self {
        let (connections, turned_away) = (Mutex::default(), AtomicU64::new(0));
        Self { max_per_address, counted, exempt, connections, turned_away }
    }

    /// Returns how many connections were turned away.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Permits a connection from `ip`, unless its address has too many. IPv6 addresses are counted by network.
    pub(crate) fn permit(self: &Arc<Self>, ip: IpAddr) -> Option<ConnectionPermit> {
        if self.exempt.iter().any(|network| network.contains(&ip)) {
            return Some(ConnectionPermit::default());
        }
        let counted = counted_ip(ip, DEFAULT_IPV6_PREFIX);
        let mut connections = self.connections.lock();
        let count = connections.get(&counted).copied().unwrap_or_default();
        if count >= self.max_per_address {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        connections.insert(counted, count + 1);
        let limited = Some((Arc::clone(self), counted));
        Some(ConnectionPermit { limited, held: AtomicBool::new(true) })
    }

    fn release(&self, ip: IpAddr) {
        let mut connections = self.connections.lock();
        if let Some(count) = connections.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&ip);
            }
        }
    }
}

/// Permission for one connection, which counts towards the limit of its address until it is released.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPermit {
    /// The limiter and the address, unless that is exempt.
    limited: Option<(Arc<ConnectionLimiter>, IpAddr)>,
    held: AtomicBool,
}

impl ConnectionPermit {
    /// Stops counting the connection if only unauthenticated ones are counted.
    pub(crate) fn authenticate(&self) {
        if self.limited.as_ref().is_some_and(|(limiter, _)| limiter.counted == Counted::Unauthenticated) {
            self.release();
        }
    }

    /// Stops counting the connection.
    pub(crate) fn release(&self) {
        if let Some((limiter, ip)) = &self.limited
            && self.held.swap(false, Ordering::Relaxed)
        {
            limiter.release(*ip);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn nobody_has_more_than_their_share() {
        let limiter = ConnectionLimiter::new(2, vec!["10.0.0.0/8".parse().unwrap()]);
        let first = limiter.permit(ip("192.0.2.1"));
        let second = limiter.permit(ip("192.0.2.1"));
        assert!(first.is_some() && second.is_some());
        assert!(limiter.permit(ip("192.0.2.1")).is_none());
        assert!(limiter.permit(ip("192.0.2.2")).is_some(), "others have theirs");
        assert_eq!(limiter.turned_away(), 1);
        drop(first);
        assert!(limiter.permit(ip("192.0.2.1")).is_some());
        drop(second);
        assert!(limiter.connections.lock().is_empty(), "nothing is left of those who are gone");
    }

    #[test]
    fn a_network_of_addresses_is_one_client_and_a_proxy_is_many() {
        let limiter = ConnectionLimiter::new(1, vec!["10.0.0.0/8".parse().unwrap()]);
        let _first = limiter.permit(ip("2001:db8::1")).unwrap();
        assert!(limiter.permit(ip("2001:db8::2")).is_none());
        let many: Vec<_> = (0..100).map(|_| limiter.permit(ip("10.1.2.3"))).collect();
        assert!(many.iter().all(Option::is_some));
    }

    #[test]
    fn an_authenticated_connection_counts_only_where_all_do() {
        for (limiter, more) in [
            (ConnectionLimiter::new(1, Vec::new()), false),
            (ConnectionLimiter::of_unauthenticated(1, Vec::new()), true),
        ] {
            let first = limiter.permit(ip("192.0.2.1")).unwrap();
            assert!(limiter.permit(ip("192.0.2.1")).is_none());
            first.authenticate();
            first.authenticate();
            let second = limiter.permit(ip("192.0.2.1"));
            assert_eq!(second.is_some(), more);
            drop(first);
            assert_eq!(limiter.permit(ip("192.0.2.1")).is_some(), !more, "released once");
        }
    }

    #[test]
    fn an_address_that_may_have_none_leaves_nothing_behind() {
        let limiter = ConnectionLimiter::new(0, Vec::new());
        assert!(limiter.permit(ip("192.0.2.1")).is_none());
        assert!(limiter.connections.lock().is_empty());
    }
}
