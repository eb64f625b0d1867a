//! All rules at once: immutable, compiled, versioned, swapped whole.

use std::fmt;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::demand::{Demand, Inquiry};
use crate::identity::{Identifier, Identity};
use crate::key::{Hash, Secret, rule_hash};
use crate::matcher::Matcher;
use crate::overrides::Overrides;
use crate::path::Path;
use crate::quota::MAX_UNITS;
use crate::request::Request;
use crate::rule::{Allowance, OnMissingIdentity, OnStoreFailure, Rule};
use crate::tier::{Tier, TierTable, Tiers};
use crate::time::Timestamp;

/// IPv6 addresses are counted by this prefix unless told otherwise.
pub const DEFAULT_IPV6_PREFIX: u8 = 64;

/// The largest stamp: numbers up to here are exact in every store.
pub const MAX_STAMP: u64 = MAX_UNITS - 1;

/// What a rule set is made of.
#[derive(Clone, Debug)]
pub struct RuleSetParts {
    /// The rules in document order; ids unique.
    pub rules: Vec<Rule>,
    /// The tiers that tiered rules refer to.
    pub tiers: Tiers,
    /// The source's own version, for people to read; only grows.
    pub version: u64,
    /// Orders what several nodes have read: larger is newer. Quotas carry it, so that a counter shared by nodes is
    /// reshaped by newer rules and never by older ones. The version, unless told otherwise.
    pub stamp: Option<u64>,
    /// How many bits of an IPv6 address are counted by.
    pub ipv6_prefix: u8,
}

impl Default for RuleSetParts {
    fn default() -> Self {
        let (rules, tiers) = (Vec::new(), Tiers::default());
        Self { rules, tiers, version: 0, stamp: None, ipv6_prefix: DEFAULT_IPV6_PREFIX }
    }
}

/// A compiled snapshot of all rules.
#[derive(Debug)]
pub struct RuleSet {
    version: u64,
    stamp: u64,
    pub(crate) ipv6_prefix: u8,
    pub(crate) tiers: TierTable,
    pub(crate) matcher: Matcher,
    pub(crate) terms: Vec<Terms>,
    rules: Vec<Rule>,
    pub(crate) identifiers: Vec<Identifier>,
    by_id: HashMap<Box<str>, u32, FixedState>,
}

/// What a rule comes down to once it matches, apart from the rest of it so that ten thousand of them stay near.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) allowance: Allowance,
    pub(crate) rule_hash: Hash,
    pub(crate) rule_id: Box<str>,
    pub(crate) overrides: Option<Box<Overrides>>,
    /// Position among the distinct identifiers, so that each is worked out once per request.
    pub(crate) identifier: u32,
    pub(crate) shadow: bool,
    pub(crate) on_store_failure: OnStoreFailure,
}

/// Why rules do not form a rule set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSetError {
    /// Two rules have this id.
    DuplicateRule(Box<str>),
    /// A tiered rule, with no tiers to take figures from.
    NoTiers(Box<str>),
    /// This tier is named but not there.
    UnknownTier(Box<str>),
}

impl fmt::Display for RuleSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateRule(id) => write!(f, "two rules have the id `{id}`; give one of them another"),
            Self::NoTiers(id) => {
                write!(f, "rule `{id}` is tiered but there are no tiers; add some or give it a limit")
            }
            Self::UnknownTier(name) => {
                write!(f, "there is no tier `{name}`; add it to the tiers or name another")
            }
        }
    }
}

impl std::error::Error for RuleSetError {}

