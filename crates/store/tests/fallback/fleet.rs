//! Several nodes in one process that share a store and know each other, by a clock that stands still.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use tidegate_core::{Tag, Take};
use tidegate_store::peers::{Answers, Call, Called, NodeId, Owner, Part, Peers, Standing};
use tidegate_store::{
    Answer, Clock, Deadline, Failure, Fallback, FallbackSettings, Group, ManualClock, MemoryStore, Outcome,
    Outcomes, Store,
};

use crate::support::{START, settings};

/// The store, as one node reaches it.
pub(crate) struct Reached {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    away: AtomicBool,
    /// Whether it carries out what it is asked, but its answers are lost.
    mute: AtomicBool,
}

impl Store for Reached {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], _: Deadline) -> Answer<'a> {
        let answer = |group: &Group<'r>| -> Outcomes {
            if self.away.load(Ordering::Relaxed) {
                return group.iter().map(|_| Outcome::Unavailable(Failure::Connection)).collect();
            }
            let outcomes = self.store.apply_at(group, self.clock.now());
            if self.mute.load(Ordering::Relaxed) {
                return group.iter().map(|_| Outcome::Unknown(Failure::Deadline)).collect();
            }
            outcomes
        };
        Box::pin(std::future::ready(groups.iter().map(answer).collect()))
    }

    fn secret(&self) -> Option<tidegate_core::Secret> {
        Some(tidegate_core::Secret::new([4; 16]))
    }

    fn unwell(&self) -> u64 {
        u64::from(self.away.load(Ordering::Relaxed) || self.mute.load(Ordering::Relaxed))
    }

    fn reach(&self, _: Tag) -> Result<(), Failure> {
        if self.away.load(Ordering::Relaxed) { Err(Failure::LeftAlone) } else { Ok(()) }
    }
}

type Node = Fallback<Reached>;

/// Who can hear whom.
#[derive(Default)]
struct Net {
    nodes: OnceLock<Vec<Weak<Node>>>,
    /// Pairs that cannot hear each other, and know it.
    cut: Mutex<HashSet<(u64, u64)>>,
    /// Nodes that do not answer, but are not known to be lost.
    silent: Mutex<HashSet<u64>>,
    standings: Mutex<Vec<Standing>>,
    version: AtomicU64,
    calls: AtomicU64,
}

impl Net {
    fn hears(&self, a: u64, b: u64) -> bool {
        a == b || !self.cut.lock().unwrap().contains(&(a.min(b), a.max(b)))
    }

    fn size(&self) -> u64 {
        self.standings.lock().unwrap().len() as u64
    }
}

/// The fleet as one node sees it.
struct Seat {
    me: u64,
    net: Arc<Net>,
}

fn score(tag: Tag, node: u64) -> u64 {
    let mut x = tag.bits()[0] ^ node.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^ (x >> 29)
}

impl Peers for Seat {
    fn me(&self) -> NodeId {
        NodeId(self.me)
    }

    fn owner(&self, tag: Tag) -> Owner {
        let size = self.net.size();
        let live: Vec<u64> = (1..=size).filter(|&node| self.net.hears(self.me, node)).collect();
        let best = |nodes: &[u64]| nodes.iter().copied().max_by_key(|&node| score(tag, node)).unwrap();
        let (first, owner) = (best(&(1..=size).collect::<Vec<_>>()), best(&live));
        let part = Part { of_us: u32::try_from(live.len()).unwrap(), of_all: u32::try_from(size).unwrap() };
        Owner {
            node: (owner != self.me).then_some(NodeId(owner)),
            part: if first == owner { Part::WHOLE } else { part },
        }
    }

