//! A part of the memory store behind one lock.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use tidegate_core::algorithm::{Counter, FixedWindow, InFlight, SlidingLog, SlidingWindow, TokenBucket};
use tidegate_core::{Action, Algorithm, HoldId, Operation, Quota, Retry, Span, Take, Timestamp, Verdict};

use super::Fingerprint;
use super::evicted::Evicted;
use super::holds::{Hold, Holds};
use super::quotas::Quotas;
use super::replays::Replays;
use super::table::{Slot, Table};

/// Slots of each table looked at for one to reuse when the shard is full.
const SEARCH: usize = 16;

/// Counters of each table among which one is chosen to make room, if none is at rest.
const CHOICE: usize = 16;

/// When to come back after a refusal for what others may have used.
const UNDECIDED_RETRY: Span = Span::from_secs(1);

/// The hold of a take that nobody will settle, of a quota that waiting does not give back.
const UNSETTLED: HoldId = HoldId([u64::MAX; 2]);

/// Log entries a shard keeps per key of its ceiling before it starts to join them.
const LOG_ENTRIES_PER_KEY: usize = 8;

/// The counters whose tags fall into one part of the hash space, with all that belongs to them.
#[derive(Debug)]
pub(super) struct Shard {
    buckets: Table<TokenBucket>,
    fixed: Table<FixedWindow>,
    sliding: Table<SlidingWindow>,
    logs: Table<SlidingLog>,
    in_flight: Table<InFlight>,
    books: Books,
}

/// What the counters of all algorithms share.
#[derive(Debug)]
struct Books {
    quotas: Quotas,
    holds: Holds,
    replays: Replays,
    /// What was charged, apart from what was admitted: it is free however often it comes, and no number of requests
    /// keeps it from being remembered.
    charges: Replays,
    /// Usage of counters that had to make room.
    evicted: Evicted,
    /// Number of those counters.
    evictions: u64,
    /// True once there has been a counter that several keys share.
    has_shared: bool,
    keys: usize,
    max_keys: usize,
}

/// What was found out about an operation before anything was changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    /// Whether it may go ahead.
    pub(super) fits: bool,
    /// Whether a counter shared by several keys was asked, because there is no room for one of its own.
    pub(super) overflowed: bool,
    /// The retry of an admitted request, which costs nothing.
    free: bool,
    /// True if it would have to be held, and there is no room to keep track of another hold.
    full: bool,
    /// Where its counter is, if it has one.
    slot: Option<usize>,
    fingerprint: Fingerprint,
}

impl Looked {
    /// Where its counter is now: a later operation of the group may have moved or made it.
    #[inline]
    fn slot_in<C: Counter>(&self, table: &Table<C>) -> Option<usize> {
        self.slot.filter(|&at| table.is_at(at, self.fingerprint)).or_else(|| table.find(self.fingerprint))
    }
}

/// Runs `$body` with `$table` being the table of `$algorithm` and `$books` the rest of the shard.
macro_rules! with_table {
    ($shard:expr, $algorithm:expr, |$table:ident, $books:ident| $body:expr) => {{
        let Shard { buckets, fixed, sliding, logs, in_flight, books: $books } = $shard;
        match $algorithm {
            Algorithm::TokenBucket => {
                let $table = buckets;
                $body
            }
            Algorithm::FixedWindow => {
                let $table = fixed;
                $body
            }
            Algorithm::SlidingWindow => {
                let $table = sliding;
                $body
            }
            Algorithm::SlidingLog => {
                let $table = logs;
                $body
            }
            Algorithm::InFlight => {
                let $table = in_flight;
                $body
            }
        }
    }};
}