impl RuleSet {
    /// Compiles `parts`.
    pub fn new(parts: RuleSetParts) -> Result<Self, RuleSetError> {
        let RuleSetParts { mut rules, tiers, version, stamp, ipv6_prefix } = parts;
        let stamp = stamp.unwrap_or(version).min(MAX_STAMP);
        let tiers = TierTable::new(tiers, stamp).map_err(RuleSetError::UnknownTier)?;
        rules.sort_by_key(|rule| rule.priority);
        let mut by_id = HashMap::default();
        let mut identifiers: Vec<Identifier> = Vec::new();
        let mut terms = Vec::with_capacity(rules.len());
        for (index, rule) in (0u32..).zip(&mut rules) {
            if by_id.insert(rule.id.clone(), index).is_some() {
                return Err(RuleSetError::DuplicateRule(rule.id.clone()));
            }
            match &mut rule.allowance {
                Allowance::Fixed(quota) => *quota = quota.at_version(stamp),
                Allowance::Tiered if tiers.list().is_empty() => {
                    return Err(RuleSetError::NoTiers(rule.id.clone()));
                }
                Allowance::Tiered => {}
            }
            let overrides = || Box::new(Overrides::new(&rule.overrides, stamp, ipv6_prefix));
            terms.push(Terms {
                allowance: rule.allowance,
                rule_hash: rule_hash(&rule.id),
                rule_id: rule.id.clone(),
                overrides: (!rule.overrides.is_empty()).then(overrides),
                identifier: position(&mut identifiers, &rule.identifier),
                shadow: rule.shadow,
                on_store_failure: rule.on_store_failure,
            });
        }
        let conditions: Vec<_> = rules.iter().map(|rule| rule.condition.clone()).collect();
        let matcher = Matcher::new(&conditions);
        Ok(Self { version, stamp, ipv6_prefix, tiers, matcher, terms, rules, identifiers, by_id })
    }

    /// The source's version of these rules.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What the quotas of these rules carry as their version.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, by priority.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter()
    }

    /// The rule at a position.
    pub fn rule(&self, index: u32) -> &Rule {
        &self.rules[index as usize]
    }

    /// The rule with an id.
    pub fn get(&self, id: &str) -> Option<&Rule> {
        self.by_id.get(id).map(|&index| self.rule(index))
    }

    /// The tiers, in document order.
    pub fn tiers(&self) -> &[Tier] {
        self.tiers.list()
    }

    /// Works out what `request` demands at `now`: `path` is its path in normal form.
    pub fn demand(
        &self,
        request: &Request<'_>,
        path: &Path<'_>,
        secret: &Secret,
        now: Timestamp,
    ) -> Demand<'_> {
        let mut demand = Demand::default();
        Inquiry::new(self, request, path, secret, now).fill(&mut demand);
        demand
    }

    /// Who `request` is to the rule at `index`, for people to read; `None` if the rule cannot tell.
    pub fn identity<'a>(
        &self,
        index: u32,
        request: &Request<'a>,
        path: &'a Path<'_>,
    ) -> Option<Identity<'a>> {
        let rule = self.rule(index);
        let own = rule.identifier.identify(request, path, self.ipv6_prefix);
        own.or_else(|| self.stand_in(rule, request).flatten())
    }

    /// Who a request that lacks an identity is to `rule`: `None` if the rule then does not apply, `Some(None)` if
    /// it is to be refused.
    pub(crate) fn stand_in<'a>(&self, rule: &Rule, request: &Request<'_>) -> Option<Option<Identity<'a>>> {
        match rule.on_missing_identity {
            OnMissingIdentity::Skip => None,
            OnMissingIdentity::Refuse => Some(None),
            OnMissingIdentity::Shared => Some(Some(Identity::shared())),
            OnMissingIdentity::Ip => {
                Some(Some(request.ip.map_or_else(Identity::shared, |ip| Identity::ip(ip, self.ipv6_prefix))))
            }
        }
    }
}

/// Where `wanted` stands among `list`, added if it does not yet.
fn position(list: &mut Vec<Identifier>, wanted: &Identifier) -> u32 {
    let known = list.iter().position(|known| known == wanted);
    let index = known.unwrap_or_else(|| {
        list.push(wanted.clone());
        list.len() - 1
    });
    u32::try_from(index).unwrap_or(u32::MAX)
}
