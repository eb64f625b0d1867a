//! Reserves: asking for them with ordinary takes, pooling them at the key's owner, spending them when no book answers.

use tidegate_core::{Algorithm, Quota};

use crate::book::{Draw, Statement};
use crate::call::{Call, Settled, SpendState};
use crate::event::{AdmissionSource, Answer};
use crate::key::{CounterKey, KeyMap};
use crate::ledger::ChargeId;
use crate::machine::Machine;
use crate::message::{Message, PoolDeposit};
use crate::mistake::{self, Mistake};
use crate::pid::Pid;
use crate::timing::Moment;

/// Demand for one key at this node.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// Slot in which a reserve was last asked for.
    asked: Option<u64>,
    last: Moment,
    /// Average time between requests, in microseconds.
    gap: u64,
}

/// Demand for all keys seen of late.
#[derive(Clone, Debug)]
pub(crate) struct Demands {
    keys: KeyMap<Demand>,
    max_keys: usize,
}

impl Demands {
    pub(crate) fn new(max_keys: usize) -> Self {
        Self { keys: KeyMap::default(), max_keys }
    }

    /// Counts a request. Returns the average gap in microseconds if a reserve should be asked for in this slot.
    fn count(&mut self, key: CounterKey, slot: u64, now: Moment) -> Option<u64> {
        if self.keys.len() >= self.max_keys && !self.keys.contains_key(&key) {
            self.keys.clear();
        }
        let demand = self.keys.entry(key).or_insert(Demand { asked: None, last: now, gap: 1_000_000 });
        let gap = u64::try_from(now.saturating_sub(demand.last).as_micros()).unwrap_or(u64::MAX);
        demand.gap = ((demand.gap.saturating_mul(4)).saturating_add(gap) / 5).max(100);
        demand.last = now;
        let ask = demand.asked != Some(slot);
        demand.asked = Some(slot);
        ask.then_some(demand.gap)
    }

    /// Lets the next request ask for a reserve again.
    fn ask_again(&mut self, key: CounterKey) {
        if let Some(demand) = self.keys.get_mut(&key) {
            demand.asked = None;
        }
    }
}

/// Returns true if units of this algorithm can be set aside and spent later in the same slot.
const fn can_be_pooled(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindow)
}

impl Machine {
    /// Returns the units that a take should borrow on top: what the fleet uses in a short while, once per slot.
    pub(crate) fn wanted_reserve(&mut self, key: CounterKey, quota: &Quota) -> u64 {
        if !self.config.reserves || !can_be_pooled(quota.algorithm()) {
            return 0;
        }
        let slot = self.current_slot(key, quota);
        let Some(gap) = self.demands.count(key, slot, self.now) else { return 0 };
        let nodes = u64::try_from(self.alive.len()).unwrap_or(1);
        let reserve = u64::try_from(self.config.timing.reserve.as_micros()).unwrap_or(0);
        let used = reserve.saturating_mul(nodes).div_ceil(gap);
        used.max(1).min(quota.limit() / 4)
    }

    /// Passes spare units of a valid grant on to the pool. Buckets and logs cannot set units aside: they are lost.
    pub(crate) fn keep_spare(&mut self, call: &Call, statement: &Statement, units: u64) {
        let quota = statement.verdict.quota;
        if units == 0 || !can_be_pooled(quota.algorithm()) {
            return;
        }
        if mistake::is(Mistake::ReserveKeptAndRefunded) {
            let id = ChargeId { key: call.draw.key, slot: statement.slot, by: self.me };
            self.ledger.add(id, quota, -i64::try_from(units).unwrap_or(0), self.now);
        }
        self.pool_units(call.draw.key, quota, statement.slot, units);
    }

    fn pool_units(&mut self, key: CounterKey, quota: Quota, slot: u64, units: u64) {
        let name = self.next_seq();
        if let Some(owner) = self.owner_of(key) {
            self.send(owner, Message::Pool(PoolDeposit { key, quota, slot, units, name }));
        }
    }

    /// Takes in units for the pool of a key.
    pub(crate) fn deposited(&mut self, from: Pid, deposit: &PoolDeposit) {
        if self.departure.is_none() {
            self.pool.deposit(from, deposit, self.roster.is_alive(from));
        }
    }

    /// Asks the pool for a request's units, once. Returns true if it was asked.
    pub(crate) fn ask_pool(&mut self, number: u64) -> bool {
        let unasked = |call: &&mut Call| {
            call.spend == SpendState::Unasked && can_be_pooled(call.draw.quota.algorithm())
        };
        let Some(call) = self.calls.get_mut(number).filter(unasked) else { return false };
        call.spend = SpendState::Asked;
        let Draw { key, quota, cost, .. } = call.draw;
        let Some(owner) = self.owner_of(key) else { return false };
        self.send(owner, Message::Spend { call: number, key, quota, cost });
        true
    }

    /// Spends from this node's pool for a member's request.
    pub(crate) fn spend_asked(&mut self, from: Pid, call: u64, (key, quota): (CounterKey, Quota), cost: u64) {
        let slot = self.current_slot(key, &quota);
        let units = if self.departure.is_some() { 0 } else { self.pool.spend(key, slot, cost) };
        self.send(from, Message::Spent { call, key, quota, slot, units });
    }

    /// Takes in the pool's answer; units that come too late go back under a new name.
    pub(crate) fn spent(&mut self, number: u64, (key, quota): (CounterKey, Quota), slot: u64, units: u64) {
        let Some(call) = self.calls.get_mut(number).filter(|call| call.spend == SpendState::Asked) else {
            return;
        };
        call.spend = SpendState::Answered;
        match *call {
            Call { settled: Some(_), .. } if units > 0 => self.pool_units(key, quota, slot, units),
            Call { settled: Some(_), .. } => {}
            _ if units > 0 => {
                let (source, at) = (AdmissionSource::Reserve, self.time(key.part));
                let answer = Answer::Admitted { source, slot, at, verdict: None };
                self.settle_call(number, Settled::ByReserve, answer);
            }
            Call { refused, .. } => {
                self.demands.ask_again(key);
                if let Some(verdict) = refused {
                    self.settle_call(number, Settled::Turned, Answer::Refused(verdict));
                }
            }
        }
    }
}
