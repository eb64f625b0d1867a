//! Refusals remembered, so that whoever is over the limit is told so without asking the store again.
//!
//! A refusal says from when on the same take could be allowed. Until then, and for a second at most, takes of at
//! least that cost from the same counter by the same quota get the same answer from memory, and with them their
//! whole group: nothing of it is consumed, and the rest of it is [not asked about](Outcome::Unasked).
//!
//! **What is promised.** As long as a counter comes back by waiting only, nothing is ever refused that the store
//! would have allowed. Three other things bring it back: a [`Settle`](Action::Settle), a
//! [`Return`](Action::Return), and a reshaping by another quota. They are noticed if they pass through here; if they
//! come from another node, or if the store's clock steps or it loses a counter, what is refused may be out of date
//! by up to a second. A request id may name a replay, which is free, so takes with one are always asked about; and
//! refusals met while something is [held](Verdict::held) are not remembered.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use smallvec::smallvec;
use tidegate_core::{Action, Group, Operation, Quota, Retry, Secret, Span, Take, Verdict};

use crate::deadline::Deadline;
use crate::outcome::{Outcome, Outcomes};
use crate::{Answer, Shard, Store};

/// How many refusals are remembered unless told otherwise.
pub const DEFAULT_CAPACITY: usize = 65_536;

/// How long a refusal is remembered at most.
const LONGEST: Duration = Duration::from_secs(1);

/// Refusals that share a lock. Enough that chance seldom fills one set before the others, few enough to search.
const SET: usize = 8;

/// A key in 128 bits; see [`Key::fingerprint`](tidegate_core::Key::fingerprint).
type Fingerprint = [u64; 2];

/// A store that asks another one, unless the answer is known to be no.
pub struct DenyCache<S> {
    inner: S,
    now: Box<dyn Fn() -> Instant + Send + Sync>,
    sets: Box<[RwLock<Set>]>,
    /// Counts what may have made refusals untrue, so that those asked for before can be told from those after.
    age: AtomicU64,
    hits: AtomicU64,
}

impl<S: Store> DenyCache<S> {
    /// Remembers what `inner` refuses.
    pub fn new(inner: S) -> Self {
        Self::with(inner, DEFAULT_CAPACITY, Instant::now)
    }

    /// Remembers up to about `capacity` refusals, and goes by `now`: for tests and simulations.
    pub fn with(inner: S, capacity: usize, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        let sets = std::iter::repeat_with(RwLock::default).take(capacity.div_ceil(SET).max(1));
        Self {
            inner,
            now: Box::new(now),
            sets: sets.collect(),
            age: AtomicU64::new(0),
            hits: AtomicU64::new(0),
        }
    }

    /// The store that is asked.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// How many groups were answered without asking.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Forgets everything, including what is being asked now: for when the rules change.
    pub fn clear(&self) {
        let age = self.next_age();
        self.sets.iter().for_each(|set| set.write().forget(age, |_| true));
    }

    /// The outcomes of a group, if one of its takes is known to be refused.
    fn recall(&self, group: &Group<'_>, now: Instant) -> Option<Outcomes> {
        let mut outcomes: Option<Outcomes> = None;
        for (index, op) in group.iter().enumerate() {
            if let Some(verdict) = self.recall_one(op, now) {
                let outcomes = outcomes.get_or_insert_with(|| smallvec![Outcome::Unasked; group.len()]);
                outcomes[index] = Outcome::Verdict(verdict);
            }
        }
        // What is given back or charged is so even if the rest is refused: the store must hear of it.
        let outcomes = outcomes.filter(|_| group.iter().all(is_up_to_the_group))?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(outcomes)
    }

    fn recall_one(&self, op: &Operation<'_>, now: Instant) -> Option<Verdict> {
        let (take, key) = (&op.take, op.take.key.fingerprint());
        let found = self.set(key).read().refusals.iter().find(|refusal| refusal.key == key).copied()?;
        if found.quota != take.quota {
            // The store is about to reshape the counter.
            self.forget(key);
            return None;
        }
        let covered = may_be_refused(op) && take.request_id.is_none() && found.cost <= take.cost;
        (covered && now < found.until).then(|| found.verdict_on(take.cost, now))
    }

