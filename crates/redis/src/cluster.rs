//! Redis Cluster: which master has which slot, while that changes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::Value;
use tidegate_store::{Failure, Outcome};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::connect::{Connector, ask};
use crate::key::{SLOTS, part_of_slot};
use crate::link::Link;
use crate::problem::Problem;
use crate::shard::{Redirect, Shard, Waiting};
use crate::store::Clockwork;
use crate::url::Address;

/// How often a group is sent elsewhere before we give up: a slot does not move twice in a moment.
const MAX_HOPS: u8 = 5;

/// How long to wait while the keys of one group are in two places.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// How often the map is read when all is well, while something is wrong, and at most.
const REFRESH: Duration = Duration::from_secs(5);
const REFRESH_IN_DOUBT: Duration = Duration::from_millis(100);
const REFRESH_AT_MOST: Duration = Duration::from_millis(20);

/// All masters of a Cluster.
pub(crate) struct Cluster {
    map: ArcSwap<Map>,
    seeds: Vec<Address>,
    connector: Arc<Connector>,
    clock: Arc<Clockwork>,
    doubt: Notify,
    up: Arc<Notify>,
    me: Weak<Self>,
}

/// Who serves what.
struct Map {
    shards: Vec<Arc<Shard>>,
    /// The position of each slot's master; [`NOBODY`] if it has none.
    slots: Box<[u16]>,
    /// Why the map could not be read, if it could not.
    problem: Option<Problem>,
}

const NOBODY: u16 = u16::MAX;

impl Cluster {
    /// Gets to know the Cluster from any of `seeds`, and follows it from then on.
    pub(crate) fn start(
        seeds: Vec<Address>,
        connector: Arc<Connector>,
        clock: Arc<Clockwork>,
        up: Arc<Notify>,
    ) -> Arc<Self> {
        let map = Map {
            shards: Vec::new(),
            slots: vec![NOBODY; SLOTS.into()].into(),
            problem: Some(Problem::new(Failure::Connection, "not connected yet")),
        };
        let cluster = Arc::new_cyclic(|me| Self {
            map: ArcSwap::from_pointee(map),
            seeds,
            connector,
            clock,
            doubt: Notify::new(),
            up,
            me: me.clone(),
        });
        tokio::spawn(follow(Arc::downgrade(&cluster)));
        cluster
    }

    /// The master of a slot, or why it has none.
    pub(crate) fn shard_of(&self, slot: u16) -> Result<Arc<Shard>, Failure> {
        let map = self.map.load();
        match map.slots.get(usize::from(slot)).and_then(|&index| map.shards.get(usize::from(index))) {
            Some(shard) => Ok(Arc::clone(shard)),
            None => Err(map.problem.as_ref().map_or(Failure::ClusterDown, |problem| problem.failure)),
        }
    }

    /// Every master that has a slot.
    pub(crate) fn shards(&self) -> Vec<Arc<Shard>> {
        self.map.load().shards.clone()
    }

    /// Why the Cluster as a whole cannot be used, if it cannot.
    /// The parts of all slots, a bit each, some of which nobody serves that is well.
    pub(crate) fn unwell(&self) -> u64 {
        let map = self.map.load();
        let well: Vec<bool> = map.shards.iter().map(|shard| shard.problem().is_none()).collect();
        let served = |index: u16| well.get(usize::from(index)).copied().unwrap_or(false);
        let unwell = map.slots.iter().zip(0u16..).filter(|(index, _)| !served(**index));
        unwell.fold(0, |parts, (_, slot)| parts | 1 << part_of_slot(slot))
    }

    pub(crate) fn problem(&self) -> Option<Problem> {
        let map = self.map.load();
        let orphans = map.slots.iter().filter(|&&index| index == NOBODY).count();
        match &map.problem {
            Some(problem) => Some(problem.clone()),
            None if orphans > 0 => {
                let text = format!("{orphans} of {SLOTS} slots have no master");
                Some(Problem::new(Failure::ClusterDown, text))
            }
            None => None,
        }
    }

