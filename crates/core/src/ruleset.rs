//! All rules at once: immutable, compiled, versioned, swapped whole.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::cost::Cost;
use crate::decision::Decision;
use crate::demand::{Demand, Inquiry};
use crate::descriptor::{DomainTerms, Domains};
use crate::header_names::HeaderNames;
use crate::identity::{Facet, Identifier, Identity, present};
use crate::key::{Hash, Secret, rule_hash};
use crate::matcher::Matcher;
use crate::overrides::Overrides;
use crate::path::Path;
use crate::plan::Plan;
use crate::quota::{Algorithm, MAX_UNITS, Quota, QuotaError};
use crate::request::Request;
use crate::rule::{Allowance, OnLimit, OnMissingIdentity, OnStoreFailure, Rule};
use crate::tier::{Standing, TierTable, Tiers};
use crate::time::{Span, Timestamp};

/// IPv6 addresses are counted by this prefix unless told otherwise.
pub const DEFAULT_IPV6_PREFIX: u8 = 64;

/// Status of a response to a request whose credentials were not accepted.
const UNAUTHORIZED: u16 = 401;

/// The largest stamp: numbers up to here are exact in every store.
pub const MAX_STAMP: u64 = MAX_UNITS - 1;

/// What a rule set is made of.
#[derive(Clone, Debug)]
pub struct RuleSetParts {
    /// The rules in document order; ids unique.
    pub rules: Vec<Rule>,
    /// The tiers that tiered rules refer to, and the plans that base limits are multiplied by.
    pub tiers: Tiers,
    /// How domains are served; those that only rules name are served as usual.
    pub domains: Vec<DomainTerms>,
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
        Self {
            rules: Vec::new(),
            tiers: Tiers::default(),
            domains: Vec::new(),
            version: 0,
            stamp: None,
            ipv6_prefix: DEFAULT_IPV6_PREFIX,
        }
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
    pub(crate) domains: Domains,
    pub(crate) terms: Vec<Terms>,
    rules: Vec<Rule>,
    /// How many of them somebody wrote.
    written: usize,
    pub(crate) identifiers: Vec<Identifier>,
    by_id: HashMap<Box<str>, u32, FixedState>,
    /// True if a rule asks for a tier or a plan.
    asks_tier: bool,
    /// True if such a rule counts by tenant.
    asks_plan: bool,
    /// Whether a rule lets requests wait.
    delays: bool,
    /// True if the charge of a rule names status 401.
    charges_unauthorized: bool,
    /// True if a rule limits requests in flight.
    limits_in_flight: bool,
    headers: HeaderNames,
    kept: OnceLock<Arc<dyn Kept>>,
}

/// What belongs to some rules and goes with them, such as counters: whoever has a decision by them has that, too, without another
/// look-up.
pub trait Kept: Any + Send + Sync + fmt::Debug {
    /// Takes note of a decision by `rules`, which keep this.
    fn note(&self, decision: &Decision, rules: &RuleSet);
}

/// What a rule comes down to once it matches, apart from the rest of it so that ten thousand of them stay near.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) allowance: Allowance,
    /// What it comes to in each plan, so that nothing is multiplied per request; empty if that does not matter.
    pub(crate) planned: Box<[Quota]>,
    pub(crate) rule_hash: Hash,
    pub(crate) rule_id: Box<str>,
    pub(crate) overrides: Option<Box<Overrides>>,
    /// Position among the distinct identifiers, so that each is worked out once per request.
    pub(crate) identifier: u32,
    /// True if the tenant is counted, and so has one limit whichever of its users asks.
    pub(crate) by_tenant: bool,
    pub(crate) shadow: bool,
    pub(crate) on_store_failure: OnStoreFailure,
    /// What requests take, unless that is one each, for good.
    pub(crate) price: Option<Box<Price>>,
}

/// What requests take from a rule out of the ordinary.
#[derive(Debug)]
pub(crate) struct Price {
    pub(crate) cost: Cost,
    /// How long that is held for the answer to say otherwise, if it may.
    pub(crate) held: Option<Span>,
}

impl Price {
    fn of(rule: &Rule) -> Option<Box<Self>> {
        let held = rule.charge.as_ref().map(|charge| charge.within);
        let usual = held.is_none() && rule.cost == Cost::default();
        (!usual).then(|| Box::new(Self { cost: rule.cost.clone(), held }))
    }
}

