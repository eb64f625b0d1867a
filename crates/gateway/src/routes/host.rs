//! Hosts as routes write them, and finding those that a request's host is.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Names in the DNS are no longer; whatever is, is no host that a route names.
const MAX_HOST_BYTES: usize = 253;

/// Which hosts a route is for. Names are in lower case, without port and final dot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Any, or none.
    #[default]
    Any,
    /// This one.
    Exact(Box<str>),
    /// All below this one: `*.example.com`, however many labels.
    Below(Box<str>),
}

impl HostPattern {
    /// Reads `api.example.com`, `*.example.com`, an address or `*`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(100).collect();
        if text == "*" {
            return Ok(Self::Any);
        }
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        let is_address = name.starts_with('[') && name.ends_with(']');
        if !is_address && name.contains(':') {
            return Err(format!("host `{shown}` has a port, which is not looked at; leave it out"));
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        let is_good = match is_address {
            true => !below && name[1..name.len() - 1].parse::<std::net::Ipv6Addr>().is_ok(),
            false => name.len() <= MAX_HOST_BYTES && name.split('.').all(label),
        };
        if !is_good {
            return Err(format!(
                "`{shown}` is no host; write a name such as api.example.com, *.example.com for all below it, \
                 or leave it out for any (names with other letters in their xn-- form)"
            ));
        }
        let name = name.to_ascii_lowercase().into();
        Ok(if below { Self::Below(name) } else { Self::Exact(name) })
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

/// A value for each host pattern; a request's host finds those of all patterns it matches, the narrowest first.
#[derive(Debug, Default)]
pub(super) struct Hosts<T> {
    exact: Names<T>,
    below: Names<T>,
    any: T,
}

#[derive(Debug)]
struct Names<T> {
    table: HashTable<(Box<str>, T)>,
    hasher: RandomState,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), hasher: RandomState::default() }
    }
}

/// The same for every spelling in upper and lower case.
fn hash(hasher: &RandomState, name: &str) -> u64 {
    let mut hasher = hasher.build_hasher();
    for byte in name.bytes() {
        hasher.write_u8(byte.to_ascii_lowercase());
    }
    hasher.finish()
}

impl<T> Names<T> {
    fn get(&self, name: &str) -> Option<&T> {
        if self.table.is_empty() {
            return None;
        }
        let hash = hash(&self.hasher, name);
        self.table.find(hash, |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl<T: Default> Names<T> {
    fn at(&mut self, name: &str) -> &mut T {
        let Self { table, hasher } = self;
        let entry =
            table.entry(hash(hasher, name), |(known, _)| **known == *name, |(known, _)| hash(hasher, known));
        &mut entry.or_insert_with(|| (name.into(), T::default())).into_mut().1
    }
}

impl<T: Default> Hosts<T> {
    /// The value of a pattern, made if there is none.
    pub(super) fn at(&mut self, pattern: &HostPattern) -> &mut T {
        match pattern {
            HostPattern::Any => &mut self.any,
            HostPattern::Exact(name) => self.exact.at(name),
            HostPattern::Below(name) => self.below.at(name),
        }
    }
}

impl<T> Hosts<T> {
    /// All values, to be completed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let exact = self.exact.table.iter_mut().map(|(_, value)| value);
        let below = self.below.table.iter_mut().map(|(_, value)| value);
        exact.chain(below).chain(std::iter::once(&mut self.any))
    }

    /// What `found` makes of the first value that it makes something of: exact, then the longest wildcard, then any.
    pub(super) fn find<'a, R>(
        &'a self,
        host: Option<&str>,
        mut found: impl FnMut(&'a T) -> Option<R>,
    ) -> Option<R> {
        if let Some(name) = host.map(bare).filter(|name| (1..=MAX_HOST_BYTES).contains(&name.len())) {
            if let Some(result) = self.exact.get(name).and_then(&mut found) {
                return Some(result);
            }
            if !self.below.table.is_empty() && !name.starts_with('[') {
                let parents = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
                if let Some(result) = parents.filter_map(|parent| self.below.get(parent)).find_map(&mut found)
                {
                    return Some(result);
                }
            }
        }
        found(&self.any)
    }
}

/// A host without its port and final dot.
fn bare(host: &str) -> &str {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.find(']').map_or(host, |end| &host[..end + 2]),
        None => host.find(':').map_or(host, |colon| &host[..colon]),
    };
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_are_read() {
        for (text, shown) in [
            ("api.example.com", "api.example.com"),
            ("API.Example.com.", "api.example.com"),
            ("*.example.com", "*.example.com"),
            ("*", "*"),
            ("10.0.0.1", "10.0.0.1"),
            ("[::1]", "[::1]"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(HostPattern::read(text).unwrap().to_string(), shown);
        }
        for text in
            ["", "*.", "a..b", "a.*.b", "a:80", "http://a", "a/b", "é.com", "[::1", "[x]", "*.[::1]", "a b"]
        {
            assert!(HostPattern::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_narrowest_is_found_first() {
        let mut hosts: Hosts<Option<&str>> = Hosts::default();
        for text in ["api.example.com", "*.example.com", "*.eu.example.com", "[::1]"] {
            *hosts.at(&HostPattern::read(text).unwrap()) = Some(text);
        }
        hosts.any = Some("*");
        for (host, expected) in [
            ("api.example.com", "api.example.com"),
            ("API.EXAMPLE.COM.:8080", "api.example.com"),
            ("www.example.com", "*.example.com"),
            ("a.b.example.com", "*.example.com"),
            ("a.b.eu.example.com:1", "*.eu.example.com"),
            ("eu.example.com", "*.example.com"),
            ("example.com", "*"),
            ("notexample.com", "*"),
            ("[::1]:80", "[::1]"),
            ("", "*"),
            ("[", "*"),
            (":", "*"),
            (".example.com", "*.example.com"),
        ] {
            assert_eq!(hosts.find(Some(host), |value| *value), Some(expected), "{host}");
        }
        assert_eq!(hosts.find(None, |value| *value), Some("*"));
        let long = format!("{}.example.com", "a.".repeat(200));
        assert_eq!(hosts.find(Some(&long), |value| *value), Some("*"));
        // Where the narrowest has nothing, the next is asked.
        *hosts.at(&HostPattern::read("api.example.com").unwrap()) = None;
        assert_eq!(hosts.find(Some("api.example.com"), |value| *value), Some("*.example.com"));
    }

    proptest! {
        #[test]
        fn anything_may_be_a_host(host in "\\PC{0,40}") {
            let mut hosts: Hosts<Option<u8>> = Hosts::default();
            *hosts.at(&HostPattern::read("*.a").unwrap()) = Some(1);
            hosts.any = Some(0);
            prop_assert!(hosts.find(Some(&host), |value| *value).is_some());
        }
    }
}
