//! `GET /v1/insight`

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Door, rfc3339};
use crate::insight::{By, HotKey, Period, Ranking, Refused};
use crate::node::Node;
use crate::reply::{self, Reply};

/// What traffic is like, as this node sees it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InsightBody {
    /// The keys with most requests a second of late, hot or not, up to ten.
    hot_keys: Vec<HotKeyBody>,
    /// Who is refused, by what, and when.
    refusals: RefusalsBody<Vec<RefusedBody>>,
    /// How many refusals are missing here since the start, because others were being counted.
    not_counted: u64,
}

/// How many of each kind people are shown, …
const SHOWN: usize = 10;

/// … and how many nodes tell each other of, so that the first few of all of them are most likely told by each.
const TOLD: usize = 30;

/// One rule's counter for one identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct HotKeyBody {
    /// The rule.
    rule: Box<str>,
    /// Whom it counts, up to 256 bytes; API keys are not shown.
    identity: Box<str>,
    /// An estimate from a sample.
    rate_per_second: u64,
    /// Since when it has been hot (RFC 3339); null if it is not.
    since: Option<String>,
    /// Whether it has passed what is called hot.
    hot: bool,
}

impl From<HotKey> for HotKeyBody {
    fn from(HotKey { rule, identity, rate, since }: HotKey) -> Self {
        let hot = since.is_some();
        let since = since.map(|since| rfc3339(since.as_millis()));
        Self { rule, identity, rate_per_second: rate, since, hot }
    }
}

impl HotKeyBody {
    /// The keys that `node` is asked for most.
    pub(crate) fn top(node: &Node) -> Vec<Self> {
        node.insight.hot_keys.top().into_iter().map(Self::from).collect()
    }

    /// The keys that several nodes are asked for most: rates are added up, and who is hot anywhere is hot. What a node does not tell
    /// of is less than what it does.
    fn together<'k>(told: impl Iterator<Item = &'k Self>) -> Vec<Self> {
        let mut sums: BTreeMap<(&str, &str), Self> = BTreeMap::new();
        for key in told {
            match sums.entry((&key.rule, &key.identity)) {
                Entry::Vacant(new) => _ = new.insert(key.clone()),
                Entry::Occupied(mut sum) => {
                    let sum = sum.get_mut();
                    sum.rate_per_second = sum.rate_per_second.saturating_add(key.rate_per_second);
                    sum.hot |= key.hot;
                    // Times of one form can be compared as texts.
                    sum.since = sum.since.take().into_iter().chain(key.since.clone()).min();
                }
            }
        }
        let mut all: Vec<Self> = sums.into_values().collect();
        all.sort_by_key(|key| Reverse(key.rate_per_second));
        all.truncate(SHOWN);
        all
    }
}

/// Refusals over time, in lists of those who were refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RefusalsBody")]
pub(crate) struct RefusalsBody<L> {
    /// The last five minutes.
    #[serde(rename = "5m")]
    five_minutes: PeriodBody<L>,
    /// The last hour.
    #[serde(rename = "1h")]
    hour: PeriodBody<L>,
    /// The last 24 hours.
    #[serde(rename = "24h")]
    day: PeriodBody<L>,
    /// How many there were at each hour of the day (UTC) within the last 24.
    by_hour: [u64; 24],
}

/// Up to ten of each, most first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PeriodBody")]
struct PeriodBody<L> {
    /// Users, within their tenants.
    users: L,
    /// Addresses; IPv6 by /64.
    addresses: L,
    /// Tenants.
    tenants: L,
    /// What proxies said about requests that was over a limit.
    descriptors: L,
    /// The rules that refused.
    rules: L,
    /// The tiers or plans of those who were refused.
    tiers: L,
    /// Countries by code; absent unless the node knows which address is where.
    #[serde(skip_serializing_if = "Option::is_none")]
    countries: Option<L>,
}

impl<L> PeriodBody<L> {
    fn each(countries: bool, list: impl Fn(By) -> L) -> Self {
        Self {
            users: list(By::User),
            addresses: list(By::Address),
            tenants: list(By::Tenant),
            descriptors: list(By::Descriptor),
            rules: list(By::Rule),
            tiers: list(By::Tier),
            countries: countries.then(|| list(By::Country)),
        }
    }

    fn list(&self, by: By) -> Option<&L> {
        match by {
            By::User => Some(&self.users),
            By::Address => Some(&self.addresses),
            By::Tenant => Some(&self.tenants),
            By::Descriptor => Some(&self.descriptors),
            By::Rule => Some(&self.rules),
            By::Tier => Some(&self.tiers),
            By::Country => self.countries.as_ref(),
        }
    }
}

impl<L> RefusalsBody<L> {
    fn each(countries: bool, by_hour: [u64; 24], list: impl Fn(Period, By) -> L) -> Self {
        let period = |period| PeriodBody::each(countries, |by| list(period, by));
        Self {
            five_minutes: period(Period::FiveMinutes),
            hour: period(Period::Hour),
            day: period(Period::Day),
            by_hour,
        }
    }