impl Shard {
    /// A shard for up to `max_keys` counters.
    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            buckets: Table::default(),
            fixed: Table::default(),
            sliding: Table::default(),
            logs: Table::default(),
            in_flight: Table::default(),
            books: Books {
                quotas: Quotas::default(),
                holds: Holds::new(max_keys),
                replays: Replays::new(max_keys),
                charges: Replays::new(max_keys),
                evicted: Evicted::default(),
                evictions: 0,
                has_shared: false,
                keys: 0,
                max_keys,
            },
        }
    }

    /// Counters here.
    pub(super) fn keys(&self) -> usize {
        self.books.keys
    }

    /// Returns how many counters had to make room for others.
    pub(super) fn evictions(&self) -> u64 {
        self.books.evictions
    }

    #[cfg(test)]
    pub(super) fn quotas(&self) -> usize {
        self.books.quotas.len()
    }

    #[cfg(test)]
    pub(super) fn log_entries(&self) -> usize {
        self.logs.entries()
    }

    /// Whether another hold cannot be kept.
    pub(super) fn is_full_of_holds(&self) -> bool {
        self.books.holds.is_full()
    }

    /// Finds out whether the take of `op` would fit if `ahead` were consumed before it. Changes nothing but the passing of time, and
    /// makes room if it may need a counter of its own.
    pub(super) fn look(&mut self, op: &Operation<'_>, ahead: u64, now: Timestamp) -> Looked {
        let Operation { take, action } = op;
        let consumes = matches!(action, Action::Take | Action::Hold { .. } | Action::Charge);
        if consumes {
            self.make_room(take, now);
        }
        with_table!(self, take.quota.algorithm(), |table, books| {
            books.look(table, take, ahead, consumes, now)
        })
    }

    /// What `take` is told if nothing is done; `ahead` as for [`Self::look`].
    pub(super) fn report(&mut self, take: &Take<'_>, looked: &Looked, ahead: u64, now: Timestamp) -> Verdict {
        with_table!(self, take.quota.algorithm(), |table, books| books
            .report(table, take, looked, ahead, now))
    }

    /// Does what [`Self::look`] has found to fit.
    pub(super) fn commit(
        &mut self,
        take: &Take<'_>,
        action: Action,
        looked: &Looked,
        now: Timestamp,
    ) -> Verdict {
        with_table!(self, take.quota.algorithm(), |table, books| books
            .commit(table, take, action, looked, now))
    }

    /// Looks at `take` and does it if it fits, in one go: what most groups come down to.
    pub(super) fn take(&mut self, take: &Take<'_>, now: Timestamp) -> (Verdict, bool) {
        self.make_room(take, now);
        with_table!(self, take.quota.algorithm(), |table, books| {
            let looked = books.look(table, take, 0, true, now);
            let verdict = if looked.fits {
                books.commit(table, take, Action::Take, &looked, now)
            } else {
                books.report(table, take, &looked, 0, now)
            };
            (verdict, looked.overflowed)
        })
    }

    /// Makes room if `take` needs a counter of its own and the shard is full.
    fn make_room(&mut self, take: &Take<'_>, now: Timestamp) {
        if self.books.is_full() {
            let fingerprint = take.key.fingerprint();
            let known =
                with_table!(self, take.quota.algorithm(), |table, _books| table.find(fingerprint).is_some());
            if !known {
                self.sweep(now, SEARCH);
                while self.books.is_full() && self.evict(now) {}
            }
        }
    }

    /// Has a counter make room that has used little of its quota, and remembers how much. False if none can.
    #[cold]
    fn evict(&mut self, now: Timestamp) -> bool {
        let mut least: Option<(Algorithm, usize, u8)> = None;
        for algorithm in Algorithm::ALL {
            let found = with_table!(self, algorithm, |table, books| {
                table.find_least_used(&books.quotas, now, CHOICE)
            });
            if let Some((at, share)) = found
                && least.is_none_or(|(.., least)| share < least)
            {
                least = Some((algorithm, at, share));
            }
        }
        let Some((algorithm, at, _)) = least else { return false };
        with_table!(self, algorithm, |table, books| books.evict(table, at, now));
        true
    }

    /// Replaces a hold's cost by that of `take`.
    pub(super) fn settle(&mut self, take: &Take<'_>, id: HoldId, now: Timestamp) -> Verdict {
        with_table!(self, take.quota.algorithm(), |table, books| books.settle(table, take, id, now))
    }

    /// Gives the cost of `take`, consumed at `since`, back to the counter that [`Self::look`] has found.
    pub(super) fn give_back(
        &mut self,
        take: &Take<'_>,
        since: Timestamp,
        looked: &Looked,
        now: Timestamp,
    ) -> Verdict {
        with_table!(self, take.quota.algorithm(), |table, books| books
            .give_back(table, take, since, looked, now))
    }

    /// Takes as much of the cost of `take` as fits from the counter that [`Self::look`] has found, once.
    pub(super) fn charge(&mut self, take: &Take<'_>, looked: &Looked, now: Timestamp) {
        with_table!(self, take.quota.algorithm(), |table, books| books.charge(table, take, looked, now));
    }

    /// What is told to `take` if it cannot be refused.
    pub(super) fn tell(&mut self, take: &Take<'_>, looked: &Looked, now: Timestamp) -> Verdict {
        with_table!(self, take.quota.algorithm(), |table, books| books.tell(table, take, looked, now))
    }

    /// Looks at the next `steps` slots of each table and forgets what is at rest; true when all were looked at.
    pub(super) fn sweep(&mut self, now: Timestamp, steps: usize) -> bool {
        let mut done = true;
        for algorithm in Algorithm::ALL {
            with_table!(self, algorithm, |table, books| {
                let (forgotten, end) = table.sweep(&mut books.quotas, now, steps);
                books.keys -= forgotten;
                done &= end;
            });
        }
        done
    }

    /// Ends a round of sweeping: forgets expired ids and holds, gives memory back.
    pub(super) fn tidy(&mut self, now: Timestamp) {
        self.books.replays.sweep(now);
        self.books.charges.sweep(now);
        self.books.evicted.tidy(now);
        let overdue = self.books.holds.overdue(now);
        for algorithm in Algorithm::ALL {
            with_table!(self, algorithm, |table, books| {
                for &fingerprint in &overdue {
                    if let Some(id) = table.find(fingerprint) {
                        table.update(id, |slot| books.release_expired(slot, fingerprint, now));
                    }
                }
                table.shrink();
            });
        }
    }
}

