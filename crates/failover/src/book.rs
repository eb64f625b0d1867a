//! A book: counters that decide, remember request ids, and accept named charges.
//!
//! This is what the store does in its scripts and what an owner does in memory, so there is one type for both. A book knows
//! nothing of phases; whether it may be used is decided elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::algorithm::{AnyCounter, Balance};
use tidegate_core::{Algorithm, Quota, RequestId, Timestamp, Verdict};

use crate::ids::Ids;
use crate::key::{CounterKey, KeyMap};
use crate::ledger::{Amount, Charge};
use crate::message::Cancellation;
use crate::phase::Epoch;
use crate::pid::Pid;

/// Name of one call, unique for ever: applying it twice is applying it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallName {
    /// The process that calls.
    pub by: Pid,
    /// Its number for the call.
    pub number: u64,
}

/// A take as it goes to a book, wherever that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// The counter.
    pub key: CounterKey,
    /// Quota of the counter by the rules of the node that asks.
    pub quota: Quota,
    /// Units to take.
    pub cost: u64,
    /// Units to lend on top for the pool, if there is plenty.
    pub want: u64,
    /// The request's id, if it has one.
    pub id: Option<RequestId>,
    /// Epoch in which the answer can be used.
    pub epoch: Epoch,
    /// Name of the take.
    pub name: CallName,
}

/// State of a counter after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Time slot that the units were taken in; for a replay, that of the first time.
    pub slot: u64,
    /// The book's time.
    pub at: Timestamp,
    /// Consumption.
    pub balance: Balance,
    /// Verdict on the request, with the quota that was applied.
    pub verdict: Verdict,
}

/// Answer of a book to a [`Draw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BookReply {
    /// Debited.
    Granted {
        /// Units debited by this call: the cost and what was lent; 0 for a replay.
        units: u64,
        /// True if the request's id was debited before under the same epoch.
        replay: bool,
        /// The counter afterwards.
        statement: Statement,
    },
    /// It does not fit.
    Refused {
        /// The counter as it is.
        statement: Statement,
    },
    /// This is not an open book of the key, or it has no room for another key. Nothing was changed.
    NotNow,
}

/// One counter and what belongs to it.
#[derive(Clone, Debug)]
struct Page {
    quota: Quota,
    counter: AnyCounter,
    ids: Ids,
    charges: BTreeMap<(u64, Pid), (u64, i64)>,
}

impl Page {
    fn new(quota: Quota, counter: AnyCounter) -> Self {
        Self { quota, counter, ids: Ids::default(), charges: BTreeMap::new() }
    }

    /// Lets time pass, and goes over to newer rules.
    fn bring_up_to_date(&mut self, asked: Quota, now: Timestamp) {
        self.counter.advance(&self.quota, now);
        let quota = Quota::in_force(self.quota, asked);
        if !quota.same_figures(&self.quota) {
            self.counter.rescale(&self.quota, &quota);
            self.counter.advance(&quota, now);
        }
        self.quota = quota;
    }

    fn statement(&self, cost: u64, now: Timestamp) -> Statement {
        Statement {
            slot: self.counter.slot(&self.quota),
            at: self.counter.at(),
            balance: self.counter.balance(&self.quota),
            verdict: self.counter.look(&self.quota, cost, now),
        }
    }

    /// Units to lend on top of `cost`: all that is wanted while a quarter of the limit stays free, else none.
    fn lend(&self, cost: u64, want: u64) -> u64 {
        let spare = self.quota.limit().div_ceil(4);
        let asked = cost.saturating_add(want).saturating_add(spare);
        if want > 0 && self.counter.fits(&self.quota, asked) { want } else { 0 }
    }

    fn take(&mut self, draw: &Draw, now: Timestamp) -> BookReply {
        self.bring_up_to_date(draw.quota, now);
        if let Some((slot, at)) = draw.id.and_then(|id| self.ids.replay(id, draw.cost, draw.epoch, now)) {
            let statement = Statement { slot, at, ..self.statement(0, now) };
            return BookReply::Granted { units: 0, replay: true, statement };
        }
        if !self.counter.fits(&self.quota, draw.cost) {
            return BookReply::Refused { statement: self.statement(draw.cost, now) };
        }
        let units = draw.cost + self.lend(draw.cost, draw.want);
        self.counter.charge(&self.quota, units);
        let statement = self.statement(0, now);
        if let Some(id) = draw.id {
            self.ids.remember(id, draw, &self.quota, (statement.slot, statement.at));
        }
        BookReply::Granted { units, replay: false, statement }
    }

