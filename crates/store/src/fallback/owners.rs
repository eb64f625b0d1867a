//! Having each key counted by the one node that owns it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tidegate_core::{Action, Group, HoldId, Operation, Tag};

use super::ledger::Bill;
use super::local::come_again;
use super::recovery::{Trip, paid};
use super::suspects::bit;
use super::{By, Fallback};
use crate::coordinator::{Places, apply_group};
use crate::peers::{Asked, Call, NodeId, Owner, Part, Peers, Reply, Standing};
use crate::{Deadline, Outcome, Outcomes, Store};

/// For how long a node that said it cannot use the store is believed to.
const STORELESS_MS: u64 = 1_000;

/// How many nodes are asked for their store at most, one after the other.
const LENDERS: usize = 2;

/// How many may be asked on the way, one after the other: each has its part of the time.
const STEPS: u32 = 4;

/// What came of asking others for their store.
enum Borrowed {
    Decided(Outcomes),
    /// None of those who were asked has it either.
    Nobody,
    /// Somebody may have it who does not answer.
    Unanswered,
}

/// Who has to do with the operations of a group, in the order of the group.
pub(super) type Owners = SmallVec<[Owner; 4]>;

impl<S: Store> Fallback<S> {
    /// Decides operations that the store has not.
    pub(super) async fn ask_owners(
        &self,
        peers: &Arc<dyn Peers>,
        group: &[Operation<'_>],
        careful: bool,
        deadline: Deadline,
        by: By,
    ) -> Outcomes {
        let mut owners: Owners = group.iter().map(|op| peers.owner(op.take.key.tag)).collect();
        if by == By::Node {
            // Whoever asked takes this node for the owner. If it is mistaken, so be it: nobody is sent on.
            owners.iter_mut().for_each(|owner| owner.node = None);
        }
        if owners.iter().all(|owner| owner.node.is_none()) {
            return self.decide_as_owner(peers, group, &owners, careful, deadline).await;
        }
        if self.settings.deny_when_not_owner {
            return group.iter().map(come_again).collect();
        }
        let places = Ladder { fallback: self, peers, group, owners: &owners, careful };
        apply_group(&places, group, deadline).await
    }

    /// Decides operations that this node owns: with the store of another node if one has it, by counting here if none has.
    pub(super) async fn decide_as_owner(
        &self,
        peers: &Arc<dyn Peers>,
        group: &[Operation<'_>],
        owners: &Owners,
        careful: bool,
        deadline: Deadline,
    ) -> Outcomes {
        match self.borrow_store(peers, group, deadline).await {
            Borrowed::Decided(outcomes) => return outcomes,
            // Somebody has it, and goes on counting there.
            Borrowed::Unanswered => return self.bridge(peers, group),
            Borrowed::Nobody => {}
        }
        let era = self.era(Some(peers));
        let complete = self.ask_around(peers, group, era, deadline).await;
        let parts: SmallVec<[_; 4]> = owners.iter().map(|owner| owner.part).collect();
        self.count_here(group, &parts, peers.count(), careful, complete, era)
    }

    /// Decides for want of anything better, since neither the store nor whoever else should decide has answered. If the store
    /// is well as far as is known, this is a moment's hitch, on this machine as likely as elsewhere: whoever has used less than half of
    /// a limit is not refused for it, and the store is told afterwards. All others are to come again.
    fn bridge(&self, peers: &Arc<dyn Peers>, group: &[Operation<'_>]) -> Outcomes {
        let (now, nodes) = (self.clock.now(), peers.count());
        let is_clear = |op: &Operation<'_>| {
            let seen = self.known.recall(op.take.key.fingerprint(), now);
            let takes = matches!(op.action, Action::Take | Action::Peek);
            takes && seen.is_some_and(|seen| seen.used < op.take.quota.capacity().div_ceil(2))
        };
        if !self.has_store_for(group) || !group.iter().all(is_clear) {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
            return group.iter().map(come_again).collect();
        }
        let parts: SmallVec<[Part; 4]> = group.iter().map(|_| Part { of_us: 1, of_all: nodes }).collect();
        self.count_here(group, &parts, nodes, false, false, self.era(Some(peers)))
    }

    /// Whether nothing is known to be wrong with the store as far as a group goes.
    fn has_store_for(&self, group: &[Operation<'_>]) -> bool {
        let unwell = self.inner.unwell();
        group.iter().all(|op| {
            let tag = op.take.key.tag;
            unwell & bit(self.inner.part_of(tag)) == 0 && self.inner.reach(tag).is_ok()
        })
    }

    /// Has another node's store decide, if anybody says to have it; what is owed to it from here is paid first.
    async fn borrow_store(
        &self,
        peers: &Arc<dyn Peers>,
        group: &[Operation<'_>],
        deadline: Deadline,
    ) -> Borrowed {
        let now = self.clock.now().as_millis();
        let storeless = self.storeless.lock().clone();
        let lacks = |node: NodeId| storeless.iter().any(|(known, until)| *known == node && *until > now);
        let others = peers.others();
        let able = others.iter().filter(|(node, standing)| standing.has_store && !lacks(*node));
        let mut able: SmallVec<[NodeId; 8]> = able.map(|(node, _)| *node).collect();
        able.sort_unstable();
        // Not everybody the same one first.
        let first = group.first().map_or(0, |op| op.take.key.tag.bits()[0]) % able.len().max(1) as u64;
        able.rotate_left(usize::try_from(first).unwrap_or_default());
        let mut borrowed = Borrowed::Nobody;
        for node in able.into_iter().take(LENDERS) {
            let owing = group.iter().filter(|op| self.ledger.owes(op.take.key.fingerprint()));
            if owing.clone().any(|_| !self.pace.may_settle()) {
                return Borrowed::Nobody;
            }
            let bill = |op: &Operation<'_>| self.bill(op.take.key.fingerprint(), self.clock.now());
            let bills: SmallVec<[Bill; 1]> = owing.filter_map(bill).collect();
            let trip = Trip::new(&self.ledger, bills.iter().collect());
            if group.iter().any(|op| self.ledger.has_unbilled(op.take.key.fingerprint())) {
                return Borrowed::Nobody;
            }
            let payments: Group<'_> = bills.iter().flat_map(Bill::operations).collect();
            let asked: Vec<Asked> = payments.iter().chain(group).map(|op| Asked::new(op, None)).collect();
            let count = asked.len();
            let call = peers.call(node, Call::Store(asked), self.soon(deadline));
            match trip.follow(call).await {
                Ok(Reply::Outcomes(mut said)) if said.len() == count => {
                    let mut paid_for = said.drain(..payments.len()).map(|outcome| paid(&outcome));
                    bills.iter().for_each(|bill| {
                        let became: SmallVec<[_; 2]> = paid_for.by_ref().take(bill.len()).collect();
                        self.ledger.resolve(bill, became.into_iter());
                    });
                    drop(paid_for);
                    trip.end();
                    if said.iter().all(|outcome| matches!(outcome, Outcome::Verdict(_))) {
                        self.learn(group, &said, None);
                        return Borrowed::Decided(said);
                    }
                    let is_slow = said.iter().any(|outcome| matches!(outcome, Outcome::Unknown(_)));
                    if is_slow && !self.has_store_for(group) {
                        // It has the store, and others count there: only this node is known to be without it.
                        borrowed = Borrowed::Unanswered;
                        continue;
                    }
                    let mut storeless = self.storeless.lock();
                    storeless.retain(|(known, until)| *known != node && *until > now);
                    storeless.push((node, now + STORELESS_MS));
                }
                _ => borrowed = Borrowed::Unanswered,
            }
        }
        borrowed
    }

    /// Asks all others what they know of the keys of a group, unless they were asked. Says whether all have answered.
    async fn ask_around(
        &self,
        peers: &Arc<dyn Peers>,
        group: &[Operation<'_>],
        era: u64,
        deadline: Deadline,
    ) -> bool {
        let unknown = |op: &&Operation<'_>| !self.known.is_complete(op.take.key.fingerprint(), era);
        let asked: Vec<Asked> = group.iter().filter(unknown).map(|op| Asked::new(op, None)).collect();
        if asked.is_empty() {
            return true;
        }
        let soon = self.soon(deadline);
        let others = peers.others();
        let call = Call::Recall { node: peers.me(), asked };
        let calls = others.iter().map(|(node, _)| peers.call(*node, call.clone(), soon));
        let replies = join_all(calls).await;
        let Call::Recall { asked, .. } = call else { return true };
        let (now, mut complete) = (self.clock.now(), true);
        for reply in replies {
            let Ok(Reply::Known(told)) = reply else {
                complete = false;
                continue;
            };
            for (asked, seen) in asked.iter().zip(told) {
                if let Some(seen) = seen {
                    self.known.merge(asked.operation().take.key.fingerprint(), seen, now);
                }
            }
        }
        complete
    }

    /// When others who are asked on the way have to answer: so that there is time left for what comes after.
    fn soon(&self, deadline: Deadline) -> Deadline {
        let now = Instant::now();
        let left = deadline.at().saturating_duration_since(now);
        Deadline::after(now, (left / 2).min(self.settings.patience * 2 / STEPS))
    }
}

/// The owners of a group's keys as places that each decide by themselves.
struct Ladder<'l, S> {
    fallback: &'l Fallback<S>,
    peers: &'l Arc<dyn Peers>,
    group: &'l [Operation<'l>],
    owners: &'l Owners,
    careful: bool,
}

/// Names of holds that are this process's alone, given the rest of the name.
static HOLDS: AtomicU64 = AtomicU64::new(0);

impl<S> Ladder<'_, S> {
    /// The owner of what has a tag: who it was when the group came, whatever has changed meanwhile.
    fn owner(&self, tag: Tag) -> Owner {
        let place = self.group.iter().position(|op| op.take.key.tag == tag).unwrap_or_default();
        self.owners[place]
    }

    fn node(&self, place: u16) -> Option<NodeId> {
        self.owners[usize::from(place)].node
    }
}

impl<'l, S: Store> Places for Ladder<'l, S> {
    type Pending = Pin<Box<dyn Future<Output = Outcomes> + Send + 'l>>;

    fn place_of(&self, op: &Operation<'_>) -> u16 {
        let owner = self.owner(op.take.key.tag);
        let place = self.owners.iter().position(|other| other.node == owner.node).unwrap_or_default();
        u16::try_from(place).unwrap_or_default()
    }

    fn submit(&self, place: u16, ops: &[Operation<'_>], deadline: Deadline) -> Self::Pending {
        let (fallback, peers, careful) = (self.fallback, self.peers, self.careful);
        let now = fallback.clock.now();
        let Some(node) = self.node(place) else {
            // At once, since whoever lets go of a hold does not wait.
            if ops.iter().all(settles)
                && let Some(outcomes) = fallback.settle_here(ops)
            {
                return Box::pin(std::future::ready(outcomes));
            }
            let asked: Vec<Asked> = ops.iter().map(|op| Asked::new(op, None)).collect();
            let owners: Owners = ops.iter().map(|op| self.owner(op.take.key.tag)).collect();
            return Box::pin(async move {
                let group = Asked::group(&asked);
                fallback.decide_as_owner(peers, &group, &owners, careful, deadline).await
            });
        };
        let news = |op: &Operation<'_>| fallback.known.news_to(node, op.take.key.fingerprint(), now);
        let asked: Vec<Asked> = ops.iter().map(|op| Asked::new(op, news(op))).collect();
        let call = peers.call(node, Call::Decide(asked.clone()), deadline);
        Box::pin(async move {
            let group = Asked::group(&asked);
            fallback.forwarded.fetch_add(1, Ordering::Relaxed);
            let parts =
                group.iter().fold(0, |parts, op| parts | bit(fallback.inner.part_of(op.take.key.tag)));
            match call.await {
                Ok(Reply::Outcomes(said)) if said.len() == group.len() => {
                    fallback.learn(&group, &said, Some(node));
                    if said.iter().any(|outcome| matches!(outcome, Outcome::Local(_))) {
                        fallback.suspects.add(node, parts);
                    }
                    said
                }
                // It may have counted, or be counting: nobody else does. Not if both have the store, which it would have asked.
                _ => {
                    let there = |(other, standing): &(NodeId, Standing)| *other == node && standing.has_store;
                    if !fallback.has_store_for(&group) || !peers.others().iter().any(there) {
                        fallback.suspects.add(node, parts);
                    }
                    fallback.bridge(peers, &group)
                }
            }
        })
    }

    fn hold_id(&self) -> HoldId {
        HoldId([self.fallback.epoch, HOLDS.fetch_add(1, Ordering::Relaxed)])
    }
}

/// Whether an operation settles a hold.
pub(super) fn settles(op: &Operation<'_>) -> bool {
    matches!(op.action, Action::Settle { .. })
}
