//! From a request to what it asks of the store.

use smallvec::SmallVec;

use crate::identity::Identity;
use crate::key::{Key, Secret, Tag};
use crate::path::Path;
use crate::quota::Quota;
use crate::request::Request;
use crate::rule::Allowance;
use crate::ruleset::{Price, RuleSet, Terms};
use crate::take::{Action, Group, Operation, Take};
use crate::tier::{Levels, TierIndex};
use crate::time::Timestamp;

/// The rules that apply to one request and what they ask of the store.
#[derive(Debug, Default)]
pub struct Demand<'r> {
    /// What to do, one operation per applying rule, in order.
    pub group: Group<'r>,
    /// Positions of those rules in the rule set, in the same order.
    pub rules: SmallVec<[u32; 4]>,
    /// The request's tier or plan, if the rule set has any.
    pub tier: Option<TierIndex>,
}

/// One request being worked out.
pub(crate) struct Inquiry<'r, 'a> {
    rules: &'r RuleSet,
    request: &'a Request<'a>,
    path: &'a Path<'a>,
    secret: &'a Secret,
    now: Timestamp,
    levels: Levels,
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
        Self { rules, request, path, secret, now, levels: rules.tiers.levels(request), tags: SmallVec::new() }
    }

    /// Adds what every rule that applies asks for to `demand`, which may be large and so is not handed around.
    pub(crate) fn fill(&mut self, demand: &mut Demand<'r>) {
        demand.tier = self.levels.user.map(|level| level.name);
        let request_id = self.request.request_id.map(|id| self.secret.request_id(id));
        for index in self.rules.matcher.find(self.request, self.path) {
            let terms = &self.rules.terms[index as usize];
            if self.request.answered.is_some_and(|status| !self.is_charged(index, status)) {
                continue;
            }
            let Some((tag, quota)) = self.settle(terms, index) else { continue };
            demand.rules.push(index);
            let take = Take {
                key: Key::with_hash(&terms.rule_id, terms.rule_hash, quota.algorithm(), tag),
                quota,
                cost: self.request.cost,
                request_id,
                shadow: terms.shadow,
                on_store_failure: terms.on_store_failure,
            };
            demand.group.push(match &terms.price {
                None => take.into(),
                Some(price) => self.at_price(price, take),
            });
        }
    }

    /// Returns true if the charge of the rule at `index` names the status of a response.
    #[cold]
    fn is_charged(&self, index: u32, status: u16) -> bool {
        self.rules.rule(index).charge.as_ref().is_some_and(|charge| charge.names(status))
    }

    /// The take of a rule that says what requests cost, or has their answers say it.
    #[inline(never)]
    fn at_price(&self, price: &Price, take: Take<'r>) -> Operation<'r> {
        let op = Operation::from(Take { cost: price.cost.of(self.request), ..take });
        // Whether a retry is free must be known before its answer is: a request with an id is charged at once. So is a request whose
        // answer is known.
        let hold = self.request.hold.filter(|_| self.request.answered.is_none());
        match (hold, price.held) {
            (Some(id), Some(ttl)) if op.action == Action::Take && take.request_id.is_none() => {
                Operation { action: Action::Hold { id, ttl }, ..op }
            }
            _ => op,
        }
    }

    /// Who is counted and how much they may have; `None` if the rule does not apply after all.
    fn settle(&mut self, terms: &Terms, index: u32) -> Option<(Tag, Quota)> {
        match (self.tag(terms.identifier), &terms.overrides) {
            (Some(tag), None) => Some((tag, self.own_quota(terms))),
            (Some(tag), Some(_)) => {
                let identity = self.identify(terms.identifier);
                Some((tag, self.quota(terms, identity.as_ref())))
            }
            (None, _) => {
                let identity = self.rules.stand_in(self.rules.rule(index), self.request)?;
                let tag = identity.as_ref().unwrap_or(&Identity::shared()).tag(self.secret);
                Some((tag, self.quota(terms, identity.as_ref())))
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
    fn quota(&self, terms: &Terms, identity: Option<&Identity<'_>>) -> Quota {
        let Some(identity) = identity else { return Quota::BLOCKED.at_version(self.rules.stamp()) };
        let overridden = terms.overrides.as_ref().and_then(|overrides| overrides.find(identity, self.now));
        overridden.unwrap_or_else(|| self.own_quota(terms))
    }

    fn own_quota(&self, terms: &Terms) -> Quota {
        let level = || if terms.by_tenant { self.levels.tenant } else { self.levels.user };
        let quota = match terms.allowance {
            Allowance::Fixed(quota) => Some(quota),
            Allowance::Tiered => level().and_then(|level| level.quota),
            Allowance::Planned(_) => {
                level().and_then(|level| terms.planned.get(level.plan? as usize)).copied()
            }
            Allowance::Unlimited => None,
        };
        // Always there: a rule without tiers or plans that it needs does not compile, nor does an unlimited one about
        // requests.
        quota.unwrap_or(Quota::BLOCKED)
    }
}
