//! Redis Cluster: which master has which slot, while that changes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::Value;
use tidegate_store::{Failure, Outcome};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::connect::ask;
use crate::key::{SLOTS, part_of_slot};
use crate::problem::Problem;
use crate::redirect::Redirect;
use crate::shard::{Setup, Shard};
use crate::url::Address;
use crate::waiting::Waiting;

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
    setup: Setup,
    doubt: Notify,
    me: Weak<Self>,
}

/// Time for which a connection to a server without slots is kept after it had some or was last asked. While slots move, groups are
/// redirected to servers that the map does not list yet.
const KEEP_SPARE: Duration = Duration::from_secs(30);

/// Who serves what.
struct Map {
    shards: Vec<Arc<Shard>>,
    /// Servers without slots, and when they last had some or were asked.
    spare: Vec<(Arc<Shard>, Instant)>,
    /// The position of each slot's master; [`NOBODY`] if it has none.
    slots: Box<[u16]>,
    /// Why the map could not be read, if it could not.
    problem: Option<Problem>,
}

const NOBODY: u16 = u16::MAX;

impl Map {
    /// Returns the shard at `address` if it is known, with slots or without. One without slots to which the connection is lost is as good
    /// as unknown: a new one is waited for, whereas this one would fail until it has been tried again.
    fn find(&self, address: &Address) -> Option<&Arc<Shard>> {
        let spare = self.spare.iter().map(|(shard, _)| shard).filter(|shard| shard.reach().is_ok());
        self.shards.iter().chain(spare).find(|shard| shard.is_at(address))
    }
}

