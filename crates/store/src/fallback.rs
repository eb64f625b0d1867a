//! Counting in this process what a shared store cannot decide.
//!
//! Never from a fresh counter: whatever the store last said about a key is where counting goes on. What others admit
//! meanwhile is not known here, so each of so many nodes has its share of a limit only.
//!
//! When the store is back, what was admitted here, as far as time has not given it back since, is taken there: for a key
//! that is asked about before the answer, for all others at a pace that a store feels little of which has just come back.
//! So nobody who used up a limit without the store finds it unused afterwards.

mod last_seen;
mod ledger;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use smallvec::SmallVec;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Secret, Take, Timestamp};

use crate::{
    Action, Answer, Clock, Deadline, Failure, Group, MemoryStore, Operation, Outcome, Outcomes, Shard, Store,
};
use last_seen::LastSeen;
use ledger::{Ledger, Owed};

/// A store, and this process in its place where a rule says so ([`OnStoreFailure::Local`]).
pub struct Fallback<S> {
    inner: S,
    memory: MemoryStore,
    seen: LastSeen,
    /// How many nodes count by themselves when the store is away.
    nodes: u64,
    clock: Arc<dyn Clock>,
    decided: AtomicU64,
    ledger: Ledger,
    /// How many debts are crossed out there and on their way.
    paying: AtomicUsize,
    settled: AtomicU64,
}

impl<S: Store> Fallback<S> {
    /// Counts at most `max_keys` keys by itself, a share of one in `nodes` of each limit.
    pub fn new(inner: S, nodes: u32, max_keys: usize, clock: Arc<dyn Clock>) -> Self {
        let memory = MemoryStore::new(max_keys, Arc::clone(&clock));
        let (seen, nodes) = (LastSeen::new(), u64::from(nodes.max(1)));
        Self {
            inner,
            memory,
            seen,
            nodes,
            clock,
            decided: AtomicU64::new(0),
            ledger: Ledger::default(),
            paying: AtomicUsize::new(0),
            settled: AtomicU64::new(0),
        }
    }

    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// How many groups were decided here, wholly or in part.
    pub fn decided(&self) -> u64 {
        self.decided.load(Ordering::Relaxed)
    }

