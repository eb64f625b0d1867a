//! Requests under way at this node.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Verdict;
use tidegate_core::rule::OnStoreFailure;

use crate::book::Draw;
use crate::timing::Moment;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Admitted by the book that was asked.
    ByBook,
    /// Admitted with units from the pool.
    ByReserve,
    /// Admitted by its rule, which says `allow`: a grant that comes late is its own.
    ByPolicy,
    /// Not admitted.
    Turned,
}

/// One request under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) draw: Draw,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) hold: bool,
    pub(crate) sent: Moment,
    pub(crate) soft: Moment,
    pub(crate) budget: Moment,
    pub(crate) settled: Option<Settled>,
    /// Verdict of the book that refused, while the pool is asked.
    pub(crate) refused: Option<Verdict>,
    /// True once the book's grant has arrived: a repeat is ignored.
    pub(crate) granted: bool,
    pub(crate) spend: SpendState,
}

/// Progress of a request to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpendState {
    /// Not asked.
    Unasked,
    /// Asked, not answered.
    Asked,
    /// Answered: a repeat is ignored.
    Answered,
}

/// Kind of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The soft deadline.
    Soft,
    /// The end of the budget.
    Budget,
}

/// All requests under way, and those answered whose book may still reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    calls: BTreeMap<u64, Call>,
    deadlines: BTreeSet<(Moment, u64, Due)>,
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn insert(&mut self, number: u64, call: Call) {
        self.deadlines.insert((call.soft, number, Due::Soft));
        self.deadlines.insert((call.budget, number, Due::Budget));
        self.calls.insert(number, call);
    }

    /// Records how a request was answered; its deadlines no longer matter.
    pub(crate) fn settle(&mut self, number: u64, settled: Settled) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.settled = Some(settled);
            self.deadlines.remove(&(call.soft, number, Due::Soft));
            self.deadlines.remove(&(call.budget, number, Due::Budget));
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Call> {
        self.calls.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Call> {
        self.calls.get_mut(&number)
    }

    /// Records that the book's grant has arrived, and forgets the request if nothing more can arrive for it.
    pub(crate) fn granted(&mut self, number: u64) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.granted = true;
            if call.settled.is_some() && call.spend != SpendState::Asked {
                self.calls.remove(&number);
            }
        }
    }

    /// Returns the numbers of all requests that are not answered.
    pub(crate) fn unanswered(&self) -> Vec<u64> {
        self.calls.iter().filter(|(_, call)| call.settled.is_none()).map(|(number, _)| *number).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Takes out the first deadline that has passed by `now`.
    pub(crate) fn pop_due(&mut self, now: Moment) -> Option<(u64, Due)> {
        let (at, number, due) = *self.deadlines.first()?;
        if at > now {
            return None;
        }
        self.deadlines.pop_first();
        Some((number, due))
    }

    /// Forgets answered requests that were sent before `before`.
    pub(crate) fn sweep(&mut self, before: Moment) {
        self.calls.retain(|_, call| call.settled.is_none() || call.sent >= before);
    }
}
