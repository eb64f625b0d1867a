//! Deciding what a shared store cannot.
//!
//! Never from a fresh counter: whatever the store last said about a key, to anybody who can be asked, is where counting
//! goes on. And never in two places: each key has one owner among the nodes that know each other, who counts it, and whom all
//! others ask. Nodes that do not know each other have their share of each limit.
//!
//! When the store is back, its keys are handed back one by one: what was admitted without it, as far as time has not given it back
//! since, is taken there, and only then is it asked again. So nobody who used up a limit without the store finds it unused
//! afterwards, as long as the node that counted is there to say so.
//!
//! The way down, per key, each step only if the one before it fails:
//! the store → the owner → (the owner's own way: its store → the store of a node that has one → counting there).

mod answers;
mod known;
mod ledger;
mod local;
mod owners;
mod pace;
mod recovery;
mod suspects;
mod trouble;

pub use ledger::Settled;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Group, Operation, Quota, Secret, Tag, Timestamp};
use tracing::Instrument as _;

use crate::peers::{NodeId, Part, Peers};
use crate::spans;
use crate::{Answer, Clock, Deadline, Failure, MemoryStore, Outcome, Outcomes, Shard, Store};
use known::Known;
use ledger::{Bill, Ledger};
use local::{Local, Terms, admitted};
use pace::Pace;
use suspects::Suspects;

/// Nobody waits longer for other nodes, however long for the store.
const LONGEST_PATIENCE: Duration = Duration::from_secs(1);

/// How to do without the store.
pub struct FallbackSettings {
    /// The other nodes, if they are known.
    pub peers: Option<Arc<dyn Peers>>,
    /// How many nodes use the store, if they do not know each other: each has an equal share.
    pub nodes: u32,
    /// How many counters to keep in memory at most.
    pub max_keys: usize,
    /// How long to wait for other nodes, after having waited for the store.
    pub patience: Duration,
    /// Whether to refuse what others own instead of asking them.
    pub deny_when_not_owner: bool,
    /// What each key is allowed in an emergency.
    pub emergency: Quota,
    /// A random number, another one each time a node starts.
    pub epoch: u64,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A caller's: the owner may be asked.
    Caller,
    /// Another node's, which asks this one as the owner: nobody else is asked to decide.
    Node,
}

/// A store, and the nodes that use it in its place where a rule says so ([`OnStoreFailure::is_local`]).
pub struct Fallback<S> {
    inner: S,
    settings: FallbackSettings,
    clock: Arc<dyn Clock>,
    epoch: u64,
    local: Local,
    known: Known,
    ledger: Ledger,
    pace: Pace,
    suspects: Suspects,
    /// Nodes that cannot use the store although they said so, and until when to believe that.
    storeless: Mutex<SmallVec<[(NodeId, u64); 8]>>,
    /// When all other nodes were last asked whether they owe anything.
    greeted: AtomicU64,
    /// What another node says keys are hashed with.
    told_secret: Mutex<Option<Secret>>,
    /// Whether the store has failed since it was last known to be well.
    troubled: AtomicBool,
    /// How often it has.
    troubles: AtomicU64,
    decided: AtomicU64,
    forwarded: AtomicU64,
    unanswered: AtomicU64,
}

