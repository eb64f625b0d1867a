//! Tiers and plans: names that users are put into, and what these stand for.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::identity::{Facet, present};
use crate::plan::{Multiplier, Plan};
use crate::quota::Quota;
use crate::request::Request;

/// One tier.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Its name.
    pub name: Box<str>,
    /// What tiered rules allow it.
    pub quota: Quota,
}

/// All tiers and plans of a rule set and who is in them.
#[derive(Clone, Debug, Default)]
pub struct Tiers {
    /// The tiers, names unique.
    pub list: Vec<Tier>,
    /// The plans, names unique whatever their case.
    pub plans: Vec<Plan>,
    /// The tier, the plan or both of a request that names none, or none that is known. Without it, or where it is only the
    /// other: the tier that allows least, and the plan with the least multiplier.
    pub default: Option<Box<str>>,
    /// Users whose tier or plan is known beforehand; one that is not listed has that of the tenant.
    pub users: Vec<(Box<str>, Box<str>)>,
    /// Tenants whose tier or plan is known beforehand; one that is not listed has the default.
    pub tenants: Vec<(Box<str>, Box<str>)>,
    /// Headers and attributes that name a request's tier or plan, asked in order when it does not say itself.
    pub from: Vec<Facet>,
}

/// A name and what it stands for: a tier, a plan, or both.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The name, as the tier or the plan states it.
    pub name: Box<str>,
    /// What tiered rules allow it, if it is a tier.
    pub quota: Option<Quota>,
    /// What base limits are multiplied by, if it is a plan.
    pub multiplier: Option<Multiplier>,
}

/// Position of a name among those of its rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierIndex(pub(crate) u32);

impl TierIndex {
    /// The position as a number, for tables beside the rule set.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Levels of one request, by what a rule counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Levels {
    /// For rules that count by tenant: the same whichever user of the tenant asks.
    pub(crate) tenant: Option<Level>,
    /// For all other rules.
    pub(crate) user: Option<Level>,
}

/// What a tier or a plan comes down to for the rules that ask for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// What it is called.
    pub(crate) name: TierIndex,
    /// The quota of its tier, or of the default one.
    pub(crate) quota: Option<Quota>,
    /// The position of its plan, or of the default one.
    pub(crate) plan: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct TierTable {
    standings: Vec<Standing>,
    /// What each name comes down to, in the same order.
    levels: Vec<Level>,
    by_name: HashMap<Box<str>, u32, FixedState>,
    /// Names of plans in lower case, in order, and their positions.
    by_plan: Vec<(Box<str>, u32)>,
    by_user: HashMap<Box<str>, u32, FixedState>,
    by_tenant: HashMap<Box<str>, u32, FixedState>,
    from: Vec<Facet>,
    default: Option<Level>,
    plans: Vec<Plan>,
    has_tiers: bool,
}

impl TierTable {
    /// Compiles tiers and plans, or names the default if it is neither.
    pub(crate) fn new(tiers: Tiers, version: u64) -> Result<Self, Box<str>> {
        let has_tiers = !tiers.list.is_empty();
        let by_plan = by_plan(&tiers.plans);
        let standings = standings(&tiers, &by_plan, version);
        let mut by_name: HashMap<Box<str>, u32, _> = HashMap::default();
        for (index, standing) in (0u32..).zip(&standings) {
            // A tier comes before a plan of the same name, and is that plan too.
            by_name.entry(standing.name.clone()).or_insert(index);
        }
        let mut table = Self {
            standings,
            levels: Vec::new(),
            by_name,
            by_plan,
            by_user: HashMap::default(),
            by_tenant: HashMap::default(),
            from: tiers.from,
            default: None,
            plans: tiers.plans,
            has_tiers,
        };
        let named = tiers.default.map(|name| table.position(&name).ok_or(name)).transpose()?;
        table.settle(named);
        // As with a name that a request gives: one that is not there is the default.
        table.by_user = table.positions(tiers.users);
        table.by_tenant = table.positions(tiers.tenants);
        Ok(table)
    }

    /// Works out what each name comes down to, and what no name does; `named` is the default that was named.
    fn settle(&mut self, named: Option<u32>) {
        let standing = |index: u32| self.standings.get(index as usize);
        let named_tier = named.filter(|&index| standing(index).is_some_and(|it| it.quota.is_some()));
        let named_plan = named.and_then(|index| self.plan(&standing(index)?.name));
        let least_tier = || {
            let tiers = (0u32..).zip(&self.standings).filter_map(|(index, it)| Some((index, it.quota?)));
            tiers.min_by_key(|(_, quota)| hourly_rate(quota)).map(|(index, _)| index)
        };
        let least_plan =
            || (0u32..).zip(&self.plans).min_by_key(|(_, plan)| plan.multiplier).map(|(index, _)| index);
        let default_tier = named_tier.or_else(least_tier);
        let default_plan = named_plan.or_else(least_plan);
        let default_quota = default_tier.and_then(|index| standing(index)?.quota);
        let level = |(index, it): (u32, &Standing)| Level {
            name: TierIndex(index),
            quota: it.quota.or(default_quota),
            plan: self.plan(&it.name).or(default_plan),
        };
        let levels = (0u32..).zip(&self.standings).map(level).collect();
        let tiers = self.standings.len() - self.plans.len();
        let plan_name =
            default_plan.map(|plan| u32::try_from(tiers).unwrap_or(u32::MAX).saturating_add(plan));
        let name = named.or(default_tier).or(plan_name);
        self.default =
            name.map(|name| Level { name: TierIndex(name), quota: default_quota, plan: default_plan });
        self.levels = levels;
    }

