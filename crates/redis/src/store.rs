//! The store: from groups to servers and back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tidegate_core::{Action, Algorithm, Group, HoldId, Operation, Secret, Span, Tag};
use tidegate_store::coordinator::{Places, apply_group};
use tidegate_store::deadline::{Late as NoAnswer, until};
use tidegate_store::spans;
use tidegate_store::{Answer, BreakerSettings, Clock, Deadline, Failure, Outcome, Outcomes, Spike, Store};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::cluster::Cluster;
use crate::connect::{CONNECT_LIMIT, Connector};
use crate::encode::{OwnedOp, Time};
use crate::event_loops::EventLoops;
use crate::key::{part_of_slot, slot_of_name, slot_of_tag};
use crate::problem::Problem;
use crate::redirect::NoRedirect;
use crate::secret::{FleetSecret, Keeper, keep};
use crate::sentinel::Watch;
use crate::shard::{Setup, Shard};
use crate::url::{RedisUrl, Topology};
use crate::waiting::{Answered, Waiting};

/// How long a caller waits for the store unless told otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(5);

/// How long what came too late may take to be given back.
const RETURN_LIMIT: Duration = Duration::from_secs(1);

/// How long a server may take to answer a ping, unless callers wait long.
const PING_LIMIT: Duration = Duration::from_millis(100);

/// How to build a [`RedisStore`].
#[derive(Debug)]
pub struct Builder {
    url: RedisUrl,
    clock: Clockwork,
    secret: Option<[u8; 16]>,
    offer: Option<[u8; 16]>,
    event_loops: Vec<Handle>,
}

/// Whose time counts, and how long callers wait.
pub(crate) struct Clockwork {
    patience: Duration,
    explicit: Option<(Arc<dyn Clock>, Span)>,
    breaker: Option<BreakerSettings>,
}

impl Clockwork {
    /// When servers are left alone, if ever. What callers are ready to wait for is neither slow nor silence, and what takes
    /// longer is of no use to them.
    pub(crate) fn breaker(&self) -> Option<BreakerSettings> {
        self.breaker.map(|settings| BreakerSettings {
            slow: settings.slow.max(self.patience.saturating_mul(20)),
            silence: settings.silence.map(|silence| silence.max(self.patience.saturating_mul(10))),
            spike: settings.spike.map(|spike| Spike { slow: self.patience, ..spike }),
            ..settings
        })
    }

    /// How long a server may take to answer a ping before that is a problem.
    pub(crate) fn ping_limit(&self) -> Duration {
        self.patience.saturating_mul(4).clamp(PING_LIMIT, CONNECT_LIMIT)
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn is_explicit(&self) -> bool {
        self.explicit.is_some()
    }

    pub(crate) fn time(&self) -> Time {
        match &self.explicit {
            None => Time::Server,
            Some((clock, ttl)) => Time::Explicit(clock.now(), *ttl),
        }
    }
}

impl fmt::Debug for Clockwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clockwork").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Builder {
    /// How long callers usually wait for an answer (default 5 ms): the deadlines they give decide, this is what
    /// calls are planned by.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.clock.patience = timeout;
        self
    }

    /// When a server that fails is left alone for a while (default [`BreakerSettings::FAST`]); `None`: never.
    #[must_use]
    pub fn breaker(mut self, settings: Option<BreakerSettings>) -> Self {
        self.clock.breaker = settings;
        self
    }

    /// Goes by `clock` instead of the server's own: for tests and simulations. Keys then live for `ttl`, whatever
    /// they hold, since the server's time and this one have nothing to do with each other.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>, ttl: Span) -> Self {
        self.clock.explicit = Some((clock, ttl));
        self
    }

    /// Uses this secret instead of agreeing on one with other nodes.
    #[must_use]
    pub fn secret(mut self, secret: [u8; 16]) -> Self {
        self.secret = Some(secret);
        self
    }

    /// If no node has put a secret there yet, puts this one there instead of a random one: nodes that know it can agree on keys
    /// before they have reached the servers.
    #[must_use]
    pub fn offer_secret(mut self, secret: [u8; 16]) -> Self {
        self.offer = Some(secret);
        self
    }

    /// Gives each of these event loops connections of its own to every master (default: none of them). Requests from all others share
    /// those of the runtime that the store is started in.
    ///
    /// Worth it for runtimes with one thread: a request that has to wake another thread costs more than all else about it.
    #[must_use]
    pub fn event_loops(mut self, event_loops: Vec<Handle>) -> Self {
        self.event_loops = event_loops;
        self
    }

    /// Starts connecting, within the present Tokio runtime. Fails only if certificates cannot be read: a server
    /// that is away is waited for.
    pub fn start(self) -> Result<RedisStore, Problem> {
        let Self { url, clock, secret, offer, event_loops } = self;
        let (connector, clock) = (Arc::new(Connector::new(&url)?), Arc::new(clock));
        let (up, doubt) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let event_loops = EventLoops::new(event_loops);
        let setup = Setup { connector, clock: Arc::clone(&clock), event_loops, up: Arc::clone(&up) };
        let servers = Arc::new(Servers::start(&url.topology, setup, doubt));
        let secret = Arc::new(FleetSecret::new(&url.prefix, secret, offer));
        let keeper = Arc::downgrade(&servers);
        tokio::spawn(keep(Arc::clone(&secret), keeper, up));
        let mut node = [0; 8];
        getrandom::fill(&mut node).map_err(|error| Problem::new(Failure::Other, error.to_string()))?;
        let node = u64::from_le_bytes(node);
        Ok(RedisStore { url, servers, secret, clock, node, holds: AtomicU64::new(0) })
    }
}

