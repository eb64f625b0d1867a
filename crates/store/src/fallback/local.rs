//! Counting in this process, from what is known.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Group, Key, Operation, Quota, Retry, Span, Tag, Take, Timestamp, Verdict};

use super::known::{Base, Known, NEVER};
use crate::peers::{Part, Seen};
use crate::{MemoryStore, Outcome, Outcomes};

/// When whoever cannot be decided about is to come again.
const COME_AGAIN: Span = Span::from_secs(1);

/// The name that an allowance for emergencies has instead of a rule's, and that no rule can have.
const EMERGENCY: &str = "";

/// The counters of this process.
pub(super) struct Local {
    memory: MemoryStore,
    /// What a key is allowed in an emergency.
    cap: Quota,
    emergency: AtomicBool,
    /// Held while a counter is brought to where it should begin: twice would be too much, or too little.
    seeding: Mutex<()>,
}

/// How an operation is to be counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// How much of each limit may be handed out here.
    pub(super) part: Part,
    /// How many nodes there are: what nobody knows anything of begins with one share of so many.
    pub(super) nodes: u32,
    /// Whether to be careful: the store is slow, not gone.
    pub(super) careful: bool,
    /// Whether somebody may know more.
    pub(super) incomplete: bool,
    /// In which era what is known was gathered, and in which outage that is.
    pub(super) era: u64,
    pub(super) outage: u64,
    /// Whether the store does not know all that was counted here.
    pub(super) owes: bool,
}

impl Local {
    pub(super) fn new(memory: MemoryStore, cap: Quota) -> Self {
        Self { memory, cap, emergency: AtomicBool::new(false), seeding: Mutex::new(()) }
    }

    /// Whether nothing is known of anybody: then there is a small allowance for each key only.
    pub(super) fn set_emergency(&self, emergency: bool) {
        self.emergency.store(emergency, Ordering::Relaxed);
    }

