//! Users' tiers in a database: asking it, hearing of changes, noticing that it fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{TierAnswer, TierLookup, TierOptions};
use tidegate_sources::{PostgresTiers, TierChange};
use tokio::time::sleep;

use crate::health::Concern;
use crate::node::Node;

/// How often to look whether look-ups fail: whoever waits for the end of it waits no longer.
const LOOK: Duration = Duration::from_millis(100);

/// Where users' tiers are looked up, and who tells of changes. It may be away when the server starts, and at any time
/// later.
#[derive(Clone)]
pub struct UserTiers {
    lookup: Arc<dyn TierLookup>,
    changes: Option<Arc<PostgresTiers>>,
    options: TierOptions,
}

impl UserTiers {
    /// Looks tiers up by `lookup`. A change is noticed when what is remembered is too old.
    pub fn new(lookup: Arc<dyn TierLookup>, options: TierOptions) -> Self {
        Self { lookup, changes: None, options }
    }

    /// Looks tiers up in PostgreSQL, which tells of changes.
    pub fn postgres(tiers: PostgresTiers, options: TierOptions) -> Self {
        let tiers = Arc::new(tiers);
        Self::new(Arc::new(Postgres(Arc::clone(&tiers))), options).told_by(tiers)
    }

    /// Has changes told by this database.
    #[must_use]
    pub fn told_by(mut self, changes: Arc<PostgresTiers>) -> Self {
        self.changes = Some(changes);
        self
    }

    pub(crate) fn lookup(&self) -> &Arc<dyn TierLookup> {
        &self.lookup
    }

    /// Returns where tiers can be set, if they are in a database that is known here.
    pub(crate) fn database(&self) -> Option<&Arc<PostgresTiers>> {
        self.changes.as_ref()
    }

    pub(crate) fn options(&self) -> TierOptions {
        self.options
    }

    /// Forgets tiers as they change, for as long as this runs.
    pub(crate) async fn follow(self, node: Arc<Node>) {
        let (Some(source), Some(tiers)) = (self.changes, node.limiter.tiers()) else { return };
        let mut changes = source.changes();
        loop {
            match changes.next().await {
                TierChange::User { tenant, user } => tiers.forget(tenant.as_deref(), &user),
                TierChange::Tenant(tenant) => tiers.forget_plan(&tenant),
                TierChange::All => tiers.doubt_all(),
            }
        }
    }
}

/// Leaves out where it is: configurations end up in logs.
impl fmt::Debug for UserTiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserTiers").field(&self.options).finish()
    }
}

/// Tiers in PostgreSQL.
struct Postgres(Arc<PostgresTiers>);

impl TierLookup for Postgres {
    fn tier_of<'a>(&'a self, tenant: Option<&'a str>, user: &'a str) -> TierAnswer<'a> {
        // No text there has this character. To ask for it is an error, and a few of those in a row would keep everybody
        // else from being looked up.
        if [tenant.unwrap_or_default(), user].iter().any(|name| name.contains('\0')) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        Box::pin(async move { self.0.tier_of(tenant, user).await.map_err(|error| error.to_string()) })
    }

    fn plan_of<'a>(&'a self, tenant: &'a str) -> TierAnswer<'a> {
        if tenant.contains('\0') {
            return Box::pin(std::future::ready(Ok(None)));
        }
        Box::pin(async move { self.0.plan_of(tenant).await.map_err(|error| error.to_string()) })
    }
}

/// Keeps the node's health true to how look-ups go, for as long as this runs.
pub(crate) async fn watch(node: Arc<Node>) {
    let Some(tiers) = node.limiter.tiers() else { return };
    let mut known = None;
    loop {
        sleep(LOOK).await;
        let problem = tiers.problem();
        if problem == known {
            continue;
        }
        match (&known, &problem) {
            (None, Some(problem)) => {
                tracing::warn!(problem, "users' tiers cannot be looked up; those not known are the default");
            }
            (Some(_), None) => tracing::info!("users' tiers can be looked up again"),
            _ => {}
        }
        let reason = |problem: &String| {
            format!("tiers: users whose tier is not known here have the default one: {problem}")
        };
        node.note(Concern::Tiers, problem.iter().map(reason).collect());
        known = problem;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_no_text_may_have_is_not_asked_for() {
        let nowhere = PostgresTiers::new("postgres://ann:secret@127.0.0.1:1/x".parse().unwrap());
        let nowhere = UserTiers::postgres(nowhere, TierOptions::default());
        assert!(!format!("{nowhere:?}").contains("secret"));
        for (tenant, user) in [(None, "a\0"), (Some("\0"), "a")] {
            assert_eq!(nowhere.lookup().tier_of(tenant, user).await, Ok(None));
        }
        assert_eq!(nowhere.lookup().plan_of("\0").await, Ok(None));
    }
}