    /// The names, tiers first.
    pub(crate) fn list(&self) -> &[Standing] {
        &self.standings
    }

    pub(crate) fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// The quotas of all tiers.
    pub(crate) fn quotas(&self) -> impl Iterator<Item = Quota> {
        self.standings.iter().filter_map(|standing| standing.quota)
    }

    pub(crate) fn has_tiers(&self) -> bool {
        self.has_tiers
    }

    /// The position of a name: as it is written, else as that of a plan in any case.
    fn position(&self, name: &str) -> Option<u32> {
        let plan = || {
            let tiers = self.standings.len() - self.plans.len();
            u32::try_from(tiers).ok()?.checked_add(self.plan(name)?)
        };
        self.by_name.get(name).copied().or_else(plan)
    }

    /// Returns true if a tier or a plan is called so.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// The plan of this name in any case.
    fn plan(&self, name: &str) -> Option<u32> {
        find(&self.by_plan, name)
    }

    /// Returns who has which name, without those whose name is neither a tier nor a plan.
    fn positions(&self, known: Vec<(Box<str>, Box<str>)>) -> HashMap<Box<str>, u32, FixedState> {
        known.into_iter().filter_map(|(who, name)| Some((who, self.position(&name)?))).collect()
    }

    /// Returns the levels of a request.
    ///
    /// A user's is that which is [known](Self::of_user) of the user, or else the tenant's. A tenant's is that which is
    /// [known](Self::of_tenant) of the tenant, whichever user asks. Where nothing is known, it is the default.
    pub(crate) fn levels(&self, request: &Request<'_>) -> Levels {
        if self.standings.is_empty() {
            return Levels::default();
        }
        let level = |index: Option<u32>| match index {
            Some(index) => self.levels.get(index as usize).copied(),
            None => self.default,
        };
        let tenant = self.of_tenant(request);
        let user = level(self.of_user(request).or(tenant));
        let has_tenant = present(request.tenant).is_some();
        Levels { tenant: if has_tenant { level(tenant) } else { user }, user }
    }

    /// Returns the tier or plan that is known of a request's user: stated by the request, or listed.
    pub(crate) fn of_user(&self, request: &Request<'_>) -> Option<u32> {
        let listed = || self.by_user.get(present(request.user)?).copied();
        self.stated(request).or_else(listed)
    }

    /// Returns the tier or plan that is known of a request's tenant: stated by the request, or listed. The tier of a request that names no
    /// user is its tenant's.
    pub(crate) fn of_tenant(&self, request: &Request<'_>) -> Option<u32> {
        let tenant = present(request.tenant)?;
        let plan = request.plan.and_then(|name| self.position(name));
        let tier = || if present(request.user).is_none() { self.stated(request) } else { None };
        plan.or_else(tier).or_else(|| self.by_tenant.get(tenant).copied())
    }

    /// Returns what a request says itself, or else what its headers and attributes say.
    fn stated(&self, request: &Request<'_>) -> Option<u32> {
        let named = |name: &str| self.position(name);
        let told = |facet: &Facet| match facet {
            Facet::Header(name) => request.headers.value(name).and_then(named),
            Facet::Attribute(name) => request.attributes.value(name).and_then(named),
            _ => None,
        };
        request.tier.and_then(named).or_else(|| self.from.iter().find_map(told))
    }
}

/// One standing for each tier, then one for each plan.
fn standings(tiers: &Tiers, by_plan: &[(Box<str>, u32)], version: u64) -> Vec<Standing> {
    let multiplier = |name: &str| {
        let plan = find(by_plan, name)?;
        tiers.plans.get(plan as usize).map(|plan| plan.multiplier)
    };
    let tier = |tier: &Tier| Standing {
        name: tier.name.clone(),
        quota: Some(tier.quota.at_version(version)),
        multiplier: multiplier(&tier.name),
    };
    let plan =
        |plan: &Plan| Standing { name: plan.name.clone(), quota: None, multiplier: Some(plan.multiplier) };
    tiers.list.iter().map(tier).chain(tiers.plans.iter().map(plan)).collect()
}

fn by_plan(plans: &[Plan]) -> Vec<(Box<str>, u32)> {
    let lower = |(index, plan): (u32, &Plan)| (plan.name.to_ascii_lowercase().into(), index);
    let mut by_plan: Vec<_> = (0u32..).zip(plans).map(lower).collect();
    by_plan.sort();
    by_plan
}

/// The plan of a name in any case, by halving, so that nothing has to be copied.
fn find(by_plan: &[(Box<str>, u32)], name: &str) -> Option<u32> {
    let lower = || name.bytes().map(|byte| byte.to_ascii_lowercase());
    let found = by_plan.binary_search_by(|(known, _)| known.bytes().cmp(lower())).ok()?;
    by_plan.get(found).map(|(_, plan)| *plan)
}

/// How much a quota allows in the long run, to compare tiers by.
fn hourly_rate(quota: &Quota) -> u128 {
    u128::from(quota.limit()) * 3_600_000_000 / u128::from(quota.window().as_millis())
}
