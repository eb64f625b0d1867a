//! Counters in memory: the embedded default, exact, and bounded whatever clients send.
//!
//! Keys fall into shards by their tag, so that all rules about one identity meet under one lock. A group locks
//! its shards in ascending order, looks at every take, and only if all may go ahead changes anything.
//!
//! **The ceiling.** There are never more counters than [`MemoryStore::new`] was told (but for the shared ones
//! below, whose number depends on the rules only). When a shard is full, counters at rest make room. When all are live, one
//! that has used little of its quota is evicted, and what it had used is remembered in a few bytes: whoever comes back
//! goes on from there, or from what strangers with the same bytes had used, whichever is more. Where nothing can be evicted,
//! because all counters are held, new keys share one counter per rule, quota and shard. Users may be refused earlier than they
//! should; nobody is ever unlimited. See `docs/adr/0024-eviction-that-remembers.md`.

mod evicted;
mod holds;
mod quotas;
mod replays;
mod shard;
mod sweeper;
mod table;

#[cfg(test)]
mod tests;

pub use replays::{MAX_IDS_PER_KEY, MAX_MEMORY, MAX_REPLAYS};
pub use sweeper::Sweeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tidegate_core::{Action, Algorithm, Group, Operation, Timestamp};

use crate::clock::Clock;
use crate::deadline::Deadline;
use crate::outcome::{Failure, Outcome, Outcomes};
use crate::{Answer, Store};
use shard::{Looked, Shard};

/// A key in 128 bits; see [`Key::fingerprint`](tidegate_core::Key::fingerprint).
type Fingerprint = [u64; 2];

/// How many counters a memory store keeps unless told otherwise.
pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// Few enough that counters shared past the ceiling stay few.
const MAX_SHARDS: usize = 1_024;

/// Large enough that chance does not fill one shard before the others, small enough that cores rarely meet in one and
/// that moving a shard's keys when it grows takes a fraction of a millisecond.
const KEYS_PER_SHARD: usize = 16_384;

/// Slots looked at under one lock while sweeping: some ten microseconds.
const SWEEP_STEP: usize = 512;

/// A shard on a cache line of its own, so that the locks of two never share one.
#[repr(align(128))]
struct Aligned(Mutex<Shard>);

/// The memory store.
pub struct MemoryStore {
    shards: Box<[Aligned]>,
    max_keys: usize,
    clock: Arc<dyn Clock>,
    overflowed: AtomicU64,
}

impl MemoryStore {
    /// A store for up to `max_keys` counters that goes by `clock`.
    pub fn new(max_keys: usize, clock: Arc<dyn Clock>) -> Self {
        let max_keys = max_keys.clamp(1, u32::MAX as usize / 4);
        let shards = max_keys.div_ceil(KEYS_PER_SHARD).next_power_of_two().clamp(1, MAX_SHARDS);
        let shard = || Aligned(Mutex::new(Shard::new(max_keys.div_ceil(shards))));
        Self {
            shards: std::iter::repeat_with(shard).take(shards).collect(),
            max_keys,
            clock,
            overflowed: AtomicU64::new(0),
        }
    }

