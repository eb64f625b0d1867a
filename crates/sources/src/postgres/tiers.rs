//! Users' tiers and tenants' plans, looked up one by one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::place::Place;
use super::session::Session;
use super::trouble::Trouble;
use super::url::PostgresUrl;
use crate::archive::{Answer, ArchiveError};

/// Where triggers tell whose tier has changed.
const CHANNEL: &str = "tidegate_tiers";

/// How many users are looked up at once.
const CONNECTIONS: u32 = 4;

/// Time after which a look-up fails unless stated otherwise; requests may wait for it for less.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many changes may wait to be heard before they become one of everybody's.
const WAITING: usize = 1024;

/// How often a silent connection has to show that it is alive.
const ASK: Duration = Duration::from_secs(5);

/// How long to wait before listening again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(3);

/// The tiers in `tidegate_users`, and the plans in `tidegate_tenants`.
#[derive(Debug)]
pub struct PostgresTiers {
    url: PostgresUrl,
    patience: Duration,
    /// One for each server.
    pools: Vec<PgPool>,
    /// Which server to ask.
    turn: AtomicUsize,
}

/// User or tenant whose tier or plan has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierChange {
    /// That of one user.
    User {
        /// The tenant; `None` if it is the user's tier wherever no tenant has one for it.
        tenant: Option<String>,
        /// The user.
        user: String,
    },
    /// The plan of a tenant.
    Tenant(String),
    /// Any of them: what has changed is not known.
    All,
}

impl PostgresTiers {
    /// The tiers in the database that `url` names. Nothing is connected yet.
    pub fn new(url: PostgresUrl) -> Self {
        Self::with_patience(url, PATIENCE)
    }

    /// Creates what [`new`](Self::new) does, with look-ups that fail after `patience` instead of two seconds.
    pub fn with_patience(url: PostgresUrl, patience: Duration) -> Self {
        let pool = |place: Place<'_>| {
            PgPoolOptions::new()
                .max_connections(CONNECTIONS)
                .acquire_timeout(patience)
                // Those that were lost are found when they are to be used.
                .idle_timeout(None)
                .max_lifetime(None)
                .connect_lazy_with(place.options())
        };
        let pools = Place::all(&url, 0).map(pool).collect();
        Self { url, patience, pools, turn: AtomicUsize::new(0) }
    }

    /// Looks up a user's tier: that within its tenant, or else that of the user in all tenants. `None` if there is neither.
    ///
    /// Fails after two seconds, or what was stated instead; if the URL names several servers, the next call asks another.
    pub fn tier_of<'a>(&'a self, tenant: Option<&'a str>, user: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(self.ask(
            "SELECT tier FROM tidegate_users WHERE user_id = $2 AND tenant IN ($1, '') ORDER BY tenant = '' LIMIT 1",
            [Some(tenant.unwrap_or_default()), Some(user), None],
        ))
    }

    /// Looks up a tenant's plan, and fails as [`tier_of`](Self::tier_of) does.
    pub fn plan_of<'a>(&'a self, tenant: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(self.ask("SELECT plan FROM tidegate_tenants WHERE tenant = $1", [Some(tenant), None, None]))
    }

    /// Sets a user's tier, within a tenant or, without it, in all of them; `None` removes it. Returns the one before.
    pub fn set_tier<'a>(
        &'a self,
        tenant: Option<&'a str>,
        user: &'a str,
        tier: Option<&'a str>,
    ) -> Answer<'a, Option<String>> {
        let query = match tier {
            Some(_) => {
                "WITH before AS (SELECT tier FROM tidegate_users WHERE tenant = $1 AND user_id = $2), \
                 written AS (INSERT INTO tidegate_users (tenant, user_id, tier) VALUES ($1, $2, $3) \
                 ON CONFLICT (tenant, user_id) DO UPDATE SET tier = $3) SELECT tier FROM before"
            }
            None => "DELETE FROM tidegate_users WHERE tenant = $1 AND user_id = $2 RETURNING tier",
        };
        Box::pin(self.write(query, [Some(tenant.unwrap_or_default()), Some(user), tier]))
    }

    /// Sets a tenant's plan; `None` removes it. Returns the one before.
    pub fn set_plan<'a>(&'a self, tenant: &'a str, plan: Option<&'a str>) -> Answer<'a, Option<String>> {
        let query = match plan {
            Some(_) => {
                "WITH before AS (SELECT plan FROM tidegate_tenants WHERE tenant = $1), \
                 written AS (INSERT INTO tidegate_tenants (tenant, plan) VALUES ($1, $2) \
                 ON CONFLICT (tenant) DO UPDATE SET plan = $2) SELECT plan FROM before"
            }
            None => "DELETE FROM tidegate_tenants WHERE tenant = $1 RETURNING plan",
        };
        Box::pin(self.write(query, [Some(tenant), plan, None]))
    }

    /// Runs a statement that changes something on one server after the other, until one lets it: replicas do not.
    async fn write(
        &self,
        query: &'static str,
        names: [Option<&str>; 3],
    ) -> Result<Option<String>, ArchiveError> {
        let mut result = self.ask(query, names).await;
        for _ in 1..self.pools.len() {
            if result.is_ok() {
                break;
            }
            result = self.ask(query, names).await;
        }
        result
    }

    /// Runs a statement that returns a name or nothing.
    async fn ask(
        &self,
        query: &'static str,
        names: [Option<&str>; 3],
    ) -> Result<Option<String>, ArchiveError> {
        let turn = self.turn.load(Ordering::Relaxed);
        let server = turn % self.pools.len().max(1);
        let place = Place { url: &self.url, server };
        let Some(pool) = self.pools.get(server) else { return Err(place.silent().into()) };
        let query = names.into_iter().flatten().fold(sqlx::query_as(query), sqlx::query::QueryAs::bind);
        let trouble = match timeout(self.patience, query.fetch_optional(pool)).await {
            Ok(Ok(row)) => return Ok(row.map(|(tier,): (String,)| tier)),
            Ok(Err(error)) => place.trouble(&error),
            Err(_) => place.silent(),
        };
        // Of those who fail together, one goes on to the next.
        self.turn.compare_exchange(turn, turn + 1, Ordering::Relaxed, Ordering::Relaxed).ok();
        Err(trouble.into())
    }

    /// Tells from now on whose tier has changed. Needs a Tokio runtime.
    ///
    /// [`TierChange::All`] comes first, and whenever the connection was lost: what was told meanwhile is gone. A replica
    /// tells nothing.
    pub fn changes(&self) -> TierChanges {
        TierChanges::start(self.url.clone())
    }
}

