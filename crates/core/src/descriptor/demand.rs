//! From descriptors to what they ask of the store.

use smallvec::SmallVec;

use super::index::Domain;
use super::{Descriptor, Hits};
use crate::key::{Key, Secret, Tag};
use crate::quota::Quota;
use crate::rule::Allowance;
use crate::ruleset::RuleSet;
use crate::take::{Action, Group, Operation, Take};
use crate::time::Timestamp;

/// What tells the parts of a descriptor's identity from those of a request's.
const VALUE: u8 = 10;
const DOMAIN: u8 = 11;
const KEY: u8 = 12;
const WINDOW: u8 = 13;

/// The rules that apply to descriptors and what they ask of the store.
#[derive(Debug)]
pub struct DescriptorDemand<'r> {
    /// What to do all or nothing, in the order of the descriptors that ask for it.
    pub group: Group<'r>,
    /// What to do each by itself, likewise.
    pub apart: Group<'r>,
    /// What becomes of each descriptor, in order.
    pub asked: SmallVec<[Asked; 4]>,
}

/// What becomes of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// No rule is about it, or one that is replaced by another.
    Nothing,
    /// This rule lets it pass without counting.
    Unlimited(u32),
    /// This rule counts it: the next operation of the group.
    Counted(u32),
    /// This rule counts it: the next operation of those that stand by themselves.
    CountedApart(u32),
}

impl RuleSet {
    /// Works out what `descriptors` of `domain` demand.
    pub fn demand_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        secret: &Secret,
    ) -> DescriptorDemand<'_> {
        let Some(terms) = self.domains.get(domain) else {
            let asked = descriptors.iter().map(|_| Asked::Nothing).collect();
            return DescriptorDemand { group: Group::new(), apart: Group::new(), asked };
        };
        let found: SmallVec<[Option<u32>; 4]> =
            descriptors.iter().map(|descriptor| rule_of(terms, descriptor)).collect();
        let (mut group, mut apart) = (Group::new(), Group::new());
        let asked = descriptors.iter().zip(&found).map(|(descriptor, rule)| {
            let Some(rule) = rule.filter(|&rule| !self.is_replaced(rule, &found)) else {
                return Asked::Nothing;
            };
            let quota = match (descriptor.limit, self.rule(rule).allowance) {
                (Some(quota), _) => quota.at_version(self.stamp()),
                (None, Allowance::Fixed(quota) | Allowance::Planned(quota)) => quota,
                (None, Allowance::Unlimited | Allowance::Tiered) => return Asked::Unlimited(rule),
            };
            let op = self.operation(rule, quota, domain, descriptor, secret);
            if op.action == Action::Take && (terms.charge_refused || self.charges_refused(rule)) {
                apart.push(op);
                return Asked::CountedApart(rule);
            }
            group.push(op);
            Asked::Counted(rule)
        });
        let asked = asked.collect();
        DescriptorDemand { group, apart, asked }
    }

    fn charges_refused(&self, rule: u32) -> bool {
        self.rule(rule).descriptor.as_ref().is_some_and(|about| about.charge_refused)
    }

    /// Whether another of the rules that were found takes the place of `rule`.
    fn is_replaced(&self, rule: u32, found: &[Option<u32>]) -> bool {
        let name = self.rule(rule).descriptor.as_ref().and_then(|about| about.name.as_ref());
        name.is_some_and(|name| {
            let others = found.iter().flatten().filter_map(|&other| self.rule(other).descriptor.as_ref());
            others.into_iter().any(|about| about.replaces.contains(name))
        })
    }

    fn operation(
        &self,
        rule: u32,
        quota: Quota,
        domain: &str,
        descriptor: &Descriptor<'_>,
        secret: &Secret,
    ) -> Operation<'_> {
        let terms = &self.terms[rule as usize];
        let tag = self.descriptor_tag(rule, domain, descriptor, secret);
        let key = Key::with_hash(&terms.rule_id, terms.rule_hash, quota.algorithm(), tag);
        let (cost, action) = match descriptor.hits {
            // Whoever looks wants to know whether anything is left.
            Hits::Take(0) => (1, Action::Peek),
            Hits::Take(cost) => (cost, Action::Take),
            Hits::GiveBack(cost) => (cost, Action::Return { since: Timestamp::LATEST }),
        };
        let take = Take {
            shadow: terms.shadow,
            on_store_failure: terms.on_store_failure,
            ..Take::new(key, quota, cost)
        };
        Operation { take, action }
    }

    /// Who is counted: the values that the rule leaves open. The domain's name keeps the counters of all the rules
    /// that leave nothing open from being in one place.
    /// Who is counted when `rule` counts a descriptor, as far as it tells them apart.
    pub fn descriptor_tag(
        &self,
        rule: u32,
        domain: &str,
        descriptor: &Descriptor<'_>,
        secret: &Secret,
    ) -> Tag {
        if let Some(limit) = &descriptor.limit {
            return brought_tag(domain, descriptor, limit, secret);
        }
        let mut encoding = secret.encode();
        encoding.part(DOMAIN, domain.as_bytes());
        if let Some(about) = &self.rule(rule).descriptor {
            let values = about.entries.iter().zip(&descriptor.entries);
            for (_, entry) in values.filter(|(pattern, _)| pattern.tells_apart()) {
                encoding.part(VALUE, entry.value.as_bytes());
            }
        }
        encoding.tag()
    }
}

/// The rule that a descriptor is counted by.
fn rule_of(domain: &Domain, descriptor: &Descriptor<'_>) -> Option<u32> {
    match descriptor.limit {
        Some(_) => Some(domain.brought),
        None => domain.find(&descriptor.entries),
    }
}

/// Who is counted by a limit that came along: all that the descriptor says, and by which window, since one request
/// may bring several.
fn brought_tag(domain: &str, descriptor: &Descriptor<'_>, limit: &Quota, secret: &Secret) -> Tag {
    let mut encoding = secret.encode();
    encoding.part(DOMAIN, domain.as_bytes());
    encoding.part(WINDOW, &limit.window().as_millis().to_le_bytes());
    for entry in &descriptor.entries {
        encoding.part(KEY, entry.key.as_bytes()).part(VALUE, entry.value.as_bytes());
    }
    encoding.tag()
}
