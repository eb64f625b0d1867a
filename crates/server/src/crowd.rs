//! How many connections each address has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::IpNet;
use parking_lot::Mutex;
use tidegate_core::request::counted_ip;
use tidegate_core::ruleset::DEFAULT_IPV6_PREFIX;

/// Keeps one client from taking all the room there is.
///
/// Entries are as many as there are connections, whose number is bounded.
#[derive(Debug)]
pub struct Crowd {
    most: u32,
    /// Proxies come with the connections of many.
    exempt: Vec<IpNet>,
    present: Mutex<HashMap<IpAddr, u32>>,
    turned_away: AtomicU64,
}

impl Crowd {
    /// Lets each address have `most` connections at once, except those in `exempt`, who may have any number.
    pub fn new(most: u32, exempt: Vec<IpNet>) -> Arc<Self> {
        Arc::new(Self { most, exempt, present: Mutex::default(), turned_away: AtomicU64::new(0) })
    }

    /// How many connections were turned away.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Takes a place for a connection from `ip`, if it may have one more. Whoever has an IPv6 address has a network of them.
    pub(crate) fn enter(self: &Arc<Self>, ip: IpAddr) -> Option<Place> {
        if self.exempt.iter().any(|network| network.contains(&ip)) {
            return Some(Place(None));
        }
        let counted = counted_ip(ip, DEFAULT_IPV6_PREFIX);
        let mut present = self.present.lock();
        let count = present.entry(counted).or_default();
        if *count >= self.most {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *count += 1;
        Some(Place(Some((Arc::clone(self), counted))))
    }

    fn leave(&self, ip: IpAddr) {
        let mut present = self.present.lock();
        if let Some(count) = present.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                present.remove(&ip);
            }
        }
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<(Arc<Crowd>, IpAddr)>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((crowd, ip)) = self.0.take() {
            crowd.leave(ip);
        }
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
        let crowd = Crowd::new(2, vec!["10.0.0.0/8".parse().unwrap()]);
        let first = crowd.enter(ip("192.0.2.1"));
        let second = crowd.enter(ip("192.0.2.1"));
        assert!(first.is_some() && second.is_some());
        assert!(crowd.enter(ip("192.0.2.1")).is_none());
        assert!(crowd.enter(ip("192.0.2.2")).is_some(), "others have theirs");
        assert_eq!(crowd.turned_away(), 1);
        drop(first);
        assert!(crowd.enter(ip("192.0.2.1")).is_some());
        drop(second);
        assert!(crowd.present.lock().is_empty(), "nothing is left of those who are gone");
    }

    #[test]
    fn a_network_of_addresses_is_one_client_and_a_proxy_is_many() {
        let crowd = Crowd::new(1, vec!["10.0.0.0/8".parse().unwrap()]);
        let _first = crowd.enter(ip("2001:db8::1")).unwrap();
        assert!(crowd.enter(ip("2001:db8::2")).is_none());
        let many: Vec<_> = (0..100).map(|_| crowd.enter(ip("10.1.2.3"))).collect();
        assert!(many.iter().all(Option::is_some));
    }
}
