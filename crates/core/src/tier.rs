//! Tiers: named quotas that users are put into.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::identity::Facet;
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

/// All tiers of a rule set and who is in them.
#[derive(Clone, Debug, Default)]
pub struct Tiers {
    /// The tiers, names unique.
    pub list: Vec<Tier>,
    /// The tier of a request that names none, or none that is known. Without it: the one that allows least.
    pub default: Option<Box<str>>,
    /// Users whose tier is known beforehand; a tier that is not listed is the default.
    pub users: Vec<(Box<str>, Box<str>)>,
    /// Headers and attributes that name a request's tier, asked in order when it does not say itself.
    pub from: Vec<Facet>,
}

/// Position of a tier in its rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierIndex(pub(crate) u32);

impl TierIndex {
    /// The position as a number, for tables beside the rule set.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(crate) struct TierTable {
    tiers: Vec<Tier>,
    by_name: HashMap<Box<str>, u32, FixedState>,
    by_user: HashMap<Box<str>, u32, FixedState>,
    from: Vec<Facet>,
    default: Option<u32>,
}

impl TierTable {
    /// Compiles tiers, or names the default tier if it is not there.
    pub(crate) fn new(tiers: Tiers, version: u64) -> Result<Self, Box<str>> {
        let by_name: HashMap<Box<str>, u32, _> =
            (0u32..).zip(&tiers.list).map(|(index, tier)| (tier.name.clone(), index)).collect();
        let position = |name: &str| by_name.get(name).copied().ok_or_else(|| Box::<str>::from(name));
        let default = match &tiers.default {
            Some(name) => Some(position(name)?),
            None => (0u32..)
                .zip(&tiers.list)
                .min_by_key(|(_, tier)| hourly_rate(&tier.quota))
                .map(|(index, _)| index),
        };
        // As with a tier that a request names: one that is not there is the default.
        let users = tiers.users.iter();
        let by_user = users.filter_map(|(user, tier)| Some((user.clone(), *by_name.get(tier)?))).collect();
        let list = tiers.list.into_iter().map(|tier| Tier { quota: tier.quota.at_version(version), ..tier });
        Ok(Self { tiers: list.collect(), by_user, from: tiers.from, default, by_name })
    }

    pub(crate) fn list(&self) -> &[Tier] {
        &self.tiers
    }

    /// The tier of a request: what it says, else what its headers and attributes say, else what is known of its
    /// user, else the default.
    pub(crate) fn of(&self, request: &Request<'_>) -> Option<TierIndex> {
        if self.tiers.is_empty() {
            return None;
        }
        let named = |name: &str| self.by_name.get(name).copied();
        let told = || {
            self.from.iter().find_map(|facet| match facet {
                Facet::Header(name) => request.headers.value(name).and_then(named),
                Facet::Attribute(name) => request.attributes.value(name).and_then(named),
                _ => None,
            })
        };
        let known = || request.user.and_then(|user| self.by_user.get(user).copied());
        request.tier.and_then(named).or_else(told).or_else(known).or(self.default).map(TierIndex)
    }
}

/// How much a quota allows in the long run, to compare tiers by.
fn hourly_rate(quota: &Quota) -> u128 {
    u128::from(quota.limit()) * 3_600_000_000 / u128::from(quota.window().as_millis())
}