impl Books {
    fn look<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        ahead: u64,
        consumes: bool,
        now: Timestamp,
    ) -> Looked {
        let fingerprint = take.key.fingerprint();
        let mut looked =
            Looked { fits: false, overflowed: false, free: false, full: false, slot: None, fingerprint };
        if take.quota.is_blocked() {
            return looked;
        }
        looked.slot = table.find(fingerprint);
        if consumes && looked.slot.is_none() && self.is_full() {
            looked.overflowed = true;
            looked.fingerprint = shared_fingerprint(take);
            looked.slot = table.find(looked.fingerprint);
        }
        looked.free = take.cost > 0
            && take.request_id.is_some_and(|id| self.replays.is_free(looked.fingerprint, id, take.cost, now));
        let before = self.used_before(table, take, &looked, now);
        let cost = take.cost.saturating_add(ahead).saturating_add(before);
        let fits = match looked.slot {
            Some(id) => table.update(id, |slot| {
                let quota = self.bring_up_to_date(slot, looked.fingerprint, &take.quota, now);
                slot.counter.fits(&quota, cost)
            }),
            None => cost <= take.quota.capacity(),
        };
        looked.full = !C::REFILLS && consumes && take.cost > 0 && self.holds.is_full();
        looked.fits = (fits || looked.free) && !looked.full;
        looked
    }

    fn report<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        looked: &Looked,
        ahead: u64,
        now: Timestamp,
    ) -> Verdict {
        if take.quota.is_blocked() {
            return Verdict::blocked(take.quota);
        }
        let cost = if looked.free { 0 } else { take.cost.saturating_add(ahead) };
        let looked = &Looked { slot: looked.slot_in(table), ..*looked };
        let before = self.used_before(table, take, looked, now);
        let verdict = match looked.slot {
            Some(id) => table.update(id, |slot| {
                let verdict =
                    slot.counter.look(self.quotas.get(slot.quota), cost.saturating_add(before), now);
                Verdict { held: slot.held && matches!(verdict.retry, Retry::After(_)), ..verdict }
            }),
            None => new_counter::<C>(take, before, now).look(&take.quota, cost, now),
        };
        let by_others = (looked.overflowed || before > 0) && cost <= take.quota.capacity();
        let verdict = if by_others { undecided(verdict) } else { verdict };
        if looked.full && verdict.allowed {
            return Verdict { allowed: false, retry: Retry::After(UNDECIDED_RETRY), ..verdict };
        }
        if looked.free { Verdict { allowed: true, retry: Retry::Now, ..verdict } } else { verdict }
    }

    #[inline]
    fn commit<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        action: Action,
        looked: &Looked,
        now: Timestamp,
    ) -> Verdict {
        let fingerprint = looked.fingerprint;
        // An id is remembered, or a replay used up, by what admits the request for good: a hold may yet be released.
        // A retry is in flight beside the request that it repeats.
        let request_id = take.request_id.filter(|_| action == Action::Take && C::REFILLS);
        if looked.free {
            request_id.into_iter().for_each(|id| self.replays.replay(fingerprint, id, take.cost));
            return self.report(table, take, looked, 0, now);
        }
        let slot = looked.slot_in(table).unwrap_or_else(|| self.insert(table, take, looked, now));
        let crowded = table.entries() >= self.max_keys.saturating_mul(LOG_ENTRIES_PER_KEY);
        let verdict = table.update(slot, |slot| {
            let quota = self.quotas.get(slot.quota);
            slot.counter.charge(quota, take.cost);
            if crowded {
                slot.counter.squeeze();
            }
            let hold = match action {
                Action::Hold { id, ttl } => Some((id, ttl)),
                // Waiting gives nothing back: what is not held would be gone for good.
                _ if !C::REFILLS => Some((UNSETTLED, quota.window())),
                _ => None,
            };
            if let Some((id, ttl)) = hold {
                let hold = Hold { id, cost: take.cost, since: slot.counter.at(), until: now + ttl };
                self.holds.add(fingerprint, hold);
                slot.held = true;
            }
            slot.counter.look(quota, 0, now)
        });
        if let Some(id) = request_id {
            self.replays.admit(fingerprint, id, take.cost, &verdict.quota, now);
        }
        verdict
    }

    fn settle<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        id: HoldId,
        now: Timestamp,
    ) -> Verdict {
        let keys = [take.key.fingerprint(), shared_fingerprint(take)];
        let found = keys.into_iter().find_map(|key| {
            let slot = table.find(key).filter(|_| self.holds.any(key))?;
            let quota = table.update(slot, |slot| {
                // A block says nothing about what was held before it.
                let stored = *self.quotas.get(slot.quota);
                let asked = if take.quota.is_blocked() { stored } else { take.quota };
                self.bring_up_to_date(slot, key, &asked, now)
            });
            Some((slot, quota, key, self.holds.remove(key, id)?))
        });
        let Some((slot, quota, key, hold)) = found else { return self.settle_replay(table, take, now) };
        // What waiting does not give back is given back by whatever ends the hold.
        let cost = if C::REFILLS { take.cost } else { 0 };
        let verdict = table.update(slot, |slot| {
            let room = slot.counter.room(&quota);
            if cost < hold.cost {
                slot.counter.credit(&quota, hold.cost - cost, hold.since);
            } else if cost > hold.cost && room > 0 {
                slot.counter.charge(&quota, (cost - hold.cost).min(room));
            }
            slot.held = self.holds.any(key);
            Verdict { allowed: true, retry: Retry::Now, ..slot.counter.look(&quota, 0, now) }
        });
        if let Some(id) = take.request_id.filter(|_| cost > 0) {
            self.replays.admit(key, id, take.cost, &quota, now);
        }
        verdict
    }

    /// What to say about a hold that is not there: it is gone, or the retry of an admitted request held nothing.
    fn settle_replay<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        now: Timestamp,
    ) -> Verdict {
        let fingerprint = take.key.fingerprint();
        match take.request_id {
            Some(id) if take.cost > 0 && self.replays.is_free(fingerprint, id, take.cost, now) => {
                self.replays.replay(fingerprint, id, take.cost);
                let slot = table.find(fingerprint);
                let looked =
                    Looked { fits: true, overflowed: false, free: true, full: false, slot, fingerprint };
                self.report(table, take, &looked, 0, now)
            }
            _ => Verdict { retry: Retry::Never, ..Verdict::blocked(take.quota) },
        }
    }

    fn give_back<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        since: Timestamp,
        looked: &Looked,
        now: Timestamp,
    ) -> Verdict {
        if let Some(id) = looked.slot_in(table).filter(|_| !take.quota.is_blocked()) {
            // What is given back must not be given back again when its hold is over.
            let cost = match C::REFILLS {
                true => take.cost,
                false => self.holds.remove(looked.fingerprint, UNSETTLED).map_or(0, |hold| hold.cost),
            };
            table.update(id, |slot| {
                slot.counter.credit(self.quotas.get(slot.quota), cost, since);
                slot.held = self.holds.any(looked.fingerprint);
            });
        }
        self.tell(table, take, looked, now)
    }

    fn charge<C: Counter>(&mut self, table: &mut Table<C>, take: &Take<'_>, looked: &Looked, now: Timestamp) {
        let (key, id, blocked) = (looked.fingerprint, take.request_id, take.quota.is_blocked());
        let (quota, room) = match looked.slot_in(table) {
            Some(at) => table.update(at, |slot| {
                // A block says nothing about what was counted before it, and leaves no room.
                let stored = *self.quotas.get(slot.quota);
                let asked = if blocked { stored } else { take.quota };
                let quota = self.bring_up_to_date(slot, key, &asked, now);
                (quota, if blocked { 0 } else { slot.counter.room(&quota) })
            }),
            None => {
                let before = self.used_before(table, take, looked, now);
                (take.quota, new_counter::<C>(take, before, now).room(&take.quota))
            }
        };
        if take.cost == 0 || id.is_some_and(|id| self.charges.is_free(key, id, take.cost, now)) {
            return;
        }
        let cost = take.cost.min(room);
        if cost > 0 {
            // That a request of the same name was admitted is another matter.
            let (part, found) = (Take { cost, request_id: None, ..*take }, Looked { free: false, ..*looked });
            self.commit(table, &part, Action::Take, &found, now);
        }
        // Also what did not fit: it must not be taken when there is room again.
        if let Some(id) = id {
            self.charges.admit(key, id, take.cost, &quota, now);
        }
    }

    fn tell<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        looked: &Looked,
        now: Timestamp,
    ) -> Verdict {
        let look = self.report(table, &Take { cost: 0, ..*take }, looked, 0, now);
        Verdict { allowed: true, retry: Retry::Now, ..look }
    }

    /// Adds a counter for a key that has none.
    fn insert<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        looked: &Looked,
        now: Timestamp,
    ) -> usize {
        // What others hold comes back to the counter that they hold it of.
        let own = looked.overflowed || !C::REFILLS;
        let before = if own { 0 } else { self.used_before(table, take, looked, now) };
        let (quota, counter) = (self.quotas.acquire(take.quota), new_counter(take, before, now));
        let at = table.insert(looked.fingerprint, quota, counter);
        table.update(at, |slot| slot.shared = looked.overflowed);
        self.has_shared |= looked.overflowed;
        self.keys += 1;
        at
    }

    /// Returns how much the key of `take` may have used that the counter found does not know of, or a new one would not: before its
    /// own was evicted, or of one that it shared with others.
    #[inline]
    fn used_before<C: Counter>(
        &mut self,
        table: &mut Table<C>,
        take: &Take<'_>,
        looked: &Looked,
        now: Timestamp,
    ) -> u64 {
        if looked.slot.is_some() && !looked.overflowed && C::REFILLS {
            return 0;
        }
        // A counter that something is held of is not evicted.
        let evicted =
            if C::REFILLS { self.evicted.used(take.key.fingerprint(), &take.quota, now) } else { 0 };
        if looked.overflowed || !self.has_shared {
            return evicted;
        }
        let key = shared_fingerprint(take);
        let shared = table.find(key).map_or(0, |at| {
            table.update(at, |slot| {
                if slot.held {
                    self.release_expired(slot, key, now);
                }
                let quota = self.quotas.get(slot.quota);
                slot.counter.advance(quota, now);
                slot.counter.look(quota, 0, now).used()
            })
        });
        evicted.saturating_add(shared)
    }

    /// Has the counter at `at` make room, and remembers what it had used.
    fn evict<C: Counter>(&mut self, table: &mut Table<C>, at: usize, now: Timestamp) {
        let seen = table.update(at, |slot| slot.counter.look(self.quotas.get(slot.quota), 0, now));
        let (fingerprint, quota) = table.evict(at);
        self.evicted.remember(fingerprint, seen.used(), &seen.quota, now + seen.reset_after, self.max_keys);
        self.quotas.release(quota);
        self.keys -= 1;
        self.evictions += 1;
    }

    fn is_full(&self) -> bool {
        self.keys >= self.max_keys
    }

    /// Lets time and changed rules take effect on a counter; answers with the quota in force.
    #[inline]
    fn bring_up_to_date<C: Counter>(
        &mut self,
        slot: &mut Slot<C>,
        key: Fingerprint,
        asked: &Quota,
        now: Timestamp,
    ) -> Quota {
        let stored = self.quotas.get(slot.quota);
        slot.counter.advance(stored, now);
        let quota = if stored == asked { *asked } else { self.reshape(slot, asked, now) };
        if slot.held {
            self.release_expired(slot, key, now);
        }
        quota
    }

    /// Goes over to the quota asked for, unless the stored one is newer.
    #[cold]
    fn reshape<C: Counter>(&mut self, slot: &mut Slot<C>, asked: &Quota, now: Timestamp) -> Quota {
        let stored = *self.quotas.get(slot.quota);
        let quota = Quota::in_force(stored, *asked);
        if !quota.same_figures(&stored) {
            slot.counter.rescale(&stored, &quota);
            slot.counter.advance(&quota, now);
        }
        let id = self.quotas.acquire(quota);
        self.quotas.release(std::mem::replace(&mut slot.quota, id));
        quota
    }

    /// Gives back what was held too long.
    fn release_expired<C: Counter>(&mut self, slot: &mut Slot<C>, key: Fingerprint, now: Timestamp) {
        let quota = *self.quotas.get(slot.quota);
        slot.counter.advance(&quota, now);
        while let Some(hold) = self.holds.expired(key, now) {
            slot.counter.credit(&quota, hold.cost, hold.since);
        }
        slot.held = self.holds.any(key);
    }
}

/// Returns the counter of a key that has none but may have `used` so much before.
fn new_counter<C: Counter>(take: &Take<'_>, used: u64, now: Timestamp) -> C {
    let mut counter = C::default();
    counter.advance(&take.quota, now);
    if used > 0 {
        counter.charge(&take.quota, used.min(take.quota.capacity()));
    }
    counter
}

/// Returns what those are told who are refused because of what others may have used: to come back soon, as nobody can say when
/// there will be room.
fn undecided(verdict: Verdict) -> Verdict {
    let wait = match verdict.retry {
        Retry::Now => return verdict,
        Retry::After(wait) => wait.min(UNDECIDED_RETRY),
        Retry::Never => UNDECIDED_RETRY,
    };
    Verdict { retry: Retry::After(wait), ..verdict }
}

/// The counter that new keys of one rule and quota share in this shard while there is no room for their own.
fn shared_fingerprint(take: &Take<'_>) -> Fingerprint {
    let figures = (take.quota.limit(), take.quota.window(), take.quota.capacity());
    let [first, second] = take.key.rule_fingerprint();
    [first ^ FixedState::with_seed(1).hash_one(figures), second ^ FixedState::with_seed(2).hash_one(figures)]
}
