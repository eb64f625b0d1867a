//! The secret a fleet hashes its keys with, agreed through the store.
//!
//! The first node puts one there; all others take that. It lives far longer than any counter, and whoever finds it
//! gone (a server that was emptied) puts back the one it knows, so that a running fleet keeps its secret.

use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tidegate_core::Secret;
use tidegate_store::Failure;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::connect::ask;
use crate::problem::Problem;
use crate::shard::Shard;

/// Longer than the longest window, and renewed all the time.
const TTL: Duration = Duration::from_secs(400 * 86_400);

/// How often to see whether it is still there.
const LOOK: Duration = Duration::from_secs(10);

/// How often to try while it is not agreed.
const TRY: Duration = Duration::from_millis(50);

/// The secret, once it is known.
#[derive(Debug)]
pub(crate) struct FleetSecret {
    agreed: ArcSwapOption<[u8; 16]>,
    name: String,
    /// It was given, so there is nothing to agree on.
    fixed: bool,
    /// What to put there if there is none.
    offer: Option<[u8; 16]>,
    problem: Mutex<Option<Problem>>,
}

/// Who knows where the secret is kept.
pub(crate) trait Keeper: Send + Sync + 'static {
    /// The master that has the key called `name`.
    fn shard_of(&self, name: &str) -> Result<Arc<Shard>, Failure>;
}

impl FleetSecret {
    pub(crate) fn new(prefix: &str, given: Option<[u8; 16]>, offer: Option<[u8; 16]>) -> Self {
        let fixed = given.is_some();
        Self {
            agreed: ArcSwapOption::from_pointee(given),
            name: format!("{prefix}:secret"),
            fixed,
            offer,
            problem: Mutex::new(None),
        }
    }

    /// The secret, if it is agreed.
    pub(crate) fn get(&self) -> Option<Secret> {
        self.agreed.load().as_deref().map(|bytes| Secret::new(*bytes))
    }

    /// Why it is not agreed, if it is not.
    pub(crate) fn problem(&self) -> Option<Problem> {
        if self.agreed.load().is_some() {
            return None;
        }
        let unknown =
            || Problem::new(Failure::Connection, "the secret that keys are hashed with is not known yet");
        Some(self.problem.lock().clone().unwrap_or_else(unknown))
    }

    /// Offers the secret we know, or a new one, and takes the one that counts.
    async fn agree(&self, shard: &Shard) -> Result<(), Problem> {
        let mut connection = shard.connection()?;
        let known = self.agreed.load().as_deref().copied();
        let bytes = match self.read(shard, &mut connection).await? {
            Some(bytes) => bytes,
            None => {
                let offer = known.or(self.offer).map_or_else(fresh, Ok)?;
                let mut set = redis::cmd("SET");
                set.arg(&self.name).arg(&offer[..]).arg("NX").arg("PX").arg(ttl());
                ask::<Value>(&mut connection, &set, &shard.name()).await?;
                // Somebody else may have been quicker.
                self.read(shard, &mut connection).await?.unwrap_or(offer)
            }
        };
        // Only what is known to be ours: the key may be somebody else's.
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg(&self.name).arg(ttl());
        match ask::<Value>(&mut connection, &expire, &shard.name()).await {
            // Counters would be left without an end.
            Err(problem) if problem.failure == Failure::Permission => return Err(problem),
            // If the server does not accept writes for now, another time will do.
            Ok(_) | Err(_) => {}
        }
        if self.agreed.load().as_deref() != Some(&bytes) {
            tracing::info!("agreed on the secret that keys are hashed with");
            self.agreed.store(Some(Arc::new(bytes)));
        }
        Ok(())
    }

    /// The secret that is there, if there is one.
    async fn read(
        &self,
        shard: &Shard,
        connection: &mut MultiplexedConnection,
    ) -> Result<Option<[u8; 16]>, Problem> {
        let foreign = || {
            let text = format!("{}: the key {} is not ours; use another ?prefix=", shard.name(), self.name);
            Problem::new(Failure::Foreign, text)
        };
        let mut get = redis::cmd("GET");
        get.arg(&self.name);
        match ask::<Value>(connection, &get, &shard.name()).await {
            Ok(Value::Nil) => Ok(None),
            Ok(Value::BulkString(bytes)) => Ok(Some(bytes.try_into().map_err(|_| foreign())?)),
            Err(problem) if problem.failure != Failure::Foreign => Err(problem),
            Ok(_) | Err(_) => Err(foreign()),
        }
    }
}

fn ttl() -> u64 {
    u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX)
}

/// Agrees on the secret when the store comes up, and sees to it that it stays.
pub(crate) async fn keep(secret: Arc<FleetSecret>, keeper: Weak<dyn Keeper>, up: Arc<Notify>) {
    if secret.fixed {
        return;
    }
    loop {
        let pause = {
            let Some(keeper) = keeper.upgrade() else { return };
            let agreed = match keeper.shard_of(&secret.name) {
                Ok(shard) => secret.agree(&shard).await,
                Err(failure) => Err(Problem::new(failure, failure.to_string())),
            };
            let pause = if agreed.is_ok() { LOOK } else { TRY };
            *secret.problem.lock() = agreed.err();
            pause
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = up.notified() => {}
        }
    }
}

fn fresh() -> Result<[u8; 16], Problem> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Problem::new(Failure::Other, format!("no randomness: {error}")))?;
    Ok(bytes)
}