    /// The shard at `address`, known or new.
    fn shard_at(&self, known: &[Arc<Shard>], address: &Address) -> Arc<Shard> {
        let name = address.to_string();
        known.iter().find(|shard| shard.name == name).map_or_else(
            || {
                let (connector, up) = (Arc::clone(&self.connector), Arc::clone(&self.up));
                let link = Link::start(connector, Some(address.clone()), up, &self.clock);
                let me: Weak<dyn Redirect> = self.me.clone();
                Shard::new(name.clone(), link, Arc::clone(&self.connector), Arc::clone(&self.clock), me, true)
            },
            Arc::clone,
        )
    }

    /// Takes note of the server at `address`, and that it has `slot`.
    fn learn(&self, slot: Option<u16>, address: &Address) -> Arc<Shard> {
        let name = address.to_string();
        let mut made = None;
        self.map.rcu(|map| {
            let mut shards = map.shards.clone();
            let index = shards.iter().position(|shard| shard.name == name).unwrap_or_else(|| {
                shards.push(Arc::clone(made.get_or_insert_with(|| self.shard_at(&[], address))));
                shards.len() - 1
            });
            let mut slots = map.slots.clone();
            let slot = slot.and_then(|slot| slots.get_mut(usize::from(slot)));
            if let (Some(slot), Ok(index)) = (slot, u16::try_from(index)) {
                *slot = index;
            }
            Map { shards, slots, problem: map.problem.clone() }
        });
        let map = self.map.load();
        let shard = map.shards.iter().find(|shard| shard.name == name).map(Arc::clone);
        shard.unwrap_or_else(|| self.shard_at(&[], address))
    }

    /// Reads the map from whoever answers first: masters that are known, then the seeds.
    async fn refresh(&self) {
        let map = self.map.load_full();
        let known = map.shards.iter().filter(|shard| shard.link.problem().is_none());
        let known = known.filter_map(|shard| shard.link.address());
        let mut problem = Problem::new(Failure::Connection, "no node of the Cluster can be reached");
        for address in known.chain(self.seeds.iter().cloned()).collect::<Vec<_>>() {
            match self.read(&map.shards, &address).await {
                Ok(ranges) => return self.take_over(&map.shards, &ranges),
                Err(why) => problem = why,
            }
        }
        // Those that are known may go on.
        if map.shards.is_empty() {
            self.map.rcu(|map| Map {
                shards: map.shards.clone(),
                slots: map.slots.clone(),
                problem: Some(problem.clone()),
            });
        }
    }

    async fn read(&self, shards: &[Arc<Shard>], address: &Address) -> Result<Vec<Range>, Problem> {
        let name = address.to_string();
        let open = shards.iter().find(|shard| shard.name == name).and_then(|shard| shard.link.get().ok());
        let mut connection = match open {
            Some(open) => open.connection,
            None => self.connector.open(address).await?,
        };
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("SLOTS");
        let slots: Vec<Value> = ask(&mut connection, &cmd, address).await.map_err(|problem| {
            if problem.text.contains("cluster support disabled") {
                let text = format!("{address}: it is no node of a Cluster; use redis://");
                return Problem::new(Failure::NotAStore, text);
            }
            problem
        })?;
        Ok(slots.iter().filter_map(|range| Range::parse(range, address)).collect())
    }

    fn take_over(&self, known: &[Arc<Shard>], ranges: &[Range]) {
        let mut positions: HashMap<&Address, u16> = HashMap::new();
        let mut shards: Vec<Arc<Shard>> = Vec::new();
        let mut slots = vec![NOBODY; SLOTS.into()];
        for range in ranges {
            let index = *positions.entry(&range.master).or_insert_with(|| {
                shards.push(self.shard_at(known, &range.master));
                u16::try_from(shards.len() - 1).unwrap_or(NOBODY)
            });
            if let Some(part) = slots.get_mut(usize::from(range.first)..=usize::from(range.last)) {
                part.fill(index);
            }
        }
        self.map.store(Arc::new(Map { shards, slots: slots.into(), problem: None }));
    }

