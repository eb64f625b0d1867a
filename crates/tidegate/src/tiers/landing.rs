//! A look-up on its way, which nobody who waits can stop.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::deadline::within;
use tokio::sync::watch::Sender;
use tokio::time::Instant;

use super::answers::Key;
use super::cache::TierCache;
use super::{Tier, TierAnswer};

/// Nothing is waited for longer, whatever a look-up promises.
const PATIENCE: Duration = Duration::from_secs(10);

/// No tier of a rule set is called by a longer name, and none takes more room here.
const LONGEST_NAME: usize = 1_024;

/// What a look-up came to; nothing while it is on its way.
pub(super) type Landed = Option<Result<Tier, ()>>;

/// Lands when it is dropped, so that a look-up that panics, or whose runtime ends, is over as well.
pub(super) struct Landing {
    pub(super) cache: Arc<TierCache>,
    pub(super) key: Key,
    pub(super) number: u64,
    pub(super) started: Instant,
    pub(super) waiting: Sender<Landed>,
    result: Result<Tier, String>,
}

impl Landing {
    pub(super) fn new(
        cache: Arc<TierCache>,
        key: Key,
        number: u64,
        started: Instant,
        waiting: Sender<Landed>,
    ) -> Self {
        let result = Err("a look-up was interrupted".to_owned());
        Self { cache, key, number, started, waiting, result }
    }

    /// Looks a user up, and lands.
    pub(super) async fn look_up_tier(self, tenant: Option<String>, user: String) {
        let cache = Arc::clone(&self.cache);
        self.land_with(cache.lookup().tier_of(tenant.as_deref(), &user)).await;
    }

    /// Looks a tenant up, and lands.
    pub(super) async fn look_up_plan(self, tenant: String) {
        let cache = Arc::clone(&self.cache);
        self.land_with(cache.lookup().plan_of(&tenant)).await;
    }

    async fn land_with(mut self, answer: TierAnswer<'_>) {
        self.result = match within(PATIENCE, answer).await {
            Ok(Ok(tier)) => Ok(tier.filter(|name| name.len() <= LONGEST_NAME).map(Arc::from)),
            Ok(Err(problem)) => Err(problem),
            Err(_) => Err(format!("a look-up took longer than {PATIENCE:?}")),
        };
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.cache.land(self.key, self.number, self.started, &self.result);
        self.waiting.send_replace(Some(self.result.clone().map_err(drop)));
    }
}