impl Cluster {
    /// Gets to know the Cluster from any of `seeds`, and follows it from then on.
    pub(crate) fn start(seeds: Vec<Address>, setup: Setup) -> Arc<Self> {
        let map = Map {
            shards: Vec::new(),
            spare: Vec::new(),
            slots: vec![NOBODY; SLOTS.into()].into(),
            problem: Some(Problem::new(Failure::Connection, "not connected yet")),
        };
        let cluster = Arc::new_cyclic(|me| Self {
            map: ArcSwap::from_pointee(map),
            seeds,
            setup,
            doubt: Notify::new(),
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

    /// The parts of all slots, a bit each, some of which nobody serves that is well.
    pub(crate) fn unwell(&self) -> u64 {
        let map = self.map.load();
        let well: Vec<bool> = map.shards.iter().map(|shard| shard.problem().is_none()).collect();
        let served = |index: u16| well.get(usize::from(index)).copied().unwrap_or(false);
        let unwell = map.slots.iter().zip(0u16..).filter(|(index, _)| !served(**index));
        unwell.fold(0, |parts, (_, slot)| parts | 1 << part_of_slot(slot))
    }

    /// Why the Cluster as a whole cannot be used, if it cannot.
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

    /// Connects to the server at `address`.
    fn new_shard(&self, address: &Address) -> Arc<Shard> {
        let me: Weak<dyn Redirect> = self.me.clone();
        Shard::start(address.to_string(), Some(address), &self.setup, me, true)
    }

    /// Takes note that the server at `address` has `slot`.
    fn learn_owner(&self, slot: u16, address: &Address) -> Arc<Shard> {
        let mut made = None;
        let mut learn = |map: &Map| {
            let known = map.find(address).cloned();
            let shard =
                known.unwrap_or_else(|| Arc::clone(made.get_or_insert_with(|| self.new_shard(address))));
            let mut shards = map.shards.clone();
            let index = shards.iter().position(|known| known.name() == shard.name()).unwrap_or_else(|| {
                shards.push(Arc::clone(&shard));
                shards.len() - 1
            });
            let mut slots = map.slots.clone();
            if let (Some(slot), Ok(index)) = (slots.get_mut(usize::from(slot)), u16::try_from(index)) {
                *slot = index;
            }
            let spare = map.spare.iter().filter(|(known, _)| known.name() != shard.name()).cloned().collect();
            (shard, Map { shards, spare, slots, problem: map.problem.clone() })
        };
        self.update(&mut learn)
    }

    /// Takes note that a slot is moving to the server at `address`, which may be new and have no slots yet.
    fn learn_importing(&self, address: &Address) -> Arc<Shard> {
        let now = Instant::now();
        let map = self.map.load();
        if let Some(owner) = map.shards.iter().find(|shard| shard.is_at(address)) {
            return Arc::clone(owner);
        }
        // Not at every request: the map is copied.
        let fresh = |(shard, asked): &&(Arc<Shard>, Instant)| {
            let recently = now.saturating_duration_since(*asked) < KEEP_SPARE / 2;
            recently && shard.is_at(address) && shard.reach().is_ok()
        };
        if let Some((shard, _)) = map.spare.iter().find(fresh) {
            return Arc::clone(shard);
        }
        let mut made = None;
        let mut learn = |map: &Map| {
            let known = map.find(address).cloned();
            let shard =
                known.unwrap_or_else(|| Arc::clone(made.get_or_insert_with(|| self.new_shard(address))));
            let others = map.spare.iter().filter(|(known, _)| known.name() != shard.name()).cloned();
            let spare = others.chain([(Arc::clone(&shard), now)]).collect();
            let (shards, slots) = (map.shards.clone(), map.slots.clone());
            (shard, Map { shards, spare, slots, problem: map.problem.clone() })
        };
        self.update(&mut learn)
    }

    /// Replaces the map by what `change` makes of it, and returns the shard that `change` is about.
    fn update(&self, change: &mut dyn FnMut(&Map) -> (Arc<Shard>, Map)) -> Arc<Shard> {
        let mut before = self.map.load();
        loop {
            let (shard, changed) = change(&before);
            let found = self.map.compare_and_swap(&*before, Arc::new(changed));
            if Arc::ptr_eq(&before, &found) {
                return shard;
            }
            before = found;
        }
    }

    /// Reads the map from whoever answers first: masters that are known, then the seeds.
    async fn refresh(&self) {
        let map = self.map.load_full();
        let known = map.shards.iter().filter(|shard| shard.disconnected().is_none());
        let known = known.filter_map(|shard| shard.address());
        let mut problem = Problem::new(Failure::Connection, "no node of the Cluster can be reached");
        for address in known.chain(self.seeds.iter().cloned()).collect::<Vec<_>>() {
            match self.read(&map.shards, &address).await {
                Ok(ranges) => return self.take_over(&ranges),
                Err(why) => problem = why,
            }
        }
        // Those that are known may go on.
        if map.shards.is_empty() {
            self.map.rcu(|map| Map {
                shards: map.shards.clone(),
                spare: map.spare.clone(),
                slots: map.slots.clone(),
                problem: Some(problem.clone()),
            });
        }
    }

    async fn read(&self, shards: &[Arc<Shard>], address: &Address) -> Result<Vec<Range>, Problem> {
        let name = address.to_string();
        let open = shards.iter().find(|shard| shard.name() == name).and_then(|shard| shard.connection().ok());
        let mut connection = match open {
            Some(open) => open,
            None => self.setup.connector.open(address).await?,
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

    fn take_over(&self, ranges: &[Range]) {
        let mut made: HashMap<&Address, Arc<Shard>> = HashMap::new();
        self.map.rcu(|known| self.map_of(ranges, known, &mut made));
    }

    /// Makes a map of what a server told, with the shards that are known or have been made for it.
    fn map_of<'r>(
        &self,
        ranges: &'r [Range],
        known: &Map,
        made: &mut HashMap<&'r Address, Arc<Shard>>,
    ) -> Map {
        let mut positions: HashMap<&Address, u16> = HashMap::new();
        let mut shards: Vec<Arc<Shard>> = Vec::new();
        let mut slots = vec![NOBODY; SLOTS.into()];
        for range in ranges {
            let index = *positions.entry(&range.master).or_insert_with(|| {
                let shard = known.find(&range.master).unwrap_or_else(|| {
                    made.entry(&range.master).or_insert_with(|| self.new_shard(&range.master))
                });
                shards.push(Arc::clone(shard));
                u16::try_from(shards.len() - 1).unwrap_or(NOBODY)
            });
            if let Some(part) = slots.get_mut(usize::from(range.first)..=usize::from(range.last)) {
                part.fill(index);
            }
        }
        let now = Instant::now();
        let has_slots = |shard: &Arc<Shard>| shards.iter().any(|owner| owner.name() == shard.name());
        let lost_all = known.shards.iter().map(|shard| (Arc::clone(shard), now));
        let spare = known.spare.iter().cloned().chain(lost_all);
        let kept = |(shard, asked): &(Arc<Shard>, Instant)| {
            let recently = now.saturating_duration_since(*asked) < KEEP_SPARE;
            recently && shard.reach().is_ok() && !has_slots(shard)
        };
        let spare = spare.filter(kept).collect();
        Map { shards, spare, slots: slots.into(), problem: None }
    }

    /// Whether anything is amiss that reading the map again may cure.
    fn in_doubt(&self) -> bool {
        self.problem().is_some() || self.map.load().shards.iter().any(|shard| shard.disconnected().is_some())
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
            shard.stats().count_error(Failure::NotReady);
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
                let shard = self.learn_owner(waiting.slot, &address);
                self.doubt.notify_one();
                self.send_on(waiting, &shard, false);
            }
            None => waiting.fail(Outcome::Unavailable(Failure::NotAStore)),
        }
    }

    fn ask(&self, waiting: Waiting, address: &str) {
        match self.parse(address) {
            Some(address) => {
                let shard = self.learn_importing(&address);
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

    fn not_master(&self, waiting: Waiting) {
        self.doubt.notify_one();
        self.try_again(waiting);
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
