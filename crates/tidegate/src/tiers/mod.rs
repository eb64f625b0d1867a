//! Users' tiers and tenants' plans that are kept elsewhere: looked up when they are needed, and remembered for a while.
//!
//! Only those are looked up that no other way of naming them has an answer for, see
//! [`RuleSet::wants_tier`](tidegate_core::RuleSet::wants_tier) and [`RuleSet::wants_plan`](tidegate_core::RuleSet::wants_plan).

mod answers;
mod cache;
mod landing;
mod lookups;
mod pause;
mod stats;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use cache::TierCache;
pub(crate) use lookups::{Found, Lookups};
pub use stats::TierStats;

/// Name of a tier or a plan, if there is one.
pub(crate) type Tier = Option<Arc<str>>;

/// User or tenant whose tier or plan is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// A user, within a tenant if it belongs to one.
    User { tenant: Option<&'a str>, user: &'a str },
    /// A tenant.
    Tenant(&'a str),
}

/// Tier of a user, or plan of a tenant, once it is found; nothing if there is none. The error says what is wrong and what to do about it.
pub type TierAnswer<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send + 'a>>;

/// A place where users' tiers and tenants' plans are kept.
///
/// It is asked once about each, however many requests wait for it, and goes on when they do not wait any longer. What takes longer than
/// ten seconds is given up.
pub trait TierLookup: Send + Sync {
    /// Looks up the tier, or the plan, of a user, who may belong to a tenant.
    fn tier_of<'a>(&'a self, tenant: Option<&'a str>, user: &'a str) -> TierAnswer<'a>;

    /// Looks up the plan, or the tier, of a tenant. By default no tenant has one.
    fn plan_of<'a>(&'a self, tenant: &'a str) -> TierAnswer<'a> {
        let _ = tenant;
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// How users' tiers are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierOptions {
    /// How many users and tenants are remembered, those without a tier included. The one not asked for longest goes first.
    pub capacity: NonZeroUsize,
    /// How long they are remembered.
    pub ttl: Duration,
    /// How long a decision waits for one that is not; then it goes by the default tier. With a shared store this is at
    /// most half of what the decision waits for that, as both times begin when the request arrives.
    pub timeout: Duration,
}

impl Default for TierOptions {
    /// 10,000 users, 5 minutes, 5 milliseconds.
    fn default() -> Self {
        Self {
            capacity: NonZeroUsize::MIN.saturating_add(9_999),
            ttl: Duration::from_secs(300),
            timeout: Duration::from_millis(5),
        }
    }
}
