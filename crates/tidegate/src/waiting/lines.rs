//! Who waits for what, in order.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::goal::{Counter, Goal};
use super::shares::{RuleKey, Share, Shares, TurnedAway};

/// How many requests wait at most unless told otherwise.
pub(crate) const DEFAULT_MAX_WAITING: usize = 10_000;

/// How many wait at most for one counter, so that no client has all places.
pub(super) const MAX_IN_LINE: usize = 1_000;

/// Lines that share a lock are few.
const SHARDS: usize = 16;

/// Requests that wait for their turn, and what became of those that did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many wait now.
    pub now: usize,
    /// How many waited and were then allowed.
    pub allowed: u64,
    /// How many waited and were then refused.
    pub refused: u64,
    /// How many went away while they waited.
    pub gone: u64,
}

/// All lines: one per counter that somebody waits for, and none for the others.
pub(crate) struct Lines {
    shards: [Mutex<HashMap<Counter, Line>>; SHARDS],
    most: usize,
    shares: Shares,
    waiting: AtomicUsize,
    pub(super) allowed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) gone: AtomicU64,
    rules_changed: Notify,
}

/// Those who wait for one counter.
#[derive(Default)]
struct Line {
    /// In the order in which they came, and so by id.
    queue: VecDeque<Waiter>,
    next_id: u64,
}

struct Waiter {
    id: u64,
    cost: u64,
    /// Told when it is the head.
    called: Arc<Notify>,
}

impl Lines {
    /// For at most `most` requests.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            shards: Default::default(),
            most,
            shares: Shares::of(most),
            waiting: AtomicUsize::new(0),
            allowed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            rules_changed: Notify::new(),
        }
    }

    /// Whether nobody waits for anything.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    pub(super) fn figures(&self) -> Waiting {
        Waiting {
            now: self.waiting.load(Ordering::Relaxed),
            allowed: self.allowed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            gone: self.gone.load(Ordering::Relaxed),
        }
    }

    pub(super) fn turned_away(&self) -> TurnedAway {
        self.shares.turned_away()
    }

    /// Has the heads of all lines ask again: what they were told may not be true by other rules.
    pub(crate) fn ask_again(&self) {
        self.rules_changed.notify_waiters();
    }

    /// Ready as soon as the rules change after this call.
    pub(super) fn rules_changed(&self) -> Notified<'_> {
        self.rules_changed.notified()
    }

    /// Whether anybody waits for `counter`.
    pub(super) fn has(&self, counter: Counter) -> bool {
        self.shard(counter).lock().contains_key(&counter)
    }

    /// What all who wait for `counter` want of it.
    pub(super) fn wanted(&self, counter: Counter) -> u128 {
        let shard = self.shard(counter).lock();
        shard.get(&counter).map_or(0, |line| line.queue.iter().map(|waiter| u128::from(waiter.cost)).sum())
    }

    /// A place at the end of the line; `None` if too many wait already, in all or of this rule, counter or address.
    pub(super) fn join(&self, goal: &Goal) -> Option<Place<'_>> {
        self.try_join(goal).inspect_err(|share| self.shares.turn_away(*share)).ok()
    }

    fn try_join(&self, goal: &Goal) -> Result<Place<'_>, Share> {
        let held = self.take_places(goal)?;
        let mut shard = self.shard(goal.counter).lock();
        let line = shard.entry(goal.counter).or_default();
        if line.queue.len() >= MAX_IN_LINE {
            return Err(Share::Line);
        }
        let (id, called) = (line.next_id, Arc::new(Notify::new()));
        line.next_id += 1;
        line.queue.push_back(Waiter { id, cost: goal.cost, called: Arc::clone(&called) });
        Ok(Place { lines: self, counter: goal.counter, id, called, _held: held })
    }

    /// Counts one more that waits, of its rule and its address, too.
    fn take_places(&self, goal: &Goal) -> Result<HeldPlaces<'_>, Share> {
        let room = |waiting: usize| (waiting < self.most).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).map_err(|_| Share::All)?;
        let (rule, address) = (goal.rule_key, goal.address);
        match self.shares.take(rule, address) {
            Ok(()) => Ok(HeldPlaces { lines: self, rule, address }),
            Err(share) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Err(share)
            }
        }
    }

    fn leave(&self, counter: Counter, id: u64) {
        let mut shard = self.shard(counter).lock();
        let Some(line) = shard.get_mut(&counter) else { return };
        if let Ok(index) = line.queue.binary_search_by_key(&id, |waiter| waiter.id) {
            line.queue.remove(index);
            if index == 0
                && let Some(next) = line.queue.front()
            {
                next.called.notify_one();
            }
        }
        if line.queue.is_empty() {
            shard.remove(&counter);
        }
    }

    /// Whether there is no line and nobody is counted in one.
    #[cfg(test)]
    pub(super) fn holds_nothing(&self) -> bool {
        self.is_empty()
            && self.shares.holds_nothing()
            && self.shards.iter().all(|shard| shard.lock().is_empty())
    }

    #[allow(clippy::cast_possible_truncation, reason = "less than the number of shards")]
    fn shard(&self, counter: Counter) -> &Mutex<HashMap<Counter, Line>> {
        &self.shards[(counter[0] % SHARDS as u64) as usize]
    }
}

/// A place in a line, left when dropped.
pub(super) struct Place<'l> {
    lines: &'l Lines,
    pub(super) counter: Counter,
    id: u64,
    called: Arc<Notify>,
    _held: HeldPlaces<'l>,
}

/// One of all places, of those of a rule and of those of an address; given back when dropped.
struct HeldPlaces<'l> {
    lines: &'l Lines,
    rule: RuleKey,
    address: Option<IpAddr>,
}

impl Drop for HeldPlaces<'_> {
    fn drop(&mut self) {
        self.lines.shares.give_back(self.rule, self.address);
        self.lines.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Place<'_> {
    pub(super) fn is_head(&self) -> bool {
        let shard = self.lines.shard(self.counter).lock();
        let head = shard.get(&self.counter).and_then(|line| line.queue.front());
        head.is_none_or(|head| head.id == self.id)
    }

    /// What those before it want.
    pub(super) fn ahead(&self) -> u128 {
        let shard = self.lines.shard(self.counter).lock();
        let Some(line) = shard.get(&self.counter) else { return 0 };
        let ahead = line.queue.iter().take_while(|waiter| waiter.id < self.id);
        ahead.map(|waiter| u128::from(waiter.cost)).sum()
    }

    /// Waits until it is the head.
    pub(super) async fn called(&self) {
        while !self.is_head() {
            self.called.notified().await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lines.leave(self.counter, self.id);
    }
}