impl<S: Store> Fallback<S> {
    /// Stands in for `inner`.
    pub fn new(inner: S, settings: FallbackSettings, clock: Arc<dyn Clock>) -> Self {
        let settings = FallbackSettings { patience: settings.patience.min(LONGEST_PATIENCE), ..settings };
        let memory = MemoryStore::new(settings.max_keys, Arc::clone(&clock));
        Self {
            inner,
            clock,
            epoch: settings.epoch,
            local: Local::new(memory, settings.emergency),
            known: Known::new(settings.max_keys),
            ledger: Ledger::new(settings.epoch),
            pace: Pace::default(),
            suspects: Suspects::default(),
            storeless: Mutex::default(),
            greeted: AtomicU64::new(0),
            told_secret: Mutex::default(),
            troubled: AtomicBool::new(false),
            troubles: AtomicU64::new(0),
            decided: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            settings,
        }
    }

    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The other nodes, if they are known.
    pub fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.settings.peers.as_ref()
    }

    /// How many groups the store did not decide, or not all of.
    pub fn decided(&self) -> u64 {
        self.decided.load(Ordering::Relaxed)
    }

    /// How many were sent to other nodes that own their keys.
    pub fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::Relaxed)
    }

    /// How many of them were not answered in time.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// For how many keys the store does not know yet what was admitted here.
    pub fn unsettled(&self) -> usize {
        self.ledger.len()
    }

    /// What was admitted here without the store, and what became of it.
    pub fn settled(&self) -> Settled {
        self.ledger.totals()
    }

    /// Says whether there is an emergency: neither the store nor any other node has been heard for long.
    pub fn set_emergency(&self, emergency: bool) {
        self.local.set_emergency(emergency);
    }

    /// Forgets what was admitted here: it is not known to the store under the same names.
    pub fn forget_debts(&self) {
        self.ledger.clear();
    }

    /// Decides a group without waiting, if nobody but this node need be asked: the store is away, and all of it is counted here.
    pub fn try_decide(&self, group: &[Operation<'_>]) -> Option<Outcomes> {
        if self.is_troubled() && !group.is_empty() { self.decide_at_once(group, By::Caller) } else { None }
    }

    /// Decides a group of which the store knows nothing, because it was never reached, and nobody else does. Its keys are hashed
    /// with a secret that nobody else has, so nothing of it can be settled.
    pub fn decide_alone(&self, group: &[Operation<'_>]) -> Outcomes {
        let mut outcomes: Outcomes =
            group.iter().map(|_| Outcome::Unavailable(Failure::Connection)).collect();
        let open = self.open(group, &outcomes);
        if !open.is_empty() {
            self.decided.fetch_add(1, Ordering::Relaxed);
            let span = spans::fallback("local");
            let ours: Group<'_> = open.iter().map(|&at| group[at]).collect();
            let terms: SmallVec<[Terms; 4]> =
                ours.iter().map(|_| self.terms(self.own_share(), 1, false, true, 1)).collect();
            let said = self.local.decide(&ours, &terms, &self.known, self.clock.now());
            spans::record(&span, &said);
            open.iter().zip(said).for_each(|(&at, outcome)| outcomes[at] = outcome);
        }
        outcomes
    }

    fn count_decided(&self) {
        self.decided.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether anything is out of the ordinary: the store fails, or has until recently.
    pub fn is_troubled(&self) -> bool {
        self.troubled.load(Ordering::Relaxed) || self.ledger.len() > 0 || self.suspects.any()
    }

    /// Takes note that the store has failed. Each time it begins to, everybody has to be asked anew what they know.
    fn note_trouble(&self) {
        if !self.troubled.swap(true, Ordering::Relaxed) {
            self.troubles.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As long as this is the same, nobody but the owner of a key can know anything new about it.
    fn era(&self, peers: Option<&Arc<dyn Peers>>) -> u64 {
        let version = peers.map_or(0, |peers| peers.version());
        1 + (self.troubles.load(Ordering::Relaxed) << 32 | version & 0xffff_ffff)
    }

    fn own_share(&self) -> Part {
        Part { of_us: 1, of_all: self.settings.nodes.max(1) }
    }

    fn terms(&self, part: Part, nodes: u32, careful: bool, complete: bool, era: u64) -> Terms {
        let outage = 1 + self.troubles.load(Ordering::Relaxed);
        Terms { part, nodes, careful, incomplete: !complete, era, outage, owes: false }
    }

    /// Takes note of what the store says, or a node that counts in its place.
    fn learn(&self, group: &[Operation<'_>], outcomes: &Outcomes, from: Option<NodeId>) {
        let now = self.clock.now();
        for (op, outcome) in group.iter().zip(outcomes) {
            match outcome {
                // That a hold is gone says nothing about its counter.
                Outcome::Verdict(verdict) | Outcome::Local(verdict)
                    if owners::settles(op) && !verdict.allowed => {}
                Outcome::Verdict(verdict) if !verdict.quota.is_blocked() => {
                    self.known.learn(op.take.key.fingerprint(), verdict, None, now);
                }
                Outcome::Local(verdict) if !verdict.held => {
                    self.known.learn(op.take.key.fingerprint(), verdict, from, now);
                }
                _ => {}
            }
        }
    }

    /// Decides groups, wherever that can be done.
    async fn decide<'r>(&self, groups: &[Group<'r>], deadline: Deadline, by: By) -> Vec<Outcomes> {
        if self.is_troubled() {
            if let [group] = groups
                && let Some(outcomes) = self.decide_at_once(group, by)
            {
                return vec![outcomes];
            }
            // Apart, so that the usual case need not carry what it does not use.
            return Box::pin(self.decide_in_trouble(groups, deadline, by)).await;
        }
        let mut answers = self.inner.apply(groups, deadline).await;
        self.pace.asked(groups.len());
        let mut open = false;
        for (group, outcomes) in groups.iter().zip(&mut answers) {
            // Whatever is missing is not known.
            outcomes.resize(group.len(), Outcome::Unknown(Failure::Other));
            self.learn(group, outcomes, None);
            open |= group.iter().zip(&*outcomes).any(|(op, outcome)| is_ours(op, outcome));
        }
        if open {
            self.note_trouble();
            Box::pin(self.stand_in(groups, &mut answers, deadline, by)).await;
        }
        answers
    }

    /// What has to be paid for a key by now.
    fn bill(&self, fingerprint: [u64; 2], now: Timestamp) -> Option<Bill> {
        self.ledger.bill(fingerprint, now, |take| self.local.used(take, now))
    }

    /// Decides what the store has not, and gives back what it has taken for a request that is refused after all.
    async fn stand_in<'r>(&self, groups: &[Group<'r>], answers: &mut [Outcomes], deadline: Deadline, by: By) {
        // After the store's time, those who decide in its place have theirs.
        let deadline = Deadline::after(deadline.at().max(Instant::now()), self.settings.patience);
        let each = groups.iter().zip(answers.iter_mut()).map(|(group, outcomes)| async move {
            let open = self.open(group, outcomes);
            if open.is_empty() {
                return Group::new();
            }
            self.count_decided();
            let careful = open.iter().any(|&at| outcomes[at] == Outcome::Unavailable(Failure::Slow));
            let ours: Group<'r> = open.iter().map(|&at| group[at]).collect();
            let span = spans::fallback(if self.settings.peers.is_some() { "owner" } else { "local" });
            let said = match &self.settings.peers {
                Some(peers) => {
                    let asked = self.ask_owners(peers, &ours, careful, deadline, by);
                    asked.instrument(span.clone()).await
                }
                None => {
                    let parts: SmallVec<[Part; 4]> = ours.iter().map(|_| self.own_share()).collect();
                    self.count_here(&ours, &parts, 1, careful, true, self.era(None))
                }
            };
            spans::record(&span, &said);
            drop(span);
            let refused = |(op, outcome): (&Operation<'_>, &Outcome)| {
                !op.take.shadow && outcome.verdict().is_some_and(|verdict| !verdict.allowed)
            };
            let back =
                if ours.iter().zip(&said).any(refused) { taken(group, outcomes) } else { Group::new() };
            for (&at, outcome) in open.iter().zip(said) {
                outcomes[at] = outcome;
            }
            back
        });
        let returns = join_all(each).await;
        let returns: Vec<Group<'r>> = returns.into_iter().filter(|group| !group.is_empty()).collect();
        if !returns.is_empty() {
            self.inner.apply(&returns, deadline).await;
        }
    }

    /// Counts in this process, and writes down what is admitted.
    fn count_here(
        &self,
        group: &[Operation<'_>],
        parts: &[Part],
        nodes: u32,
        careful: bool,
        complete: bool,
        era: u64,
    ) -> Outcomes {
        // Whether something is owed makes a difference only where counting may begin anew.
        let owes = |op: &Operation<'_>| {
            let fingerprint = op.take.key.fingerprint();
            !self.known.is_complete(fingerprint, era) && self.ledger.owes(fingerprint)
        };
        let terms = group
            .iter()
            .zip(parts)
            .map(|(op, part)| Terms { owes: owes(op), ..self.terms(*part, nodes, careful, complete, era) });
        let terms: SmallVec<[Terms; 4]> = terms.collect();
        let said = self.local.decide(group, &terms, &self.known, self.clock.now());
        self.write_down(group, &said, |at, quota| terms[at].share(quota));
        said
    }

    /// Writes down what was admitted here, and by which share of its quota it was counted.
    fn write_down(&self, group: &[Operation<'_>], said: &Outcomes, share: impl Fn(usize, &Quota) -> Quota) {
        for at in admitted(group, said) {
            let take = &group[at].take;
            self.ledger.add(take, share(at, &take.quota), self.inner.part_of(take.key.tag));
        }
    }

    /// Settles a hold that was made here, without the store; nothing if it is not here. Whether the store is back does not
    /// matter: it is told afterwards.
    pub fn settle_alone(&self, op: &Operation<'_>) -> Option<Outcome> {
        self.settle_here(std::slice::from_ref(op))?.first().copied()
    }

    /// Settles holds that are here, if they are.
    fn settle_here(&self, group: &[Operation<'_>]) -> Option<Outcomes> {
        let mut said = self.local.settle(group, self.clock.now())?;
        // A retry that held nothing has no share to tell.
        let share = |at: usize, quota: &Quota| {
            said[at]
                .verdict()
                .map(|verdict| verdict.quota)
                .filter(|share| !share.is_blocked())
                .unwrap_or(*quota)
        };
        self.write_down(group, &said, share);
        for (outcome, op) in said.iter_mut().zip(group) {
            // People are told the limit, not the share of it.
            if let Outcome::Local(verdict) = outcome {
                verdict.quota = op.take.quota;
            }
        }
        Some(said)
    }

    /// Where in a group there is something to be decided without the store, if that makes any difference.
    fn open(&self, group: &[Operation<'_>], outcomes: &Outcomes) -> SmallVec<[usize; 4]> {
        let pairs = || group.iter().zip(outcomes.iter());
        let binds = |op: &Operation<'_>| !op.take.shadow;
        let refused = pairs()
            .any(|(op, outcome)| binds(op) && outcome.verdict().is_some_and(|verdict| !verdict.allowed));
        let turned_away = pairs().any(|(op, outcome)| {
            binds(op) && is_failure(outcome) && op.take.on_store_failure == OnStoreFailure::Deny
        });
        if refused || turned_away {
            return SmallVec::new();
        }
        pairs().enumerate().filter(|(_, (op, outcome))| is_ours(op, outcome)).map(|(at, _)| at).collect()
    }
}

/// Whether it is not known what the store would say.
fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable(_) | Outcome::Unknown(_))
}

fn is_ours(op: &Operation<'_>, outcome: &Outcome) -> bool {
    let counts =
        matches!(op.action, Action::Peek | Action::Take | Action::Hold { .. } | Action::Settle { .. });
    is_failure(outcome) && counts && op.take.on_store_failure.is_local()
}

/// What the store has counted for a request that is refused after all, to be given back.
fn taken<'r>(group: &[Operation<'r>], outcomes: &Outcomes) -> Group<'r> {
    let counted = |(op, outcome): (&Operation<'r>, &Outcome)| match outcome {
        Outcome::Verdict(verdict) if verdict.allowed && op.action == Action::Take => {
            Some(Operation { action: Action::Return { since: Timestamp::LATEST }, ..*op })
        }
        Outcome::Verdict(verdict) if verdict.allowed => op.let_go(),
        _ => None,
    };
    group.iter().zip(outcomes).filter_map(counted).collect()
}

impl<S: Store> Store for Fallback<S> {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        Box::pin(self.decide(groups, deadline, By::Caller))
    }

    fn secret(&self) -> Option<Secret> {
        self.inner.secret().or_else(|| self.told_secret())
    }

    fn problem(&self) -> Option<String> {
        self.inner.problem()
    }

    fn part_of(&self, tag: Tag) -> u8 {
        self.inner.part_of(tag)
    }

    fn unwell(&self) -> u64 {
        self.inner.unwell()
    }

    fn reach(&self, tag: Tag) -> Result<(), Failure> {
        self.inner.reach(tag)
    }

    fn shards(&self) -> Vec<Shard> {
        self.inner.shards()
    }
}

impl<S> std::fmt::Debug for Fallback<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").field("nodes", &self.settings.nodes).finish_non_exhaustive()
    }
}