/// Why rules do not form a rule set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSetError {
    /// Two rules have this id.
    DuplicateRule(Box<str>),
    /// A tiered rule, with no tiers to take figures from.
    NoTiers(Box<str>),
    /// A rule with a base limit, with no plans to multiply it by.
    NoPlans(Box<str>),
    /// A base limit times a multiplier is no quota.
    Product {
        /// The rule.
        rule: Box<str>,
        /// The plan.
        plan: Box<str>,
        /// Why.
        error: QuotaError,
    },
    /// This tier is named but not there, as a plan neither.
    UnknownTier(Box<str>),
    /// A rule is about the very descriptors that another is about.
    DuplicateDescriptor(Box<str>),
    /// A rule about requests without a limit, which would do nothing.
    Unlimited(Box<str>),
    /// A rule that limits requests in flight for some, and has responses say what a request costs.
    InFlightCharge(Box<str>),
    /// A rule that limits requests in flight for some, and has others wait.
    InFlightDelay(Box<str>),
}

impl fmt::Display for RuleSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateRule(id) => write!(f, "two rules have the id `{id}`; give one of them another"),
            Self::NoTiers(id) => {
                write!(f, "rule `{id}` is tiered but there are no tiers; add some or give it a limit")
            }
            Self::NoPlans(id) => {
                write!(f, "rule `{id}` has a base limit but there are no plans; add some or give it a limit")
            }
            Self::Product { rule, plan, error } => write!(f, "rule `{rule}` in plan `{plan}`: {error}"),
            Self::UnknownTier(name) => {
                write!(f, "there is no tier `{name}`; add it to the tiers or name another")
            }
            Self::DuplicateDescriptor(id) => {
                write!(f, "rule `{id}` is about descriptors that another rule is about; remove one of them")
            }
            Self::Unlimited(id) => {
                write!(
                    f,
                    "rule `{id}` is unlimited and not about descriptors; give it a limit or leave it out"
                )
            }
            Self::InFlightCharge(id) => write!(
                f,
                "rule `{id}` limits requests in flight, which responses cannot charge for; remove `charge` or use another algorithm"
            ),
            Self::InFlightDelay(id) => write!(
                f,
                "rule `{id}` limits requests in flight, and nobody can tell how long to wait for one to end; remove `on_limit: delay` or use another algorithm"
            ),
        }
    }
}

impl std::error::Error for RuleSetError {}