    /// How much was admitted here and taken from the store's counters afterwards.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Decides a group of which the store knows nothing, because it was never reached. Its keys are hashed with a secret that
    /// nobody else has, so nothing of it can be settled.
    pub fn decide_alone(&self, group: &[Operation<'_>]) -> Outcomes {
        let mut outcomes = group.iter().map(|_| Outcome::Unavailable(Failure::Connection)).collect();
        self.stand_in(group, &mut outcomes, self.clock.now(), |_| {});
        outcomes
    }

    /// Decides here what the store could not, and returns what it has to take back because of that.
    /// What is admitted is told to `write_down`.
    fn stand_in<'r>(
        &self,
        group: &[Operation<'r>],
        outcomes: &mut Outcomes,
        now: Timestamp,
        write_down: impl FnMut(&Take<'r>),
    ) -> Group<'r> {
        let pairs = || group.iter().zip(outcomes.iter());
        for (op, outcome) in pairs() {
            if let Outcome::Verdict(verdict) = outcome {
                self.seen.learn(op.take.key.fingerprint(), verdict.remaining, now);
            }
        }
        let binds = |op: &Operation<'_>| !op.take.shadow;
        let refused = pairs()
            .any(|(op, outcome)| binds(op) && outcome.verdict().is_some_and(|verdict| !verdict.allowed));
        let turned_away = pairs().any(|(op, outcome)| {
            binds(op) && is_failure(outcome) && op.take.on_store_failure == OnStoreFailure::Deny
        });
        let open: SmallVec<[usize; 4]> =
            pairs().enumerate().filter(|(_, (op, outcome))| is_ours(op, outcome)).map(|(at, _)| at).collect();
        if refused || turned_away || open.is_empty() {
            return Group::new();
        }
        self.decided.fetch_add(1, Ordering::Relaxed);
        let ours: Group<'r> = open.iter().map(|&at| self.share(&group[at])).collect();
        ours.iter().for_each(|op| self.seed(op, now));
        let (mut passes, mut admitted) = (true, SmallVec::<[Take<'r>; 4]>::new());
        for ((&at, op), outcome) in open.iter().zip(&ours).zip(self.memory.apply_at(&ours, now)) {
            let Outcome::Verdict(mut verdict) = outcome else { continue };
            passes &= verdict.allowed || op.take.shadow;
            if verdict.allowed && op.action == Action::Take {
                admitted.push(group[at].take);
            }
            // People are told the limit, not the share of it that this node happens to have.
            verdict.quota = group[at].take.quota;
            outcomes[at] = Outcome::Local(verdict);
        }
        if !passes {
            return taken(group, outcomes);
        }
        admitted.iter().for_each(write_down);
        Group::new()
    }

    /// For how many keys the store does not know yet what was admitted here.
    pub fn unsettled(&self) -> usize {
        self.ledger.len() + self.paying.load(Ordering::Relaxed)
    }

    /// Settles with the store for some keys, at most so many, whether or not anybody asks for them. To be called again and
    /// again while the store is well, at a pace that it does not feel.
    pub async fn settle_some(&self, most: usize, deadline: Deadline) {
        let owed = self.ledger.cross_out_some(most, &self.paying);
        self.pay(owed, deadline).await;
    }

    /// Settles with the store for the keys of these groups.
    async fn settle(&self, groups: &[Group<'_>], deadline: Deadline) {
        let keys = groups.iter().flatten().map(|op| op.take.key.fingerprint());
        let owed = keys.filter_map(|fingerprint| self.ledger.cross_out(fingerprint, &self.paying));
        self.pay(owed.collect(), deadline).await;
    }

    /// Takes from the store's counters what was admitted here without it.
    async fn pay(&self, owed: Vec<Owed>, deadline: Deadline) {
        let payment = Payment { ledger: &self.ledger, paying: &self.paying, owed, is_told: Cell::new(false) };
        let now = self.clock.now();
        let due = |owed| Some((owed, self.due(owed, now)?));
        let debts: Vec<(&Owed, Take<'_>)> = payment.owed.iter().filter_map(due).collect();
        if debts.is_empty() {
            // Time has paid.
            return payment.is_told.set(true);
        }
        let payments: Vec<Group<'_>> = debts.iter().map(|(_, take)| alone(*take)).collect();
        let mut rests: Vec<Group<'_>> = Vec::new();
        let outcomes = self.inner.apply(&payments, deadline).await;
        payment.is_told.set(true);
        let outcomes = outcomes.iter().map(|outcomes| outcomes.first()).chain(std::iter::repeat(None));
        for ((owed, take), outcome) in debts.iter().zip(outcomes) {
            match outcome {
                Some(Outcome::Verdict(verdict)) => {
                    // More than there is cannot be taken, so all there is.
                    let paid = if verdict.allowed { take.cost } else { verdict.remaining };
                    self.settled.fetch_add(paid, Ordering::Relaxed);
                    if !verdict.allowed && paid > 0 {
                        rests.push(alone(Take { cost: paid, ..*take }));
                    }
                }
                // It may have been taken all the same: better twice than not at all.
                _ => self.ledger.put_back(owed),
            }
        }
        if !rests.is_empty() {
            self.inner.apply(&rests, deadline).await;
        }
    }

    /// What is to be taken from the store's counter by now: of what was admitted, as much as still counts here.
    fn due<'o>(&self, owed: &'o Owed, now: Timestamp) -> Option<Take<'o>> {
        let look = self.share(&owed.take(0).into());
        let capacity = look.take.quota.capacity();
        let known = self.memory.apply_at(&[look], now);
        let left = known.first().and_then(Outcome::verdict).map_or(capacity, |verdict| verdict.remaining);
        let cost = owed.admitted.min(capacity.saturating_sub(left));
        (cost > 0).then(|| owed.take(cost))
    }

    /// The operation, on this node's share.
    fn share<'r>(&self, op: &Operation<'r>) -> Operation<'r> {
        let quota = op.take.quota.share_of(self.nodes);
        Operation { take: Take { quota, ..op.take }, action: op.action }
    }

    /// Has the counter be at least as used as the store last said.
    fn seed(&self, op: &Operation<'_>, now: Timestamp) {
        let Some((remaining, at)) = self.seen.not_yet_used(op.take.key.fingerprint()) else { return };
        let capacity = op.take.quota.capacity();
        let used = capacity.saturating_sub(remaining / self.nodes);
        let take = |cost| Take { cost, request_id: None, shadow: false, ..op.take };
        let look = Operation { take: take(0), action: Action::Peek };
        let at = at.min(now);
        let known = self.memory.apply_at(&[look], at);
        let left = known.first().and_then(Outcome::verdict).map_or(capacity, |verdict| verdict.remaining);
        let missing = used.saturating_sub(capacity.saturating_sub(left));
        if missing > 0 {
            self.memory.apply_at(&[take(missing).into()], at);
        }
    }
}

/// Debts on their way. Whoever gives up waiting before it is told what became of them leaves them to others.
struct Payment<'p> {
    ledger: &'p Ledger,
    paying: &'p AtomicUsize,
    owed: Vec<Owed>,
    is_told: Cell<bool>,
}

