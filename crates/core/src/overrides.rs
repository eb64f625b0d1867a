//! Other figures for one identity or for everybody, found without asking each.

use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::identity::{Identity, Part};
use crate::quota::Quota;
use crate::request::counted_ip;
use crate::rule::{Override, Target};
use crate::time::Timestamp;

/// A rule's overrides, indexed by the last part of the identity they are for.
#[derive(Debug)]
pub(crate) struct Overrides {
    list: Vec<Override>,
    by_text: HashMap<Box<str>, SmallVec<[u32; 2]>, FixedState>,
    by_ip: HashMap<IpAddr, SmallVec<[u32; 2]>, FixedState>,
    for_everybody: Vec<u32>,
    ipv6_prefix: u8,
}

impl Overrides {
    pub(crate) fn new(list: &[Override], version: u64, ipv6_prefix: u8) -> Self {
        let mut overrides = Self {
            list: list.to_vec(),
            by_text: HashMap::default(),
            by_ip: HashMap::default(),
            for_everybody: Vec::new(),
            ipv6_prefix,
        };
        for (index, entry) in (0u32..).zip(&mut overrides.list) {
            entry.quota = entry.quota.at_version(version);
            match &entry.target {
                Target::Everybody => overrides.for_everybody.push(index),
                Target::Identity(texts) => {
                    let Some(last) = texts.last() else { continue };
                    overrides.by_text.entry(last.clone()).or_default().push(index);
                    if let Ok(ip) = last.parse() {
                        overrides.by_ip.entry(counted_ip(ip, ipv6_prefix)).or_default().push(index);
                    }
                }
            }
        }
        overrides
    }

    /// The quota that counts for `identity` at `now` instead of the rule's own: one for this very identity before
    /// one for everybody, an earlier one before a later one, none that has ended.
    pub(crate) fn find(&self, identity: &Identity<'_>, now: Timestamp) -> Option<Quota> {
        let own: &[u32] = match identity.parts().last() {
            Some(Part::Ip(ip)) => self.by_ip.get(ip).map_or(&[], |list| list),
            Some(
                Part::Tenant(text)
                | Part::User(text)
                | Part::ApiKey(text)
                | Part::Header(text)
                | Part::Attribute(text)
                | Part::Path(text),
            ) => self.by_text.get(*text).map_or(&[], |list| list),
            Some(Part::Shared) | None => &[],
        };
        own.iter()
            .chain(&self.for_everybody)
            .map(|&index| &self.list[index as usize])
            .find(|entry| {
                entry.until.is_none_or(|until| now < until)
                    && entry.target.matches(identity, self.ipv6_prefix)
            })
            .map(|entry| entry.quota)
    }
}