/// Changes of tiers as they happen, told by a task that ends when this is dropped.
#[derive(Debug)]
pub struct TierChanges {
    url: PostgresUrl,
    changes: Receiver<TierChange>,
    task: AbortHandle,
}

impl TierChanges {
    fn start(url: PostgresUrl) -> Self {
        let (sender, changes) = mpsc::channel(WAITING);
        let task = tokio::spawn(follow(url.clone(), sender)).abort_handle();
        Self { url, changes, task }
    }

    /// Waits for the next change. Giving up waiting loses nothing.
    pub async fn next(&mut self) -> TierChange {
        match self.changes.recv().await {
            Some(change) => change,
            // The task was interrupted; it begins anew.
            None => {
                *self = Self::start(self.url.clone());
                TierChange::All
            }
        }
    }
}

impl Drop for TierChanges {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens to one server after the other, until nobody listens here.
async fn follow(url: PostgresUrl, sender: Sender<TierChange>) {
    let (mut server, mut pause) = (0, FIRST_PAUSE);
    loop {
        if let Ok(session) = open(Place { url: &url, server }).await {
            pause = FIRST_PAUSE;
            if sender.send(TierChange::All).await.is_err() {
                return;
            }
            listen(session, &sender).await;
        }
        if sender.is_closed() {
            return;
        }
        server = (server + 1) % url.servers.len().max(1);
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

async fn open(place: Place<'_>) -> Result<Session, Trouble> {
    let mut session = Session::open(place).await?;
    session.listen(CHANNEL).await?;
    Ok(session)
}

/// Tells what is heard, until the connection is lost. Why does not matter: look-ups say it to whoever needs them.
async fn listen(mut session: Session, sender: &Sender<TierChange>) {
    let mut ask = interval_at(Instant::now() + ASK, ASK);
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut missed = false;
    loop {
        tokio::select! {
            room = sender.reserve(), if missed => {
                let Ok(room) = room else { return };
                room.send(TierChange::All);
                missed = false;
            }
            heard = session.hear() => {
                let Ok(payload) = heard else { return };
                match sender.try_send(change(&payload)) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => missed = true,
                    Err(TrySendError::Closed(_)) => return,
                }
            }
            _ = ask.tick() => if is_alive(&mut session).await.is_err() { return },
        }
    }
}

async fn is_alive(session: &mut Session) -> Result<(), Trouble> {
    let (place, connection) = session.connection().await?;
    place.ask(sqlx::query("SELECT 1").execute(connection)).await.map(drop)
}

/// What a trigger has told.
fn change(payload: &str) -> TierChange {
    #[derive(Deserialize)]
    struct Payload {
        tenant: String,
        /// Absent if the tenant's own plan has changed.
        user: Option<String>,
    }
    match serde_json::from_str(payload) {
        Ok(Payload { tenant, user: Some(user) }) => {
            TierChange::User { tenant: Some(tenant).filter(|tenant| !tenant.is_empty()), user }
        }
        Ok(Payload { tenant, user: None }) => TierChange::Tenant(tenant),
        Err(_) => TierChange::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_tier_has_changed() {
        let user = |tenant: Option<&str>| TierChange::User {
            tenant: tenant.map(str::to_owned),
            user: "a".to_owned(),
        };
        assert_eq!(change(r#"{"tenant" : "t", "user" : "a"}"#), user(Some("t")));
        assert_eq!(change(r#"{"tenant" : "", "user" : "a"}"#), user(None));
        assert_eq!(change(r#"{"tenant" : "t"}"#), TierChange::Tenant("t".to_owned()));
        assert_eq!([change(""), change("nonsense")], [TierChange::All, TierChange::All]);
    }
}