/// The servers, however they are arranged.
pub(crate) enum Servers {
    One { shard: Arc<Shard>, _redirect: Arc<NoRedirect>, watch: Option<Arc<Watch>> },
    Cluster(Arc<Cluster>),
}

impl Servers {
    fn start(topology: &Topology, setup: Setup, doubt: Arc<Notify>) -> Self {
        let (name, address) = match topology {
            Topology::Cluster(seeds) => return Self::Cluster(Cluster::start(seeds.clone(), setup)),
            Topology::Single(address) => (address.to_string(), Some(address)),
            Topology::Sentinel { master, .. } => (master.clone(), None),
        };
        let redirect = Arc::new(NoRedirect(Arc::clone(&doubt)));
        let weak: std::sync::Weak<NoRedirect> = Arc::downgrade(&redirect);
        let shard = Shard::start(name, address, &setup, weak, false);
        let watch = match topology {
            Topology::Sentinel { sentinels, master } => {
                let (shard, connector) = (Arc::clone(&shard), setup.connector);
                Some(Watch::start(sentinels.clone(), master.clone(), shard, connector, doubt))
            }
            _ => None,
        };
        Self::One { shard, _redirect: redirect, watch }
    }

    fn shard_of(&self, slot: u16) -> Result<Arc<Shard>, Failure> {
        match self {
            Self::One { shard, .. } => Ok(Arc::clone(shard)),
            Self::Cluster(cluster) => cluster.shard_of(slot),
        }
    }

    /// Every master that counts.
    pub(crate) fn shards(&self) -> Vec<Arc<Shard>> {
        match self {
            Self::One { shard, .. } => vec![Arc::clone(shard)],
            Self::Cluster(cluster) => cluster.shards(),
        }
    }

    /// What is wrong with the servers as a whole, if anything is.
    pub(crate) fn problem(&self) -> Option<Problem> {
        match self {
            Self::One { watch, .. } => watch.as_ref().and_then(|watch| watch.problem()),
            Self::Cluster(cluster) => cluster.problem(),
        }
    }
}

impl Keeper for Servers {
    fn shard_of(&self, name: &str) -> Result<Arc<Shard>, Failure> {
        Self::shard_of(self, slot_of_name(name))
    }
}

/// Counters in Redis, shared by all nodes that use the same servers and prefix.
///
/// Decisions are taken by a script inside the server, by the server's clock. What is asked for at the same time
/// travels together; see [`tidegate_store::coalesce`].
pub struct RedisStore {
    url: RedisUrl,
    pub(crate) servers: Arc<Servers>,
    secret: Arc<FleetSecret>,
    clock: Arc<Clockwork>,
    /// With the number of the hold, a name nobody else gives.
    node: u64,
    holds: AtomicU64,
}