    /// Decides a group by what is counted here, each operation on its terms.
    pub(super) fn decide(
        &self,
        group: &[Operation<'_>],
        terms: &[Terms],
        known: &Known,
        now: Timestamp,
    ) -> Outcomes {
        let emergency = self.emergency.load(Ordering::Relaxed);
        if emergency && group.iter().any(|op| op.take.on_store_failure == OnStoreFailure::LocalOrDeny) {
            return group.iter().map(come_again).collect();
        }
        let mut ours: Group<'_> = group.iter().zip(terms).map(|(op, terms)| terms.adjust(op)).collect();
        for (op, (asked, terms)) in ours.iter().zip(group.iter().zip(terms)) {
            let fingerprint = op.take.key.fingerprint();
            if counts(op) && !known.is_complete(fingerprint, terms.era) {
                let _one_at_a_time = self.seeding.lock();
                self.seed(op, &asked.take.quota, terms, known, now);
                if !terms.incomplete {
                    known.complete(fingerprint, terms.era);
                }
            }
        }
        if emergency {
            ours.extend(group.iter().filter_map(|op| self.allowance(op)));
        }
        let said = self.memory.apply_at(&ours, now);
        let capped = said[group.len()..].iter().filter_map(Outcome::verdict).find(|verdict| !verdict.allowed);
        let capped = capped.map(|verdict| (verdict.retry, verdict.reset_after));
        let told = said.into_iter().zip(group).map(|(outcome, op)| {
            let Outcome::Verdict(mut verdict) = outcome else { return outcome };
            // People are told the limit, not the share of it that this node happens to have.
            verdict.quota = op.take.quota;
            if let (Some((retry, reset_after)), false) = (capped, op.take.shadow) {
                verdict = Verdict { allowed: false, remaining: 0, retry, reset_after, ..verdict };
            }
            Outcome::Local(verdict)
        });
        told.collect()
    }

    /// Settles holds that are here; nothing if they are not. The verdicts tell by which shares they were held.
    pub(super) fn settle(&self, group: &[Operation<'_>], now: Timestamp) -> Option<Outcomes> {
        let ours: Group<'_> = group.iter().map(shapeless).collect();
        let said = self.memory.apply_at(&ours, now);
        let found = said.iter().all(|outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed));
        found.then(|| said.into_iter().map(local).collect())
    }

    /// What has been counted here of a key, if anything is.
    pub(super) fn seen(&self, op: &Operation<'_>, now: Timestamp) -> Option<Seen> {
        let look = Operation { take: Take { cost: 0, ..op.take }, action: Action::Peek };
        let known = self.memory.apply_at(&[look], now);
        let verdict = known.first().and_then(Outcome::verdict)?;
        let (used, reset_after) = (verdict.used(), verdict.reset_after);
        (used > 0).then_some(Seen { used, age: Span::ZERO, reset_after })
    }

    /// The same of a key that is counted by a share of its quota: of the rest, others may have handed out what they may.
    pub(super) fn seen_by(&self, op: &Operation<'_>, share: Quota, now: Timestamp) -> Option<Seen> {
        let part = Operation { take: Take { quota: share, ..op.take }, action: Action::Peek };
        let seen = self.seen(&part, now)?;
        let left = share.capacity().saturating_sub(seen.used);
        Some(Seen { used: op.take.quota.capacity().saturating_sub(left), ..seen })
    }

    /// How much of a counter is gone, given the quota that it was counted by.
    pub(super) fn used(&self, take: &Take<'_>, at: Timestamp) -> u64 {
        let look = Operation { take: Take { cost: 0, request_id: None, ..*take }, action: Action::Peek };
        let known = self.memory.apply_at(&[look], at);
        known.first().and_then(Outcome::verdict).map_or(0, Verdict::used)
    }

    /// Has the counter be at least as used as anybody knows it to be, or, if nobody does, as if all but one share of it were.
    fn seed(&self, op: &Operation<'_>, whole: &Quota, terms: &Terms, known: &Known, now: Timestamp) {
        let (capacity, fingerprint) = (op.take.quota.capacity(), op.take.key.fingerprint());
        let seen = known.recall(fingerprint, now);
        let take = Take { request_id: None, shadow: false, ..op.take };
        let last = known.base(fingerprint);
        // As long as the store does not know what was counted, counting has not begun anew.
        if last.outage == terms.outage || (terms.owes && last.outage != NEVER) {
            let base = self.correct(take, capacity, last, seen, terms, now);
            return known.set_base(fingerprint, Base { outage: terms.outage, ..base });
        }
        // What was assumed the last time says nothing about this time.
        self.give_back(take, last.assumed, last.at, now);
        let share = (whole.capacity() / u64::from(terms.nodes.max(1))).max(1);
        let (said, at) = match seen {
            Some(seen) => (seen.used, now.as_millis().saturating_sub(seen.age.as_millis())),
            None => (0, now.as_millis()),
        };
        let (mut gone, mut assumed) = (said, 0);
        let (at, used) = (Timestamp::from_millis(at), self.used(&take, now));
        if seen.is_some() || used == 0 {
            if seen.is_none() || terms.incomplete {
                gone = gone.max(whole.capacity().saturating_sub(share));
            }
            let used = self.used(&take, at);
            let missing = |gone: u64| {
                let left = terms.part(whole.capacity().saturating_sub(gone)).min(capacity);
                let left = if gone == 0 { capacity } else { left };
                capacity.saturating_sub(left).saturating_sub(used)
            };
            if self.consume(Take { cost: missing(gone), ..take }, at) {
                assumed = missing(gone).saturating_sub(missing(said));
            }
        }
        known.set_base(fingerprint, Base { outage: terms.outage, gone, assumed, at });
    }

    /// Has the counter go on from where it should have begun, by what is known now: what was counted since comes on top.
    fn correct(
        &self,
        take: Take<'_>,
        capacity: u64,
        base: Base,
        seen: Option<Seen>,
        terms: &Terms,
        now: Timestamp,
    ) -> Base {
        // What nobody knows anything of stays with its share.
        let gone = seen.map_or(base.gone, |seen| seen.used);
        if gone >= base.gone {
            let more = terms.part(gone - base.gone).min(capacity.saturating_sub(self.used(&take, now)));
            self.consume(Take { cost: more, ..take }, now);
            return Base { gone, assumed: if gone > base.gone { 0 } else { base.assumed }, ..base };
        }
        if terms.incomplete {
            return base;
        }
        let cost = base.assumed.min(terms.part(base.gone - gone));
        self.give_back(take, cost, base.at, now);
        Base { gone, assumed: 0, ..base }
    }

    fn give_back(&self, take: Take<'_>, cost: u64, since: Timestamp, now: Timestamp) {
        if cost > 0 {
            let back = Operation { take: Take { cost, ..take }, action: Action::Return { since } };
            self.memory.apply_at(&[back], now);
        }
    }

    /// Takes something from a counter, or as much of it as is not held by others; says whether it was all of it.
    fn consume(&self, take: Take<'_>, at: Timestamp) -> bool {
        let allowed =
            |said: &Outcomes| said.iter().all(|said| said.verdict().is_some_and(|said| said.allowed));
        if take.cost == 0 || allowed(&self.memory.apply_at(&[take.into()], at)) {
            return true;
        }
        self.memory.apply_at(&[Operation { take, action: Action::Charge }], at);
        false
    }

    /// The operation on what its key is allowed in an emergency.
    fn allowance(&self, op: &Operation<'_>) -> Option<Operation<'static>> {
        let counted = Tag::from_bits(op.take.key.fingerprint());
        let key = Key::new(EMERGENCY, self.cap.algorithm(), counted);
        let take = Take { shadow: op.take.shadow, ..Take::new(key, self.cap, op.take.cost) };
        matches!(op.action, Action::Take | Action::Peek | Action::Hold { .. })
            .then_some(Operation { take, action: op.action })
    }
}

impl Terms {
    /// As much of something as may be handed out here.
    fn part(&self, whole: u64) -> u64 {
        let Part { of_us, of_all } = self.part;
        let part = u128::from(whole) * u128::from(of_us) / u128::from(of_all.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// What may be handed out here of a quota.
    pub(super) fn share(&self, quota: &Quota) -> Quota {
        let share = quota.share(self.part.of_us, self.part.of_all);
        if self.careful { share.cautious() } else { share }
    }

    /// The operation, on the share that may be handed out here.
    fn adjust<'r>(&self, op: &Operation<'r>) -> Operation<'r> {
        Operation { take: Take { quota: self.share(&op.take.quota), ..op.take }, action: op.action }
    }
}

/// The operation without an opinion about the shape of its counter, which a block leaves as it is.
fn shapeless<'r>(op: &Operation<'r>) -> Operation<'r> {
    let Take { quota, .. } = op.take;
    let blocked = Quota::new(quota.algorithm(), 0, quota.window()).unwrap_or(quota);
    Operation { take: Take { quota: blocked, ..op.take }, action: op.action }
}