    /// Asks about `groups`, none of which is known to be refused, and remembers which are.
    async fn ask(&self, groups: &[Group<'_>], asked: Instant, deadline: Deadline) -> Vec<Outcomes> {
        let age = self.age.load(Ordering::SeqCst);
        let answers = self.inner.apply(groups, deadline).await;
        self.forget_returned(groups);
        for (group, outcomes) in groups.iter().zip(&answers) {
            for (index, (op, outcome)) in group.iter().zip(outcomes).enumerate() {
                if let Outcome::Verdict(verdict) = outcome
                    && !verdict.allowed
                    && !verdict.held
                    && may_be_refused(op)
                    && !shares_its_counter(group, index)
                {
                    self.remember(&op.take, verdict, asked, age);
                }
            }
        }
        answers
    }

    fn remember(&self, take: &Take<'_>, verdict: &Verdict, asked: Instant, age: u64) {
        let (key, answered) = (take.key.fingerprint(), (self.now)());
        let until = asked + lasting(verdict.retry);
        if answered < until {
            let refusal =
                Refusal { key, quota: take.quota, cost: take.cost, verdict: *verdict, answered, until };
            self.set(key).write().remember(refusal, age);
        }
    }

    /// Forgets the keys that something is given back to.
    fn forget_returned(&self, groups: &[Group<'_>]) {
        let returns = groups.iter().flatten().filter(|op| gives_back(op));
        returns.for_each(|op| self.forget(op.take.key.fingerprint()));
    }

    /// Forgets a key, and what is being asked about it now.
    fn forget(&self, key: Fingerprint) {
        let age = self.next_age();
        self.set(key).write().forget(age, |refusal| refusal.key == key);
    }

    fn next_age(&self) -> u64 {
        self.age.fetch_add(1, Ordering::SeqCst) + 1
    }

    #[allow(clippy::cast_possible_truncation, reason = "less than the length")]
    fn set(&self, key: Fingerprint) -> &RwLock<Set> {
        &self.sets[((u128::from(key[0]) * self.sets.len() as u128) >> 64) as usize]
    }
}

impl<S: Store> Store for DenyCache<S> {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        Box::pin(async move {
            let now = (self.now)();
            // Here, because a later group of the same call may be allowed for it, and when it is done, because what
            // others have asked meanwhile may have been decided before.
            self.forget_returned(groups);
            let mut recalled = groups.iter().map(|group| self.recall(group, now)).enumerate();
            let Some((first, known)) = recalled.find(|(_, known)| known.is_some()) else {
                return self.ask(groups, now, deadline).await;
            };
            let mut answers = vec![None; first];
            answers.push(known);
            answers.extend(recalled.map(|(_, known)| known));
            let unknown = groups.iter().zip(&answers).filter(|(_, known)| known.is_none());
            let unknown: Vec<Group<'r>> = unknown.map(|(group, _)| group.clone()).collect();
            let mut asked = Vec::new();
            if !unknown.is_empty() {
                asked = self.ask(&unknown, now, deadline).await;
            }
            let mut asked = asked.into_iter();
            answers.into_iter().filter_map(|known| known.or_else(|| asked.next())).collect()
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

impl<S: fmt::Debug> fmt::Debug for DenyCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Some of the keys, under one lock.
#[derive(Default)]
struct Set {
    /// At most one per key and [`SET`] in all.
    refusals: Vec<Refusal>,
    /// What was asked for at a lower age may not be true any more.
    since: u64,
}

impl Set {
    fn remember(&mut self, new: Refusal, age: u64) {
        if age < self.since {
            return;
        }
        if let Some(old) = self.refusals.iter_mut().find(|old| old.key == new.key) {
            // The smaller cost covers more; though it may be over sooner, until then it saves asking for both.
            if old.quota != new.quota || old.until <= new.answered || new.cost <= old.cost {
                *old = new;
            }
        } else if self.refusals.len() < SET {
            self.refusals.push(new);
        } else if let Some(ends_first) = self.refusals.iter_mut().min_by_key(|old| old.until) {
            *ends_first = new;
        }
    }

    fn forget(&mut self, age: u64, forgotten: impl Fn(&Refusal) -> bool) {
        self.since = self.since.max(age);
        self.refusals.retain(|refusal| !forgotten(refusal));
    }
}

/// What the store said.
#[derive(Clone, Copy)]
struct Refusal {
    key: Fingerprint,
    /// The quota it was asked by.
    quota: Quota,
    cost: u64,
    verdict: Verdict,
    answered: Instant,
    /// When it may not be true any more.
    until: Instant,
}

impl Refusal {
    /// The verdict on a take of `cost`, which is not less than what was refused.
    ///
    /// Counted from when it was answered and rounded up, so that whoever waits as long as told waits long enough.
    fn verdict_on(&self, cost: u64, now: Instant) -> Verdict {
        let passed = now.saturating_duration_since(self.answered).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let left = |span: Span| Span::from_millis(span.as_millis().saturating_sub(passed));
        let retry = match self.verdict.retry {
            Retry::After(span) if cost <= self.verdict.quota.capacity() => Retry::After(left(span)),
            _ => Retry::Never,
        };
        Verdict { retry, reset_after: left(self.verdict.reset_after), ..self.verdict }
    }
}

/// How long after it was asked for a refusal is certainly true, as far as it is worth remembering.
fn lasting(retry: Retry) -> Duration {
    match retry {
        Retry::Now => Duration::ZERO,
        // Stores count whole milliseconds, and the first may have been all but over when the store was asked.
        Retry::After(span) => Duration::from_millis(span.as_millis().saturating_sub(1)).min(LONGEST),
        Retry::Never => LONGEST,
    }
}

/// Whether a refusal of `op` would stand for others like it. A shadow's would, but nobody looks for it.
fn may_be_refused(op: &Operation<'_>) -> bool {
    matches!(op.action, Action::Take | Action::Hold { .. }) && op.take.cost > 0 && !op.take.shadow
}

/// Whether nothing becomes of `op` if its group is refused.
fn is_up_to_the_group(op: &Operation<'_>) -> bool {
    matches!(op.action, Action::Peek | Action::Take | Action::Hold { .. })
}

fn gives_back(op: &Operation<'_>) -> bool {
    matches!(op.action, Action::Settle { .. } | Action::Return { .. })
}

/// Whether an operation was decided as if those before it in its group had gone ahead: then its own cost alone may
/// well fit.
fn shares_its_counter(group: &Group<'_>, index: usize) -> bool {
    let key = group[index].take.key.fingerprint();
    group[..index].iter().any(|op| op.take.key.fingerprint() == key)
}

#[cfg(test)]
mod tests {
    use tidegate_core::Algorithm;

    use super::*;

    #[test]
    fn a_full_set_gives_up_what_ends_first() {
        let now = Instant::now();
        let quota = Quota::new(Algorithm::FixedWindow, 1, Span::from_secs(60)).unwrap();
        let refusal = |key, ms| Refusal {
            key: [0, key],
            quota,
            cost: 1,
            verdict: Verdict::blocked(quota),
            answered: now,
            until: now + Duration::from_millis(ms),
        };
        let mut set = Set::default();
        for key in 0..100 {
            // 500, 501, … 599, but for one that is soon over.
            set.remember(refusal(key, if key == 5 { 1 } else { 500 + key }), 0);
        }
        let mut kept: Vec<u64> = set.refusals.iter().map(|refusal| refusal.key[1]).collect();
        kept.sort_unstable();
        assert_eq!(kept, (92..100).collect::<Vec<u64>>());
    }
}