impl RedisStore {
    /// A store on the servers `url` names.
    pub fn builder(url: RedisUrl) -> Builder {
        let breaker = Some(BreakerSettings::FAST);
        let clock = Clockwork { patience: DEFAULT_TIMEOUT, explicit: None, breaker };
        Builder { url, clock, secret: None, offer: None, event_loops: Vec::new() }
    }

    /// Where the servers are.
    pub fn url(&self) -> &RedisUrl {
        &self.url
    }

    /// What keeps the store as a whole from being used, if anything does.
    pub fn problem(&self) -> Option<Problem> {
        let shard = || self.servers.shards().iter().find_map(|shard| shard.out_of_reach());
        self.servers.problem().or_else(shard).or_else(|| self.secret.problem())
    }

    /// Waits until the store can be used, for at most `limit`. Fails with what is wrong by then, and at once if it is something
    /// that does not pass by itself, such as a wrong password.
    pub async fn ready_within(&self, limit: Duration) -> Result<(), Problem> {
        let usable = async {
            loop {
                match self.problem() {
                    None => return Ok(()),
                    Some(problem) if problem.lasts() => return Err(problem),
                    Some(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let known = tokio::time::timeout(limit, usable).await;
        known.unwrap_or_else(|_| self.problem().map_or(Ok(()), Err))
    }

    /// Resolves when the store can be used.
    pub async fn ready(&self) {
        while self.problem().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        Box::pin(async move {
            match groups {
                [group] => vec![apply_group(self, group, deadline).await],
                groups => join_all(groups.iter().map(|group| apply_group(self, group, deadline))).await,
            }
        })
    }

    fn secret(&self) -> Option<Secret> {
        self.secret.get()
    }

    fn part_of(&self, tag: Tag) -> u8 {
        match &*self.servers {
            Servers::One { .. } => 0,
            Servers::Cluster(_) => part_of_slot(slot_of_tag(tag)),
        }
    }

    fn unwell(&self) -> u64 {
        if self.secret.get().is_none() {
            return u64::MAX;
        }
        match &*self.servers {
            Servers::One { shard, .. } => u64::from(shard.problem().is_some()),
            Servers::Cluster(cluster) => cluster.unwell(),
        }
    }

    fn reach(&self, tag: Tag) -> Result<(), Failure> {
        if self.secret.get().is_none() {
            return Err(self.problem().map_or(Failure::Connection, |problem| problem.failure));
        }
        match &*self.servers {
            Servers::One { shard, .. } => shard.reach(),
            Servers::Cluster(cluster) => cluster.shard_of(slot_of_tag(tag))?.reach(),
        }
    }

    fn shards(&self) -> Vec<tidegate_store::Shard> {
        let of = |shard: &Arc<Shard>| tidegate_store::Shard {
            name: shard.name().to_owned(),
            stats: Arc::clone(shard.stats()),
            problem: shard.problem().map(|problem| problem.text),
            breaker: shard.breaker(),
        };
        self.servers.shards().iter().map(of).collect()
    }

    fn problem(&self) -> Option<String> {
        Self::problem(self).map(|problem| problem.text)
    }
}

impl Places for RedisStore {
    type Pending = Pin<Box<dyn Future<Output = Outcomes> + Send>>;

    /// All counters of one server can be asked together; those of a Cluster only if they are in one slot.
    fn place_of(&self, op: &Operation<'_>) -> u16 {
        match &*self.servers {
            Servers::One { .. } => 0,
            Servers::Cluster(_) => slot_of_tag(op.take.key.tag),
        }
    }

    fn submit(&self, place: u16, ops: &[Operation<'_>], deadline: Deadline) -> Self::Pending {
        let fail = |failure| -> Self::Pending {
            let outcomes = ops.iter().map(|_| Outcome::Unavailable(failure)).collect();
            spans::record(&spans::store("none", ops.len()), &outcomes);
            Box::pin(std::future::ready(outcomes))
        };
        if deadline.at() <= Instant::now() {
            return fail(Failure::Deadline);
        }
        // The scripts do not have this counter; limiters refuse rules that need it.
        if ops.iter().any(|op| op.take.quota.algorithm() == Algorithm::InFlight) {
            return fail(Failure::Other);
        }
        let shard = match self.servers.shard_of(place) {
            // Keys hashed with a secret of our own would be nobody else's.
            Ok(shard) if self.secret.get().is_none() => {
                let failure = self.problem().map_or(Failure::Connection, |problem| problem.failure);
                shard.stats().count_error(failure);
                return fail(failure);
            }
            Ok(shard) => shard,
            Err(failure) => return fail(failure),
        };
        let owned: SmallVec<[OwnedOp; 1]> = ops.iter().map(|op| OwnedOp::new(&self.url.prefix, op)).collect();
        let (reply, answer) = oneshot::channel();
        let late = Late { shard: Arc::clone(&shard), slot: place, count: ops.len() };
        let span = spans::store(shard.name(), ops.len());
        shard.submit(Waiting::new(owned, place, deadline.at(), reply));
        if span.is_disabled() {
            return Box::pin(late.wait(answer, deadline.at()));
        }
        // From when it begins to wait until its outcome is there: the calls themselves carry those of many.
        Box::pin(async move {
            let outcomes = late.wait(answer, deadline.at()).await;
            spans::record(&span, &outcomes);
            outcomes
        })
    }

    fn waits_for_release(&self) -> bool {
        self.clock.is_explicit()
    }

    fn hold_id(&self) -> HoldId {
        HoldId([self.node, self.holds.fetch_add(1, Ordering::Relaxed)])
    }
}

/// A group whose answer may come too late.
struct Late {
    shard: Arc<Shard>,
    slot: u16,
    count: usize,
}

impl Late {
    async fn wait(self, mut answer: oneshot::Receiver<Answered>, deadline: Instant) -> Outcomes {
        match until(deadline, &mut answer).await {
            Ok(Ok(answered)) => answered.outcomes,
            Ok(Err(_)) => self.all(Outcome::Unknown(Failure::Other)),
            Err(NoAnswer) => {
                self.shard.stats().count_error(Failure::Deadline);
                self.shard.look();
                let outcomes = self.all(Outcome::Unknown(Failure::Deadline));
                tokio::spawn(self.give_back(answer));
                outcomes
            }
        }
    }

    fn all(&self, outcome: Outcome) -> Outcomes {
        std::iter::repeat_n(outcome, self.count).collect()
    }

    /// Gives back what was taken for a request that was turned away or counted elsewhere. If the answer never comes, it is assumed to
    /// have been taken and stays so.
    async fn give_back(self, answer: oneshot::Receiver<Answered>) {
        let Ok(Answered { outcomes, at: Some(since), late: Some(asked) }) = answer.await else { return };
        let allowed = |outcome: &Outcome| outcome.verdict().is_none_or(|verdict| verdict.allowed);
        if !outcomes.iter().all(allowed) {
            return;
        }
        let turned_away = asked.iter().any(OwnedOp::denies);
        let takes = |op: &OwnedOp| matches!(op.action, Action::Take | Action::Hold { .. });
        let counts_twice = |op: &&OwnedOp| takes(op) && (turned_away || op.is_local());
        let ops: SmallVec<[OwnedOp; 1]> =
            asked.iter().filter(counts_twice).map(|op| op.returned(since)).collect();
        if ops.is_empty() {
            return;
        }
        let (reply, _) = oneshot::channel();
        let deadline = Instant::now() + RETURN_LIMIT;
        self.shard.submit(Waiting::new(ops, self.slot, deadline, reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_wait_for_is_neither_slow_nor_silence() {
        let clock = |patience, breaker| Clockwork { patience, explicit: None, breaker };
        let ms = Duration::from_millis;
        for (patience, slow, silence, ping) in
            [(5, 100, 50, 100), (50, 1_000, 500, 200), (900, 18_000, 9_000, 1_000)]
        {
            let clock = clock(ms(patience), Some(BreakerSettings::FAST));
            let settings = clock.breaker().unwrap();
            assert_eq!((settings.slow, settings.silence), (ms(slow), Some(ms(silence))));
            assert_eq!(settings.spike.unwrap().slow, ms(patience), "nobody has waited for what took longer");
            assert_eq!(clock.ping_limit(), ms(ping));
        }
        assert_eq!(clock(ms(5), Some(BreakerSettings::CLASSIC)).breaker().unwrap().spike, None);
        assert!(clock(ms(5), None).breaker().is_none());
    }
}
