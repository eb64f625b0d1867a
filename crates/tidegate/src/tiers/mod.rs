//! Users' tiers that are kept elsewhere: looked up when they are needed, and remembered for a while.
//!
//! Only requests that no other way of naming a tier has an answer for are asked about, see
//! [`RuleSet::wants_tier`](tidegate_core::RuleSet::wants_tier).

mod answers;
mod cache;
mod landing;
mod pause;
mod stats;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use cache::Asked;
pub use cache::TierCache;
pub use stats::TierStats;

/// What a tier is called, if there is one.
pub(crate) type Tier = Option<Arc<str>>;

/// A user's tier once it is found; nothing if the user has none. The error says what is wrong and what to do about it.
pub type TierAnswer<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send + 'a>>;

/// A place where users' tiers are kept.
pub trait TierLookup: Send + Sync {
    /// The tier, or the plan, of a user, who may belong to a tenant.
    ///
    /// It is asked once however many requests wait for it, and goes on when they do not wait any longer. What takes
    /// longer than ten seconds is given up.
    fn tier_of<'a>(&'a self, tenant: Option<&'a str>, user: &'a str) -> TierAnswer<'a>;
}

/// How users' tiers are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierOptions {
    /// How many users' tiers are remembered, those without a tier included. The one not asked for longest goes first.
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
