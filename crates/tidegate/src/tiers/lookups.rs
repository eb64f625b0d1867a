//! What one request needs to know of its user and its tenant.

use std::time::{Duration, Instant};

use tidegate_core::Request;

use super::Tier;
use super::cache::Asked;

/// Look-ups for one request, which go on side by side.
pub(crate) struct Lookups {
    pub(super) tier: Asked,
    pub(super) plan: Asked,
}

/// Outcome of the look-ups for one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Tier of the user.
    pub(crate) tier: Tier,
    /// Plan of the tenant.
    pub(crate) plan: Tier,
}

impl Lookups {
    /// Returns what is found, unless it has to be waited for.
    pub(crate) fn at_once(self) -> Result<Found, Self> {
        match self {
            Self { tier: Asked::Told(tier), plan: Asked::Told(plan) } => Ok(Found { tier, plan }),
            waiting => Err(waiting),
        }
    }

    /// Returns true if a look-up has to be waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        [&self.tier, &self.plan].into_iter().any(|asked| matches!(asked, Asked::Waiting(_)))
    }

    /// Waits for what is being looked up, until `patience` is over for a request that arrived at `arrived`.
    pub(crate) async fn found(self, arrived: Instant, patience: Duration) -> Found {
        let tier = self.tier.tier(arrived, patience).await;
        Found { tier, plan: self.plan.tier(arrived, patience).await }
    }
}

impl Asked {
    async fn tier(self, arrived: Instant, patience: Duration) -> Tier {
        match self {
            Self::Told(tier) => tier,
            Self::Waiting(waiting) => waiting.tier(arrived, patience).await,
        }
    }
}

impl Found {
    /// Returns `request` with what was found; what was not stays as the request states it.
    pub(crate) fn add_to<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request {
            tier: self.tier.as_deref().or(request.tier),
            plan: self.plan.as_deref().or(request.plan),
            ..*request
        }
    }
}
