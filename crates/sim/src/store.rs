//! A part of the store: a book with a clock of its own, that can stop, pause, and forget.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::Timestamp;
use tidegate_failover::{
    Amount, Book, BookReply, Charge, CounterKey, StoreCall, StoreReply, StoreRequest, StoreResult,
};

use crate::scenario::{MS, Micros};

/// Time of the store when the run begins: an arbitrary day, not at the boundary of any window.
pub(crate) const EPOCH_MS: u64 = 1_700_000_001_234;
/// Interval between the states that a store can fall back to, and how many there are.
const SNAPSHOT_EVERY: Micros = 40 * MS;
const SNAPSHOTS: usize = 25;

/// Availability of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreState {
    Up,
    /// Calls are lost.
    Down,
    /// Calls wait.
    Paused,
}

/// One part of the store.
pub(crate) struct SimStore {
    pub(crate) book: Book,
    pub(crate) state: StoreState,
    pub(crate) waiting: Vec<(usize, StoreRequest)>,
    /// The store's clock minus the true time, in milliseconds.
    pub(crate) offset: i64,
    /// The furthest that the clock has been ahead.
    pub(crate) furthest: i64,
    /// Units that were ever debited, by counter and slot: what was given back since is not deducted.
    pub(crate) debited: Debits,
    snapshots: VecDeque<(Micros, Book, Debits)>,
}

/// Units by counter and time slot.
pub(crate) type Debits = BTreeMap<(CounterKey, u64), u64>;

impl SimStore {
    pub(crate) fn new() -> Self {
        Self {
            book: Book::new(100_000),
            state: StoreState::Up,
            waiting: Vec::new(),
            offset: 0,
            furthest: 0,
            debited: Debits::new(),
            snapshots: VecDeque::new(),
        }
    }

    pub(crate) fn time(&self, now: Micros) -> Timestamp {
        let millis = EPOCH_MS + now / MS;
        Timestamp::from_millis(millis.saturating_add_signed(self.offset))
    }

    /// Carries out a call.
    pub(crate) fn apply(&mut self, request: &StoreRequest, now: Micros, keeps_history: bool) -> StoreReply {
        let due = self.snapshots.back().is_none_or(|(at, ..)| now - at > SNAPSHOT_EVERY);
        if keeps_history && due {
            self.snapshots.push_back((now, self.book.clone(), self.debited.clone()));
            if self.snapshots.len() > SNAPSHOTS {
                self.snapshots.pop_front();
            }
        }
        if let StoreCall::Charge(charges) = &request.body {
            charges.iter().for_each(|charge| self.count_charge(charge));
        }
        let time = self.time(now);
        let reply = request.apply(&mut self.book, time);
        if let StoreResult::Taken { key, reply: BookReply::Granted { units, statement, .. } } = &reply.body {
            *self.debited.entry((*key, statement.slot)).or_default() += units;
        }
        reply
    }

    fn count_charge(&mut self, charge: &Charge) {
        let (seq, known) = self.book.charged(charge.key, charge.slot, charge.by);
        if let Amount::Units(total) = charge.amount
            && charge.seq > seq
        {
            let added = u64::try_from(total - known).unwrap_or(0);
            *self.debited.entry((charge.key, charge.slot)).or_default() += added;
        }
    }

    /// Falls back to an earlier state. Returns the book and the debits that are lost.
    pub(crate) fn forget(&mut self, steps: usize) -> Option<(Book, Debits)> {
        let index = self.snapshots.len().checked_sub(1 + steps % SNAPSHOTS)?;
        let (_, book, debited) = self.snapshots.get(index)?.clone();
        self.snapshots.truncate(index + 1);
        let mut lost = std::mem::replace(&mut self.debited, debited);
        lost.iter_mut().for_each(|(slot, units)| *units -= self.debited.get(slot).copied().unwrap_or(0));
        Some((std::mem::replace(&mut self.book, book), lost))
    }
}