    fn charge(&mut self, charge: &Charge) {
        match charge.amount {
            Amount::Level(balance) => self.counter.raise(&self.quota, &balance),
            Amount::Units(total) => {
                let known = self.charges.entry((charge.slot, charge.by)).or_default();
                if charge.seq > known.0 || crate::mistake::is(crate::Mistake::UnnamedCharges) {
                    let before = if crate::mistake::is(crate::Mistake::UnnamedCharges) { 0 } else { known.1 };
                    self.counter.adjust(&self.quota, charge.slot, total - before);
                    *known = (charge.seq, total);
                }
            }
        }
    }

    fn forget_expired(&mut self, now: Timestamp) {
        let quota = self.quota;
        self.charges.retain(|(slot, _), _| AnyCounter::slot_expiry(&quota, *slot) > now);
    }
}

/// Counters of many keys, at most as many as it was built for.
#[derive(Clone, Debug)]
pub struct Book {
    pages: KeyMap<Page>,
    max_keys: usize,
}

impl Book {
    /// Empty book for up to `max_keys` counters.
    pub fn new(max_keys: usize) -> Self {
        Self { pages: KeyMap::default(), max_keys }
    }

    /// Takes what a draw asks for if it fits, and lends what it wants if there is plenty.
    pub fn take(&mut self, draw: &Draw, now: Timestamp) -> BookReply {
        self.page(draw.key, draw.quota, now).map_or(BookReply::NotNow, |page| page.take(draw, now))
    }

    /// Takes back what one take debited under a request id, unless it was replayed meanwhile. Returns the slot and the units.
    pub fn cancel(&mut self, cancel: &Cancellation, now: Timestamp) -> Option<(u64, u64)> {
        let page = self.pages.get_mut(&cancel.key)?;
        let (slot, since) = page.ids.cancel(cancel)?;
        page.counter.advance(&page.quota, now);
        let cost = cancel.cost;
        let units = i64::try_from(cost).unwrap_or(i64::MAX);
        match page.quota.algorithm() {
            // A bucket takes nothing back: an owner's level may have covered the same units already.
            Algorithm::TokenBucket => {}
            Algorithm::SlidingLog => page.counter.credit(&page.quota, cost, since),
            _ => {
                page.counter.adjust(&page.quota, slot, -units);
            }
        }
        Some((slot, cost))
    }

    /// Applies a named charge: repeating it, or sending an older one later, changes nothing.
    pub fn charge(&mut self, charge: &Charge, now: Timestamp) {
        if let Some(page) = self.page(charge.key, charge.quota, now) {
            page.bring_up_to_date(charge.quota, now);
            page.forget_expired(now);
            page.charge(charge);
        }
    }

    /// Opens the page of a key with what another book had counted.
    pub fn open(&mut self, key: CounterKey, quota: Quota, balance: Option<Balance>, now: Timestamp) -> bool {
        let counter = match balance {
            Some(balance) => AnyCounter::restore(&quota, &balance, now),
            None => AnyCounter::new(quota.algorithm()),
        };
        let room = self.make_room(key, now);
        if room {
            self.pages.insert(key, Page::new(quota, counter));
        }
        room
    }

    /// Returns true if the key has a page.
    pub fn contains(&self, key: CounterKey) -> bool {
        self.pages.contains_key(&key)
    }

    /// Returns the quota in force of a key.
    pub fn quota(&self, key: CounterKey) -> Option<Quota> {
        self.pages.get(&key).map(|page| page.quota)
    }

    /// Returns the quota in force and the consumption of a key at `now`, changing nothing.
    pub fn balance(&self, key: CounterKey, now: Timestamp) -> Option<(Quota, Balance)> {
        let page = self.pages.get(&key)?;
        let mut counter = page.counter.clone();
        counter.advance(&page.quota, now);
        Some((page.quota, counter.balance(&page.quota)))
    }

    /// Returns the sequence number and running total of the last charge applied under a name.
    pub fn charged(&self, key: CounterKey, slot: u64, by: Pid) -> (u64, i64) {
        let page = self.pages.get(&key);
        page.and_then(|page| page.charges.get(&(slot, by))).copied().unwrap_or_default()
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    fn page(&mut self, key: CounterKey, quota: Quota, now: Timestamp) -> Option<&mut Page> {
        if !self.make_room(key, now) {
            return None;
        }
        Some(self.pages.entry(key).or_insert_with(|| Page::new(quota, AnyCounter::new(quota.algorithm()))))
    }

    /// Returns true if the key has a page or there is room for one, after forgetting counters at rest if need be.
    fn make_room(&mut self, key: CounterKey, now: Timestamp) -> bool {
        if self.pages.len() >= self.max_keys && !self.pages.contains_key(&key) {
            self.pages.retain(|_, page| {
                page.forget_expired(now);
                !(page.counter.is_at_rest(&page.quota, now) && page.charges.is_empty())
            });
        }
        self.pages.len() < self.max_keys || self.pages.contains_key(&key)
    }
}