    /// Whether anything is amiss that reading the map again may cure.
    fn in_doubt(&self) -> bool {
        self.problem().is_some() || self.map.load().shards.iter().any(|shard| shard.link.problem().is_some())
    }

    /// Sends a group on to another server, unless it has travelled enough.
    fn send_on(&self, mut waiting: Waiting, shard: &Arc<Shard>, asking: bool) {
        if waiting.hops >= MAX_HOPS {
            return self.give_up(waiting);
        }
        waiting.hops += 1;
        waiting.asking = asking;
        shard.submit(waiting);
    }

    fn give_up(&self, waiting: Waiting) {
        if let Ok(shard) = self.shard_of(waiting.slot) {
            shard.stats.count_error(Failure::NotReady);
        }
        waiting.fail(Outcome::Unavailable(Failure::NotReady));
    }

    /// The address in a redirection. It may lack the host, which then is that of whoever said so.
    fn parse(&self, text: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() { self.seeds.first()?.host.clone() } else { host.to_owned() };
        Some(Address { host, port })
    }
}

impl Redirect for Cluster {
    fn moved(&self, waiting: Waiting, address: &str) {
        match self.parse(address) {
            Some(address) => {
                let shard = self.learn(Some(waiting.slot), &address);
                self.doubt.notify_one();
                self.send_on(waiting, &shard, false);
            }
            None => waiting.fail(Outcome::Unavailable(Failure::NotAStore)),
        }
    }

    fn ask(&self, waiting: Waiting, address: &str) {
        match self.parse(address) {
            Some(address) => {
                // It may be new and have no slots yet.
                let known = self.shards().into_iter().find(|shard| shard.name == address.to_string());
                let shard = known.unwrap_or_else(|| self.learn(None, &address));
                self.send_on(waiting, &shard, true);
            }
            None => waiting.fail(Outcome::Unavailable(Failure::NotAStore)),
        }
    }

    fn try_again(&self, mut waiting: Waiting) {
        if waiting.deadline <= Instant::now() + TRY_AGAIN {
            return self.give_up(waiting);
        }
        let Some(me) = self.me.upgrade() else { return };
        (waiting.hops, waiting.asking, waiting.alone) = (0, false, true);
        tokio::spawn(async move {
            sleep(TRY_AGAIN).await;
            match me.shard_of(waiting.slot) {
                Ok(shard) => shard.submit(waiting),
                Err(failure) => waiting.fail(Outcome::Unavailable(failure)),
            }
        });
    }

    fn doubt(&self) {
        self.doubt.notify_one();
    }
}

/// Slots and who has them.
struct Range {
    first: u16,
    last: u16,
    master: Address,
}

impl Range {
    /// Reads an entry of `CLUSTER SLOTS`, as told by the server at `teller`.
    fn parse(entry: &Value, teller: &Address) -> Option<Self> {
        let (first, last, master): (u16, u16, Value) = match entry {
            Value::Array(parts) => {
                let number = |index: usize| redis::from_redis_value_ref(parts.get(index)?).ok();
                (number(0)?, number(1)?, parts.get(2)?.clone())
            }
            _ => return None,
        };
        let Value::Array(master) = master else { return None };
        let host = redis::from_redis_value_ref::<Option<String>>(master.first()?).ok()?;
        let port = redis::from_redis_value_ref(master.get(1)?).ok()?;
        let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| teller.host.clone());
        Some(Self { first, last, master: Address { host, port } })
    }
}

/// Reads the map now and then, and at once when something is amiss.
async fn follow(cluster: Weak<Cluster>) {
    loop {
        let pause = {
            let Some(cluster) = cluster.upgrade() else { return };
            cluster.refresh().await;
            if cluster.in_doubt() { REFRESH_IN_DOUBT } else { REFRESH }
        };
        sleep(REFRESH_AT_MOST).await;
        let Some(cluster) = cluster.upgrade() else { return };
        tokio::select! {
            () = sleep(pause) => {}
            () = cluster.doubt.notified() => {}
        }
    }
}