/// Whether an operation begins to count something.
fn counts(op: &Operation<'_>) -> bool {
    matches!(op.action, Action::Peek | Action::Take | Action::Hold { .. })
}

fn local(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Verdict(verdict) => Outcome::Local(verdict),
        other => other,
    }
}

/// The answer to somebody who cannot be decided about now, but soon. Not to be remembered.
pub(super) fn come_again(op: &Operation<'_>) -> Outcome {
    Outcome::Local(Verdict {
        allowed: false,
        remaining: 0,
        reset_after: COME_AGAIN,
        retry: Retry::After(COME_AGAIN),
        held: true,
        quota: op.take.quota,
    })
}

/// Which of a group were admitted, at a cost.
pub(super) fn admitted(group: &[Operation<'_>], outcomes: &Outcomes) -> SmallVec<[usize; 4]> {
    let allowed = |outcome: &Outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed);
    let pairs = || group.iter().zip(outcomes);
    if !pairs().all(|(op, outcome)| op.take.shadow || allowed(outcome)) {
        return SmallVec::new();
    }
    let takes =
        |op: &Operation<'_>| matches!(op.action, Action::Take | Action::Settle { .. }) && op.take.cost > 0;
    pairs().enumerate().filter(|(_, (op, outcome))| takes(op) && allowed(outcome)).map(|(at, _)| at).collect()
}