impl RuleSet {
    /// Compiles `parts`.
    pub fn new(parts: RuleSetParts) -> Result<Self, RuleSetError> {
        let RuleSetParts { mut rules, tiers, domains, version, stamp, ipv6_prefix } = parts;
        let stamp = stamp.unwrap_or(version).min(MAX_STAMP);
        let tier_from = tiers.from.clone();
        let tiers = TierTable::new(tiers, stamp).map_err(RuleSetError::UnknownTier)?;
        // Those about requests first: the matcher is not to meet the others.
        rules.sort_by_key(|rule| (rule.descriptor.is_some(), rule.priority));
        let about_requests = rules.partition_point(|rule| rule.descriptor.is_none());
        let written = rules.len();
        let domains = add_domains(domains, &mut rules)?;
        let mut by_id = HashMap::default();
        let mut identifiers: Vec<Identifier> = Vec::new();
        let mut terms = Vec::with_capacity(rules.len());
        for (index, rule) in (0u32..).zip(&mut rules) {
            if (index as usize) < written && by_id.insert(rule.id.clone(), index).is_some() {
                return Err(RuleSetError::DuplicateRule(rule.id.clone()));
            }
            let planned = allow(rule, &tiers, stamp)?;
            let overrides = || Box::new(Overrides::new(&rule.overrides, stamp, ipv6_prefix));
            terms.push(Terms {
                allowance: rule.allowance,
                planned,
                rule_hash: rule_hash(&rule.id),
                rule_id: rule.id.clone(),
                overrides: (!rule.overrides.is_empty()).then(overrides),
                identifier: position(&mut identifiers, &rule.identifier),
                by_tenant: rule.identifier.is_of_tenant(),
                shadow: rule.shadow || rule.descriptor.as_ref().is_some_and(|about| about.quota_mode),
                on_store_failure: rule.on_store_failure,
                price: Price::of(rule),
            });
        }
        let asks_tier = |rule: &Rule| matches!(rule.allowance, Allowance::Tiered | Allowance::Planned(_));
        let mut asking = rules[..about_requests].iter().filter(|rule| asks_tier(rule)).peekable();
        let asks_tier = asking.peek().is_some();
        let asks_plan = asking.any(|rule| rule.identifier.is_of_tenant());
        let delays =
            rules[..about_requests].iter().any(|rule| !rule.shadow && rule.on_limit != OnLimit::Refuse);
        let names_401 = |rule: &Rule| rule.charge.as_ref().is_some_and(|charge| charge.names(UNAUTHORIZED));
        let charges_unauthorized = rules[..about_requests].iter().any(names_401);
        let mut limits_in_flight = false;
        for rule in rules.iter().filter(|rule| is_in_flight(rule, &tiers)) {
            if rule.charge.is_some() {
                return Err(RuleSetError::InFlightCharge(rule.id.clone()));
            }
            if rule.on_limit != OnLimit::Refuse {
                return Err(RuleSetError::InFlightDelay(rule.id.clone()));
            }
            limits_in_flight = true;
        }
        let conditions: Vec<_> = rules[..about_requests].iter().map(|rule| rule.condition.clone()).collect();
        let matcher = Matcher::new(&conditions);
        let headers = HeaderNames::new(rules[..about_requests].iter(), &tier_from);
        Ok(Self {
            version,
            stamp,
            ipv6_prefix,
            tiers,
            matcher,
            domains,
            terms,
            rules,
            written,
            identifiers,
            by_id,
            asks_tier,
            asks_plan,
            delays,
            charges_unauthorized,
            limits_in_flight,
            headers,
            kept: OnceLock::new(),
        })
    }

    /// Keeps something that belongs to these rules and goes with them. There is room for one thing; what comes later is dropped.
    pub fn keep(&self, kept: Arc<dyn Kept>) {
        self.kept.set(kept).ok();
    }

    /// What is kept, if it is of this kind.
    pub fn kept<T: Any>(&self) -> Option<&T> {
        let kept: &dyn Any = &**self.kept.get()?;
        kept.downcast_ref()
    }

    /// Shows what is kept a decision by these rules.
    #[inline]
    pub fn note(&self, decision: &Decision) {
        if let Some(kept) = self.kept.get() {
            kept.note(decision, self);
        }
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
        self.written
    }

    /// One more than the largest position a verdict can name: besides the rules there is one per domain for limits
    /// that descriptors bring along.
    pub fn positions(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// The rules, by priority; those about descriptors last.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules[..self.written].iter()
    }

    /// The rule at a position.
    pub fn rule(&self, index: u32) -> &Rule {
        &self.rules[index as usize]
    }

    /// The rule with an id.
    pub fn get(&self, id: &str) -> Option<&Rule> {
        self.by_id.get(id).map(|&index| self.rule(index))
    }

