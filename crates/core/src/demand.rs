//! From a request to what it asks of the store.

use smallvec::SmallVec;

use crate::identity::Identity;
use crate::key::{Key, Secret, Tag};
use crate::path::Path;
use crate::quota::Quota;
use crate::request::Request;
use crate::rule::Allowance;
use crate::ruleset::{Compiled, RuleSet};
use crate::take::{Group, Take};
use crate::tier::TierIndex;
use crate::time::Timestamp;

/// The rules that apply to one request and what they ask of the store.
#[derive(Debug, Default)]
pub struct Demand<'r> {
    /// What to do, one operation per applying rule, in order.
    pub group: Group<'r>,
    /// Positions of those rules in the rule set, in the same order.
    pub rules: SmallVec<[u32; 4]>,
    /// The request's tier, if the rule set has tiers.
    pub tier: Option<TierIndex>,
}

/// One request being worked out.
pub(crate) struct Inquiry<'r, 'a> {
    rules: &'r RuleSet,
    request: &'a Request<'a>,
    path: &'a Path<'a>,
    secret: &'a Secret,
    now: Timestamp,
    tier: Option<TierIndex>,
    /// What each identifier asked so far made of the request: its tag, or that it cannot tell.
    tags: SmallVec<[(u32, Option<Tag>); 4]>,
}

impl<'r, 'a> Inquiry<'r, 'a> {
    pub(crate) fn new(
        rules: &'r RuleSet,
        request: &'a Request<'a>,
        path: &'a Path<'a>,
        secret: &'a Secret,
        now: Timestamp,
    ) -> Self {
        Self { rules, request, path, secret, now, tier: rules.tiers.of(request), tags: SmallVec::new() }
    }

    /// Adds what every rule that applies asks for to `demand`, which may be large and so is not handed around.
    pub(crate) fn fill(&mut self, demand: &mut Demand<'r>) {
        demand.tier = self.tier;
        let request_id = self.request.request_id.map(|id| self.secret.request_id(id));
        for index in self.rules.matcher.find(self.request, self.path) {
            let compiled = &self.rules.rules[index as usize];
            let Some((tag, quota)) = self.terms(compiled) else { continue };
            demand.rules.push(index);
            let take = Take {
                key: Key::with_hash(&compiled.rule.id, compiled.hashes[quota.algorithm() as usize], tag),
                quota,
                cost: self.request.cost,
                request_id,
                shadow: compiled.rule.shadow,
            };
            demand.group.push(take.into());
        }
    }

    /// Who is counted and how much they may have; `None` if the rule does not apply after all.
    fn terms(&mut self, compiled: &Compiled) -> Option<(Tag, Quota)> {
        match self.tag(compiled.identifier) {
            Some(tag) if compiled.overrides.is_empty() => Some((tag, self.own_quota(compiled))),
            Some(tag) => {
                let identity = self.identify(compiled.identifier);
                Some((tag, self.quota(compiled, identity.as_ref())))
            }
            None => {
                let identity = self.rules.stand_in(&compiled.rule, self.request)?;
                let tag = identity.as_ref().unwrap_or(&Identity::shared()).tag(self.secret);
                Some((tag, self.quota(compiled, identity.as_ref())))
            }
        }
    }

    fn identify(&self, identifier: u32) -> Option<Identity<'a>> {
        self.rules.identifiers[identifier as usize].identify(self.request, self.path, self.rules.ipv6_prefix)
    }

    /// The tag of the request under an identifier, hashed once however many rules share it.
    fn tag(&mut self, identifier: u32) -> Option<Tag> {
        if let Some((_, tag)) = self.tags.iter().find(|(known, _)| *known == identifier) {
            return *tag;
        }
        let rules = self.rules;
        let tag = rules.identifiers[identifier as usize].tag(
            self.request,
            self.path,
            rules.ipv6_prefix,
            self.secret,
        );
        self.tags.push((identifier, tag));
        tag
    }

    /// An override's quota or the rule's own; nothing at all for a request that should have an identity.
    fn quota(&self, compiled: &Compiled, identity: Option<&Identity<'_>>) -> Quota {
        match identity {
            Some(identity) => {
                compiled.overrides.find(identity, self.now).unwrap_or_else(|| self.own_quota(compiled))
            }
            None => Quota::BLOCKED.at_version(self.rules.version()),
        }
    }

    fn own_quota(&self, compiled: &Compiled) -> Quota {
        match (compiled.rule.allowance, self.tier) {
            (Allowance::Fixed(quota), _) => quota,
            (Allowance::Tiered, Some(tier)) => self.rules.tiers.list()[tier.get()].quota,
            // Cannot be: a tiered rule without tiers does not compile.
            (Allowance::Tiered, None) => Quota::BLOCKED,
        }
    }
}