    /// How many counters there are.
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().keys()).sum()
    }

    /// Returns how many counters have been evicted to make room for others.
    pub fn evicted(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.lock().evictions()).sum()
    }

    /// Returns how many counters there can be.
    pub fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// How many takes had to use a shared counter because there was no room for their own.
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Applies one group at `now`, all or nothing.
    pub fn apply_at(&self, group: &[Operation<'_>], now: Timestamp) -> Outcomes {
        let mut outcomes = Outcomes::new();
        self.apply_each(group, now, |outcome| outcomes.push(outcome));
        outcomes
    }

    /// Applies one group at `now`, all or nothing, and tells `each` the outcomes in order: for callers in a hurry,
    /// to whom carrying them around costs as much as working them out. The group's shards are locked meanwhile.
    pub fn apply_each(&self, group: &[Operation<'_>], now: Timestamp, mut each: impl FnMut(Outcome)) {
        let Some((first, others)) = group.split_first() else { return };
        let number = self.shard_of(first);
        if others.is_empty() && first.action == Action::Take {
            let (verdict, overflowed) = self.shards[number].0.lock().take(&first.take, now);
            if overflowed {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
            }
            return each(Outcome::Verdict(verdict));
        }
        if others.iter().all(|op| self.shard_of(op) == number) {
            self.apply_locked(group, now, &mut *self.shards[number].0.lock(), each);
        } else {
            self.apply_locked(group, now, &mut self.lock(group), each);
        }
    }

    /// Looks at every operation, then does them all or none.
    fn apply_locked(
        &self,
        group: &[Operation<'_>],
        now: Timestamp,
        shards: &mut impl Shards,
        mut each: impl FnMut(Outcome),
    ) {
        // What can only be held is refused instead, and not taken for good.
        let can_be_taken = |op: &Operation<'_>| {
            matches!(op.action, Action::Hold { .. }) && op.take.quota.algorithm() != Algorithm::InFlight
        };
        if group.iter().any(|op| can_be_taken(op) && shards.of(op).is_full_of_holds()) {
            return group.iter().for_each(|_| each(Outcome::Unavailable(Failure::Full)));
        }
        let mut looked = look_at_all(group, now, shards);
        if group.iter().any(is_charge) {
            for (op, look) in group.iter().zip(&looked).filter(|(op, _)| is_charge(op)) {
                shards.of(op).charge(&op.take, look, now);
            }
            // It was admitted before: the others go by what that leaves.
            looked = look_at_all(group, now, shards);
        }
        let mut go_ahead = true;
        for (op, look) in group.iter().zip(&looked) {
            go_ahead &= look.fits || op.take.shadow || !is_refusable(op);
            if look.overflowed {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (index, (op, look)) in group.iter().zip(&looked).enumerate() {
            each(Outcome::Verdict(match op.action {
                Action::Settle { id } => shards.of(op).settle(&op.take, id, now),
                Action::Return { since } => shards.of(op).give_back(&op.take, since, look, now),
                Action::Charge => shards.of(op).tell(&op.take, look, now),
                Action::Take | Action::Hold { .. } if go_ahead && look.fits => {
                    shards.of(op).commit(&op.take, op.action, look, now)
                }
                Action::Take | Action::Hold { .. } | Action::Peek => {
                    shards.of(op).report(&op.take, look, ahead(group, index), now)
                }
            }));
        }
    }

    /// Goes once through all counters and forgets those at rest, a few at a time so that nobody waits.
    pub fn sweep(&self) {
        for shard in &self.shards {
            let now = self.clock.now();
            while !shard.0.lock().sweep(now, SWEEP_STEP) {}
            shard.0.lock().tidy(now);
        }
    }

    /// Locks the shards of a group, in ascending order so that two groups never wait for each other.
    fn lock(&self, group: &[Operation<'_>]) -> Several<'_> {
        let mut numbers: SmallVec<[usize; 4]> = group.iter().map(|op| self.shard_of(op)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let guards = numbers.into_iter().map(|number| (number, self.shards[number].0.lock())).collect();
        Several { store: self, guards }
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of the tag will do")]
    fn shard_of(&self, op: &Operation<'_>) -> usize {
        op.take.key.tag.bits()[1] as usize & (self.shards.len() - 1)
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// The shards of a group, locked.
trait Shards {
    /// The shard of an operation of the group.
    fn of(&mut self, op: &Operation<'_>) -> &mut Shard;
}

/// A group that lives in one shard, as those about one identity do.
impl Shards for Shard {
    fn of(&mut self, _op: &Operation<'_>) -> &mut Shard {
        self
    }
}

/// The shards of a group that lives in several.
struct Several<'s> {
    store: &'s MemoryStore,
    guards: SmallVec<[(usize, MutexGuard<'s, Shard>); 4]>,
}

impl Shards for Several<'_> {
    fn of(&mut self, op: &Operation<'_>) -> &mut Shard {
        let number = self.store.shard_of(op);
        let index = self.guards.iter().position(|(locked, _)| *locked == number).unwrap_or_default();
        &mut self.guards[index].1
    }
}

/// Finds out about every operation whether it may go ahead.
fn look_at_all(group: &[Operation<'_>], now: Timestamp, shards: &mut impl Shards) -> SmallVec<[Looked; 4]> {
    let look = |(index, op): (usize, &Operation<'_>)| shards.of(op).look(op, ahead(group, index), now);
    group.iter().enumerate().map(look).collect()
}

fn is_charge(op: &Operation<'_>) -> bool {
    op.action == Action::Charge
}

/// Whether a group depends on what its counter says to an operation.
fn is_refusable(op: &Operation<'_>) -> bool {
    matches!(op.action, Action::Peek | Action::Take | Action::Hold { .. })
}

/// What the operations before `index` take from the same counter: a group may name one twice.
fn ahead(group: &[Operation<'_>], index: usize) -> u64 {
    let fingerprint = group[index].take.key.fingerprint();
    let takes = |op: &&Operation<'_>| matches!(op.action, Action::Take | Action::Hold { .. });
    let same = group[..index].iter().filter(takes).filter(|op| op.take.key.fingerprint() == fingerprint);
    same.map(|op| op.take.cost).fold(0, u64::saturating_add)
}

impl Store for MemoryStore {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        let outcomes = groups.iter().map(|group| {
            if deadline.at() <= Instant::now() {
                return group.iter().map(|_| Outcome::Unavailable(Failure::Deadline)).collect();
            }
            self.apply_at(group, self.clock.now())
        });
        Box::pin(std::future::ready(outcomes.collect()))
    }
}