impl Drop for Payment<'_> {
    fn drop(&mut self) {
        if !self.is_told.get() {
            self.owed.iter().for_each(|owed| self.ledger.put_back(owed));
        }
        self.paying.fetch_sub(self.owed.len(), Ordering::Relaxed);
    }
}

/// A group of one.
fn alone(take: Take<'_>) -> Group<'_> {
    Group::from_elem(take.into(), 1)
}

/// Whether it is not known what the store would say.
fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable(_) | Outcome::Unknown(_))
}

fn is_ours(op: &Operation<'_>, outcome: &Outcome) -> bool {
    let counts = matches!(op.action, Action::Peek | Action::Take);
    is_failure(outcome) && counts && op.take.on_store_failure.is_local()
}

/// What the store has counted for a request that is refused after all, to be given back.
fn taken<'r>(group: &[Operation<'r>], outcomes: &Outcomes) -> Group<'r> {
    let counted = |(op, outcome): (&Operation<'r>, &Outcome)| match outcome {
        Outcome::Verdict(verdict) if verdict.allowed && op.action == Action::Take => {
            Some(Operation { action: Action::Return { since: Timestamp::LATEST }, ..*op })
        }
        _ => None,
    };
    group.iter().zip(outcomes).filter_map(counted).collect()
}

impl<S: Store> Store for Fallback<S> {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        Box::pin(async move {
            if self.ledger.len() > 0 {
                // Apart, so that the usual case need not carry what it does not use.
                Box::pin(self.settle(groups, deadline)).await;
            }
            let mut answers = self.inner.apply(groups, deadline).await;
            let now = self.clock.now();
            let mut returns: Vec<Group<'r>> = Vec::new();
            for (group, outcomes) in groups.iter().zip(&mut answers) {
                // Whatever is missing is not known.
                outcomes.resize(group.len(), Outcome::Unknown(Failure::Other));
                let back = self.stand_in(group, outcomes, now, |take| self.ledger.add(take));
                if !back.is_empty() {
                    returns.push(back);
                }
            }
            if !returns.is_empty() {
                self.inner.apply(&returns, deadline).await;
            }
            answers
        })
    }

    fn secret(&self) -> Option<Secret> {
        self.inner.secret()
    }

    fn problem(&self) -> Option<String> {
        self.inner.problem()
    }

    fn shards(&self) -> Vec<Shard> {
        self.inner.shards()
    }
}

impl<S> std::fmt::Debug for Fallback<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