    fn list(&self, period: Period, by: By) -> Option<&L> {
        match period {
            Period::FiveMinutes => self.five_minutes.list(by),
            Period::Hour => self.hour.list(by),
            Period::Day => self.day.list(by),
        }
    }

    /// What `node` counted, in lists of so many at most.
    fn of(node: &Node, many: usize) -> Self
    where
        L: From<Ranking>,
    {
        let (refusals, now) = (&node.insight.refusals, node.now());
        Self::each(refusals.knows_countries(), refusals.by_hour(now), |period, by| {
            refusals.most(by, period, now, many).into()
        })
    }
}

/// How often somebody was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RefusedBody {
    /// Who, up to 256 bytes.
    name: Box<str>,
    /// How often at most.
    count: u64,
    /// How much less it may have been.
    error: u64,
}

impl From<Refused> for RefusedBody {
    fn from(Refused { name, count, error }: Refused) -> Self {
        Self { name: (*name).into(), count, error }
    }
}

impl From<Ranking> for Vec<RefusedBody> {
    fn from(Ranking { refused, .. }: Ranking) -> Self {
        refused.into_iter().map(RefusedBody::from).collect()
    }
}

impl InsightBody {
    /// What `node` sees.
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            hot_keys: HotKeyBody::top(node),
            refusals: RefusalsBody::of(node, SHOWN),
            not_counted: node.insight.refusals.not_counted(),
        }
    }

    /// What several nodes see, as one.
    pub(crate) fn together(nodes: &[(&[HotKeyBody], &Told)]) -> Self {
        let told = || nodes.iter().map(|(_, told)| *told);
        let countries = told().any(|told| told.refusals.day.countries.is_some());
        let by_hour =
            std::array::from_fn(|hour| saturating_sum(told().map(|told| told.refusals.by_hour[hour])));
        let refusals = RefusalsBody::each(countries, by_hour, |period, by| {
            let rankings = told().filter_map(|told| told.refusals.list(period, by)).map(Ranking::from);
            Ranking::together(rankings, SHOWN).into()
        });
        Self {
            hot_keys: HotKeyBody::together(nodes.iter().flat_map(|(keys, _)| *keys)),
            refusals,
            not_counted: saturating_sum(told().map(|told| told.not_counted)),
        }
    }
}

/// What other nodes say may be anything.
fn saturating_sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

/// What a node tells others of whom it refuses: enough to add it up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Told {
    refusals: RefusalsBody<RankingBody>,
    not_counted: u64,
}

impl Told {
    /// What `node` tells.
    pub(crate) fn of(node: &Node) -> Self {
        Self { refusals: RefusalsBody::of(node, TOLD), not_counted: node.insight.refusals.not_counted() }
    }
}

/// A list, and how often those were refused at most who are not in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RankingBody {
    refused: Vec<RefusedBody>,
    least: u64,
}

impl From<Ranking> for RankingBody {
    fn from(ranking: Ranking) -> Self {
        Self { least: ranking.least, refused: ranking.into() }
    }
}

impl From<&RankingBody> for Ranking {
    fn from(RankingBody { refused, least }: &RankingBody) -> Self {
        let named = |RefusedBody { name, count, error }: &RefusedBody| Refused {
            name: (**name).into(),
            count: *count,
            error: *error,
        };
        Self { refused: refused.iter().map(named).collect(), least: *least }
    }
}

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    reply::json(StatusCode::OK, &InsightBody::of(&door.node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(identity: &str, rate: u64, since: Option<&str>) -> HotKeyBody {
        HotKeyBody {
            rule: "r".into(),
            identity: identity.into(),
            rate_per_second: rate,
            since: since.map(Into::into),
            hot: since.is_some(),
        }
    }

    #[test]
    fn keys_of_several_nodes_are_added_up_and_hot_if_they_are_anywhere() {
        let (early, late) = ("2026-01-05T09:30:00Z", "2026-01-05T09:31:00Z");
        let one = [key("a", 5, None), key("b", 7, Some(late)), key("c", u64::MAX, None)];
        let other = [key("a", 6, None), key("b", 1, Some(early)), key("c", 1, None), key("d", 1, None)];
        let expected =
            [key("c", u64::MAX, None), key("a", 11, None), key("b", 8, Some(early)), key("d", 1, None)];
        assert_eq!(HotKeyBody::together(one.iter().chain(&other)), expected);
    }

    #[test]
    fn ten_keys_are_shown() {
        let many: Vec<HotKeyBody> = (0..30).map(|number| key(&number.to_string(), number, None)).collect();
        let shown = HotKeyBody::together(many.iter());
        let rates: Vec<u64> = shown.iter().map(|key| key.rate_per_second).collect();
        assert_eq!(rates, (20..30).rev().collect::<Vec<u64>>());
    }
}
