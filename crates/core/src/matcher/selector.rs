//! Rules that share a path pattern, laid out by what else tells them apart.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;
use smallvec::SmallVec;

use crate::request::{Fields, Request, canonical_ip};
use crate::rule::{Condition, Wanted};

/// Up to this many rules are simply looked at one by one.
const FEW: usize = 4;

/// A request with more fields than a selector has names is asked by name, otherwise each of its fields is looked up.
const MANY_NAMES: usize = 16;

/// Rules to consider for a request, a superset of those that apply.
#[derive(Debug)]
pub(super) enum Selector {
    Few(SmallVec<[u32; FEW]>),
    Indexed(Box<Index>),
}

/// Each rule is filed under one of its conditions, the one it shares with the fewest others.
#[derive(Debug, Default)]
pub(super) struct Index {
    unconditional: Vec<u32>,
    methods: HashMap<Box<str>, Vec<u32>, FixedState>,
    headers: FieldIndex,
    attributes: FieldIndex,
    v4: PrefixMap<Ipv4Net, Vec<u32>>,
    v6: PrefixMap<Ipv6Net, Vec<u32>>,
}

/// One value of one condition.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Anchor<'c> {
    Method(&'c str),
    Subnet(IpNet),
    Header(&'c str, &'c str),
    Attribute(&'c str, &'c str),
}

impl Selector {
    /// Lays out `rules`, positions in `conditions`.
    pub(super) fn new(rules: &[u32], conditions: &[Condition]) -> Self {
        if rules.len() <= FEW {
            return Self::Few(rules.into());
        }
        let mut shared: HashMap<Anchor<'_>, usize, FixedState> = HashMap::default();
        for &rule in rules {
            for anchor in anchors(&conditions[rule as usize]).into_iter().flatten() {
                *shared.entry(anchor).or_default() += 1;
            }
        }
        let mut index = Index::default();
        for &rule in rules {
            let crowd = |anchors: &Vec<Anchor<'_>>| anchors.iter().map(|anchor| shared[anchor]).max();
            match anchors(&conditions[rule as usize]).into_iter().min_by_key(crowd) {
                Some(anchors) => anchors.iter().for_each(|anchor| index.file(anchor, rule)),
                None => index.unconditional.push(rule),
            }
        }
        Self::Indexed(Box::new(index))
    }

    /// Shows every rule that could apply to `request` to `consider`.
    pub(super) fn candidates(&self, request: &Request<'_>, consider: &mut impl FnMut(u32)) {
        match self {
            Self::Few(rules) => rules.iter().copied().for_each(consider),
            Self::Indexed(index) => index.candidates(request, consider),
        }
    }
}

/// The conditions a rule can be filed under, each as the list of values of which a request has at most a few.
fn anchors(condition: &Condition) -> Vec<Vec<Anchor<'_>>> {
    let mut all = Vec::new();
    if !condition.methods.is_empty() {
        all.push(condition.methods.iter().map(|method| Anchor::Method(method)).collect());
    }
    if !condition.subnets.is_empty() {
        all.push(condition.subnets.iter().map(|net| Anchor::Subnet(net.trunc())).collect());
    }
    for (name, wanted) in &condition.headers {
        if let Wanted::Value(value) = wanted {
            all.push(vec![Anchor::Header(name, value)]);
        }
    }
    for (name, wanted) in &condition.attributes {
        if let Wanted::Value(value) = wanted {
            all.push(vec![Anchor::Attribute(name, value)]);
        }
    }
    all
}

impl Index {
    fn file(&mut self, anchor: &Anchor<'_>, rule: u32) {
        match *anchor {
            Anchor::Method(method) => self.methods.entry(method.into()).or_default().push(rule),
            Anchor::Subnet(IpNet::V4(net)) => self.v4.entry(net).or_default().push(rule),
            Anchor::Subnet(IpNet::V6(net)) => self.v6.entry(net).or_default().push(rule),
            Anchor::Header(name, value) => self.headers.file(name, value, rule),
            Anchor::Attribute(name, value) => self.attributes.file(name, value, rule),
        }
    }

    fn candidates(&self, request: &Request<'_>, consider: &mut impl FnMut(u32)) {
        self.unconditional.iter().copied().for_each(&mut *consider);
        if !self.methods.is_empty()
            && let Some(method) = request.method
        {
            self.with_method(method).iter().copied().for_each(&mut *consider);
        }
        self.headers.candidates(request.headers, consider);
        self.attributes.candidates(request.attributes, consider);
        match request.ip.map(canonical_ip) {
            Some(IpAddr::V4(ip)) => {
                self.v4.cover_values(&Ipv4Net::from(ip)).flatten().copied().for_each(consider);
            }
            Some(IpAddr::V6(ip)) => {
                self.v6.cover_values(&Ipv6Net::from(ip)).flatten().copied().for_each(consider);
            }
            None => {}
        }
    }

    fn with_method(&self, method: &str) -> &[u32] {
        let found = match method.bytes().any(|byte| byte.is_ascii_lowercase()) {
            true => self.methods.get(method.to_ascii_uppercase().as_str()),
            false => self.methods.get(method),
        };
        found.map_or(&[], |rules| rules)
    }
}

/// Rules by name and value of a field.
#[derive(Debug, Default)]
struct FieldIndex {
    names: Vec<Box<str>>,
    rules: HashMap<u64, Vec<u32>, FixedState>,
    hasher: FixedState,
}

impl FieldIndex {
    /// Filing by hash needs no owned pair to look up; a collision only adds a candidate.
    fn hash(&self, name: &str, value: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        name.bytes().for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase()));
        value.hash(&mut hasher);
        hasher.finish()
    }

    fn file(&mut self, name: &str, value: &str, rule: u32) {
        if !self.names.iter().any(|known| **known == *name) {
            self.names.push(name.into());
        }
        self.rules.entry(self.hash(name, value)).or_default().push(rule);
    }

    fn candidates(&self, fields: &dyn Fields, consider: &mut impl FnMut(u32)) {
        let mut look_up = |name: &str, value: &str| {
            if let Some(rules) = self.rules.get(&self.hash(name, value)) {
                rules.iter().copied().for_each(&mut *consider);
            }
        };
        if self.names.len() > MANY_NAMES {
            return fields.each(&mut look_up);
        }
        for name in &self.names {
            if let Some(value) = fields.value(name) {
                look_up(name, value);
            }
        }
    }
}