    /// The domains that rules are about, in no particular order.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.names()
    }

    /// All that a request's tier may be called: the tiers and then the plans, each in document order.
    pub fn tiers(&self) -> &[Standing] {
        self.tiers.list()
    }

    /// Returns true if a tier or a plan is called so.
    pub fn knows_tier(&self, name: &str) -> bool {
        self.tiers.knows(name)
    }

    /// The plans, in document order.
    pub fn plans(&self) -> &[Plan] {
        self.tiers.plans()
    }

    /// Whether any rule about requests [lets them wait](OnLimit::Delay) instead of refusing them.
    pub fn delays(&self) -> bool {
        self.delays
    }

    /// Returns true if the [charge](crate::cost::Charge::names) of any rule about requests names status 401.
    pub fn charges_unauthorized(&self) -> bool {
        self.charges_unauthorized
    }

    /// Returns the number of bits of an IPv6 address that are counted by.
    pub fn ipv6_prefix(&self) -> u8 {
        self.ipv6_prefix
    }

    /// Returns true if any rule limits how many requests are [in flight](Algorithm::InFlight), be it only for some tiers or identities.
    pub fn limits_in_flight(&self) -> bool {
        self.limits_in_flight
    }

    /// Returns the names of the headers that rules about requests read.
    pub fn headers(&self) -> &HeaderNames {
        &self.headers
    }

    /// Returns the name of the tier or plan that a request has: that of its user, or else of its tenant, or else the default.
    pub fn tier_of(&self, request: &Request<'_>) -> Option<&str> {
        let level = self.tiers.levels(request).user?;
        self.tiers().get(level.name.get()).map(|named| &*named.name)
    }

    /// Returns true if the tier or plan of the request's user is worth a look-up: a rule asks for it, and neither the request nor the
    /// rule documents name one that is known here.
    pub fn wants_tier(&self, request: &Request<'_>) -> bool {
        self.asks_tier && present(request.user).is_some() && self.tiers.of_user(request).is_none()
    }

    /// Returns true if the tier or plan of the request's tenant is worth a look-up: a rule that counts by tenant asks for it, or the user
    /// may have none, and neither the request nor the rule documents name one that is known here.
    pub fn wants_plan(&self, request: &Request<'_>) -> bool {
        self.asks_tier
            && present(request.tenant).is_some()
            && self.tiers.of_tenant(request).is_none()
            && (self.asks_plan || self.tiers.of_user(request).is_none())
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

/// Stamps what a rule allows, and works out what that is in each plan if it depends on it.
fn allow(rule: &mut Rule, tiers: &TierTable, stamp: u64) -> Result<Box<[Quota]>, RuleSetError> {
    match &mut rule.allowance {
        Allowance::Fixed(quota) => *quota = quota.at_version(stamp),
        Allowance::Planned(base) => {
            *base = base.at_version(stamp);
            if tiers.plans().is_empty() {
                return Err(RuleSetError::NoPlans(rule.id.clone()));
            }
            let product = |plan: &Plan| {
                base.times(plan.multiplier).map_err(|error| RuleSetError::Product {
                    rule: rule.id.clone(),
                    plan: plan.name.clone(),
                    error,
                })
            };
            return tiers.plans().iter().map(product).collect();
        }
        Allowance::Tiered if !tiers.has_tiers() => return Err(RuleSetError::NoTiers(rule.id.clone())),
        Allowance::Unlimited if rule.descriptor.is_none() => {
            return Err(RuleSetError::Unlimited(rule.id.clone()));
        }
        Allowance::Tiered | Allowance::Unlimited => {}
    }
    Ok(Box::default())
}

/// Returns true if `rule` limits how many requests are in flight, for whomever.
fn is_in_flight(rule: &Rule, tiers: &TierTable) -> bool {
    let counts = |quota: &Quota| quota.algorithm() == Algorithm::InFlight;
    let own = match &rule.allowance {
        Allowance::Fixed(quota) | Allowance::Planned(quota) => counts(quota),
        Allowance::Tiered => tiers.quotas().any(|quota| counts(&quota)),
        Allowance::Unlimited => false,
    };
    own || rule.overrides.iter().any(|entry| counts(&entry.quota))
}

/// The domains, with the rules about their descriptors, which are the last of `rules`. Adds a rule for each that
/// counts by the limits which descriptors bring along.
fn add_domains(terms: Vec<DomainTerms>, rules: &mut Vec<Rule>) -> Result<Domains, RuleSetError> {
    let mut domains = Domains::default();
    let named = rules.iter().filter_map(|rule| rule.descriptor.as_ref());
    let named = named.map(|about| DomainTerms { name: about.domain.clone(), charge_refused: false });
    let mut terms: Vec<_> = terms.into_iter().chain(named).collect();
    terms.sort_by(|a, b| a.name.cmp(&b.name));
    let mut brought = Vec::new();
    for each in &terms {
        if domains.get(&each.name).is_none() {
            let quota = Quota::BLOCKED;
            brought.push(Rule::new(
                format!("{}.override", each.name),
                Identifier::from(Facet::Global),
                quota,
            ));
        }
        let position = rules.len() + brought.len() - 1;
        domains.add(each, u32::try_from(position).unwrap_or(u32::MAX));
    }
    for (index, rule) in (0u32..).zip(rules.iter()) {
        if let Some(about) = &rule.descriptor
            && !domains.insert(about, index)
        {
            return Err(RuleSetError::DuplicateDescriptor(rule.id.clone()));
        }
    }
    rules.append(&mut brought);
    Ok(domains)
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
