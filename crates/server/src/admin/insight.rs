//! `GET /v1/insight`

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_core::Timestamp;

use super::{Door, rfc3339};
use crate::insight::{By, HotKey, Period, Refusals, Refused};
use crate::node::Node;
use crate::reply::{self, Reply};

/// What traffic is like, as this node sees it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InsightBody {
    /// The keys with most requests a second of late, hot or not, up to ten.
    hot_keys: Vec<HotKeyBody>,
    /// Who is refused, by what, and when.
    refusals: RefusalsBody,
    /// How many refusals are missing here since the start, because others were being counted.
    not_counted: u64,
}

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

/// Refusals over time.
#[derive(Debug, Serialize, JsonSchema)]
struct RefusalsBody {
    /// The last five minutes.
    #[serde(rename = "5m")]
    five_minutes: PeriodBody,
    /// The last hour.
    #[serde(rename = "1h")]
    hour: PeriodBody,
    /// The last 24 hours.
    #[serde(rename = "24h")]
    day: PeriodBody,
    /// How many there were at each hour of the day (UTC) within the last 24.
    by_hour: [u64; 24],
}

/// Up to ten of each, most first.
#[derive(Debug, Serialize, JsonSchema)]
struct PeriodBody {
    /// Users, within their tenants.
    users: Vec<RefusedBody>,
    /// Addresses; IPv6 by /64.
    addresses: Vec<RefusedBody>,
    /// Tenants.
    tenants: Vec<RefusedBody>,
    /// What proxies said about requests that was over a limit.
    descriptors: Vec<RefusedBody>,
    /// The rules that refused.
    rules: Vec<RefusedBody>,
    /// The tiers or plans of those who were refused.
    tiers: Vec<RefusedBody>,
    /// Countries by code; absent unless the node knows which address is where.
    #[serde(skip_serializing_if = "Option::is_none")]
    countries: Option<Vec<RefusedBody>>,
}

impl PeriodBody {
    fn new(refusals: &Refusals, period: Period, now: Timestamp) -> Self {
        let most = |by| refusals.most(by, period, now).into_iter().map(RefusedBody::from).collect();
        Self {
            users: most(By::User),
            addresses: most(By::Address),
            tenants: most(By::Tenant),
            descriptors: most(By::Descriptor),
            rules: most(By::Rule),
            tiers: most(By::Tier),
            countries: refusals.knows_countries().then(|| most(By::Country)),
        }
    }
}

/// How often somebody was refused.
#[derive(Debug, Serialize, JsonSchema)]
struct RefusedBody {
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

impl InsightBody {
    /// What `node` sees.
    pub(crate) fn of(node: &Node) -> Self {
        let (insight, now) = (&node.insight, node.now());
        let period = |period| PeriodBody::new(&insight.refusals, period, now);
        Self {
            hot_keys: insight.hot_keys.top().into_iter().map(HotKeyBody::from).collect(),
            refusals: RefusalsBody {
                five_minutes: period(Period::FiveMinutes),
                hour: period(Period::Hour),
                day: period(Period::Day),
                by_hour: insight.refusals.by_hour(now),
            },
            not_counted: insight.refusals.not_counted(),
        }
    }
}

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    reply::json(StatusCode::OK, &InsightBody::of(&door.node))
}
