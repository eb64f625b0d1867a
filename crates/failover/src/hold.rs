//! Holds: requests that were admitted with an estimate and settle what they really cost.
//!
//! A hold is an ordinary debit. Settling it is a named entry in the ledger with the difference, so it is repeated until the
//! store knows of it, counts once, and reaches the store in whatever phase. A settlement that is lost leaves the estimate
//! charged; nothing ever expires by itself. Buckets and logs keep the estimate: they take nothing back.

use std::collections::BTreeMap;

use tidegate_core::Quota;

use crate::call::Settled;
use crate::key::CounterKey;
use crate::ledger::{ChargeId, takes_back};
use crate::machine::Machine;
use crate::mistake::{self, Mistake};

/// Debit of a request that has not settled yet.
#[derive(Clone, Copy, Debug)]
struct HeldDebit {
    key: CounterKey,
    quota: Quota,
    slot: u64,
    cost: u64,
}

/// Requests that have not settled yet, by call. Beyond the ceiling the oldest stay charged with their estimate.
#[derive(Clone, Debug)]
pub(crate) struct Holds {
    debits: BTreeMap<u64, HeldDebit>,
    max: usize,
}

impl Holds {
    pub(crate) fn new(max: usize) -> Self {
        Self { debits: BTreeMap::new(), max }
    }

    fn insert(&mut self, call: u64, debit: HeldDebit) {
        self.debits.insert(call, debit);
        if self.debits.len() > self.max {
            self.debits.pop_first();
        }
    }
}

impl Machine {
    /// Remembers what a request was debited if it is to settle later.
    pub(crate) fn remember_hold(&mut self, number: u64, settled: Settled, slot: u64) {
        let debited = matches!(settled, Settled::ByBook | Settled::ByReserve);
        if let Some(call) = self.calls.get(number).filter(|call| call.hold && debited) {
            let crate::book::Draw { key, quota, cost, .. } = call.draw;
            self.holds.insert(number, HeldDebit { key, quota, slot, cost });
        }
    }

    /// Replaces what a request held by what it costs.
    pub(crate) fn settle_hold(&mut self, number: u64, cost: u64) {
        let Some(held) = self.holds.debits.remove(&number) else { return };
        let lost = mistake::is(Mistake::LostSettle) && !self.has_book(held.key.part);
        let signed = |units| i64::try_from(units).unwrap_or(i64::MAX);
        let difference = signed(if lost { 0 } else { cost }) - signed(held.cost);
        if difference != 0 && takes_back(held.quota.algorithm()) && !self.ledger.is_full() {
            let id = ChargeId { key: held.key, slot: held.slot, by: self.me };
            self.ledger.add(id, held.quota, difference, self.now);
        }
    }
}