    fn version(&self) -> u64 {
        self.net.version.load(Ordering::Relaxed)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.net.size()).unwrap()
    }

    fn others(&self) -> Vec<(NodeId, Standing)> {
        let standings = self.net.standings.lock().unwrap();
        let others =
            standings.iter().zip(1..).filter(|(_, node)| *node != self.me && self.net.hears(self.me, *node));
        others.map(|(standing, node)| (NodeId(node), *standing)).collect()
    }

    fn call(&self, node: NodeId, call: Call, deadline: Deadline) -> Called<'static> {
        self.net.calls.fetch_add(1, Ordering::Relaxed);
        let heard = self.net.hears(self.me, node.0) && !self.net.silent.lock().unwrap().contains(&node.0);
        let place = usize::try_from(node.0).unwrap() - 1;
        let callee = self.net.nodes.get().and_then(|nodes| nodes[place].upgrade());
        // Nothing is cancelled by who stops waiting.
        let answer = tokio::spawn(async move {
            match callee {
                Some(callee) if heard => Ok(callee.answer(&call, deadline).await),
                _ => Err(Failure::Deadline),
            }
        });
        Box::pin(async move { answer.await.unwrap() })
    }

    fn announce(&self, standing: Standing) {
        let known = &mut self.net.standings.lock().unwrap()[usize::try_from(self.me).unwrap() - 1];
        if std::mem::replace(known, standing).has_store != standing.has_store {
            self.net.version.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Nodes, numbered from 0.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<ManualClock>,
    net: Arc<Net>,
}

impl Fleet {
    pub(crate) fn new(count: usize) -> Self {
        Self::with(count, |settings| settings)
    }

    pub(crate) fn with(count: usize, change: impl Fn(FallbackSettings) -> FallbackSettings) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = Arc::new(MemoryStore::new(10_000, clock.clone()));
        let net = Arc::new(Net::default());
        let well = Standing { has_store: true, owes: 0 };
        *net.standings.lock().unwrap() = vec![well; count];
        let nodes: Vec<Arc<Node>> = (1..=count as u64)
            .map(|me| {
                let (store, clock) = (Arc::clone(&store), Arc::clone(&clock));
                let reached = Reached {
                    store,
                    clock: clock.clone(),
                    away: AtomicBool::new(false),
                    mute: AtomicBool::new(false),
                };
                let seat = Seat { me, net: Arc::clone(&net) };
                let settings = FallbackSettings { peers: Some(Arc::new(seat)), epoch: me, ..settings(1) };
                Arc::new(Fallback::new(reached, change(settings), clock))
            })
            .collect();
        assert!(net.nodes.set(nodes.iter().map(Arc::downgrade).collect()).is_ok());
        Self { nodes, store, clock, net }
    }

    /// Takes the store away from a node, or gives it back.
    pub(crate) fn set_away(&self, node: usize, away: bool) {
        self.nodes[node].inner().away.store(away, Ordering::Relaxed);
    }

    /// The store goes on for a node, but its answers are lost; or they are not any more.
    pub(crate) fn set_mute(&self, node: usize, mute: bool) {
        self.nodes[node].inner().mute.store(mute, Ordering::Relaxed);
    }

    /// Takes the store away from all nodes, or gives it back to all.
    pub(crate) async fn set_all_away(&self, away: bool) {
        (0..self.nodes.len()).for_each(|node| self.set_away(node, away));
        self.tend().await;
    }

    /// A node does not answer any more, or does again.
    pub(crate) fn set_silent(&self, node: usize, silent: bool) {
        let mut nodes = self.net.silent.lock().unwrap();
        if silent {
            nodes.insert(node as u64 + 1)
        } else {
            nodes.remove(&(node as u64 + 1))
        };
    }

    /// Parts the nodes: those in `some` do not hear the others any more, and have noticed.
    pub(crate) fn cut(&self, some: &[usize]) {
        let mut cut = self.net.cut.lock().unwrap();
        for a in 0..self.nodes.len() {
            for b in a + 1..self.nodes.len() {
                if some.contains(&a) != some.contains(&b) {
                    cut.insert((a as u64 + 1, b as u64 + 1));
                }
            }
        }
        self.net.version.fetch_add(1, Ordering::Relaxed);
    }

    /// All hear each other again.
    pub(crate) fn heal(&self) {
        self.net.cut.lock().unwrap().clear();
        self.net.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Has every node look after itself.
    pub(crate) async fn tend(&self) {
        for node in &self.nodes {
            node.tend().await;
        }
    }

    /// Lets time pass in which nodes look after themselves, until all have settled or this long has passed.
    pub(crate) async fn settle(&self) {
        for _ in 0..600 {
            self.clock.advance(tidegate_core::Span::from_millis(100));
            self.tend().await;
            if self.nodes.iter().all(|node| node.unsettled() == 0) {
                // Once more, so that all know.
                return self.tend().await;
            }
        }
        panic!("not settled: {:?}", self.nodes.iter().map(|node| node.unsettled()).collect::<Vec<_>>());
    }

    pub(crate) async fn apply(&self, node: usize, takes: &[Take<'_>]) -> Outcomes {
        let groups: [Group<'_>; 1] = [takes.iter().map(|&take| take.into()).collect()];
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(10));
        self.nodes[node].apply(&groups, deadline).await.remove(0)
    }

    /// Whether a request is admitted at a node.
    pub(crate) async fn admits(&self, node: usize, takes: &[Take<'_>]) -> bool {
        let outcomes = self.apply(node, takes).await;
        let said = |allowed| {
            outcomes
                .iter()
                .filter(move |outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed == allowed))
        };
        let admitted = said(true).count() == outcomes.len();
        assert!(admitted || said(false).count() > 0, "not decided: {outcomes:?}");
        admitted
    }

    /// How many of so many requests are admitted, each at another node than the one before.
    pub(crate) async fn admitted(&self, count: usize, take: Take<'_>) -> u64 {
        let mut admitted = 0;
        for number in 0..count {
            admitted += u64::from(self.admits(number % self.nodes.len(), &[take]).await);
        }
        admitted
    }

    /// The node that counts a key when all hear each other.
    pub(crate) fn owner(&self, take: &Take<'_>) -> usize {
        let peers = self.nodes[0].peers().unwrap();
        peers.owner(take.key.tag).node.map_or(0, |node| usize::try_from(node.0).unwrap() - 1)
    }

    /// What the store has counted.
    pub(crate) fn counted(&self, take: &Take<'_>) -> u64 {
        let look = Take { cost: 0, ..*take };
        self.store.apply_at(&[look.into()], self.clock.now())[0].verdict().unwrap().used()
    }

    /// How often nodes have asked each other.
    pub(crate) fn calls(&self) -> u64 {
        self.net.calls.load(Ordering::Relaxed)
    }
}
