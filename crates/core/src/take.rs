//! What a request asks of the store: data, so that every store can carry it out in its own way.

use smallvec::SmallVec;

use crate::key::{Key, RequestId};
use crate::quota::Quota;
use crate::rule::OnStoreFailure;
use crate::time::{Span, Timestamp};

/// One rule's demand for one request.
#[derive(Clone, Copy, Debug)]
pub struct Take<'r> {
    /// The counter to take from.
    pub key: Key<'r>,
    /// How much that counter allows, and which version of the rules says so.
    pub quota: Quota,
    /// How much to take; 0 only looks.
    pub cost: u64,
    /// The request's id, if its caller is trusted to give one.
    pub request_id: Option<RequestId>,
    /// Whether this take may be refused without holding up the others.
    pub shadow: bool,
    /// What becomes of the request if this take cannot be decided: a store must know it to leave nothing behind
    /// of a request that will be turned away.
    pub on_store_failure: OnStoreFailure,
}

impl<'r> Take<'r> {
    /// A take of `cost` from the counter `key` by the terms of `quota`, with nothing out of the ordinary.
    pub const fn new(key: Key<'r>, quota: Quota, cost: u64) -> Self {
        Self { key, quota, cost, request_id: None, shadow: false, on_store_failure: OnStoreFailure::Local }
    }
}

/// One thing to do to one counter.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'r> {
    /// Which counter, by what quota, how much.
    pub take: Take<'r>,
    /// What to do.
    pub action: Action,
}

impl<'r> From<Take<'r>> for Operation<'r> {
    fn from(take: Take<'r>) -> Self {
        let action = if take.cost == 0 { Action::Peek } else { Action::Take };
        Self { take, action }
    }
}

impl Operation<'_> {
    /// What undoes this, if it holds something.
    #[must_use]
    pub fn let_go(&self) -> Option<Self> {
        let Action::Hold { id, .. } = self.action else { return None };
        Some(Self { take: Take { cost: 0, ..self.take }, action: Action::Settle { id } })
    }
}

/// What to do with a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Say what would happen; change nothing.
    Peek,
    /// Consume the cost if it fits. A quota [in flight](crate::Algorithm::InFlight) is held for its window then, under a name that nobody
    /// knows to settle.
    Take,
    /// Consume the cost if it fits, but let [`Action::Settle`] change that until `ttl` is over; then it is given
    /// back as if settled with 0.
    Hold {
        /// What to call the hold when settling it.
        id: HoldId,
        /// How long it can be settled.
        ttl: Span,
    },
    /// Replace a hold's cost by the take's own: what was held too much is given back, what is missing is taken as
    /// far as it fits. A hold that is gone stays gone, and the verdict is a refusal. Quota [in flight](crate::Algorithm::InFlight) is
    /// given back whole, whatever the cost.
    Settle {
        /// The hold to settle.
        id: HoldId,
    },
    /// Give the cost back, which was consumed at `since` by the store's clock, as far as waiting has not given it
    /// back already; at [`Timestamp::LATEST`], of whatever was consumed last. Never refused.
    Return {
        /// When it was consumed.
        since: Timestamp,
    },
    /// Consume as much of the cost as fits, and never more: for what was admitted already, without the store. Never
    /// refused, and carried out before the rest of its group is decided, whatever becomes of that. A take with a
    /// request id is charged once: the same id with the same cost changes nothing, however often it comes, as long
    /// as an admitted id would be remembered; also if nothing fitted the first time.
    Charge,
}

/// The name of a hold, unique to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HoldId(pub [u64; 2]);

/// The operations of one request, in the order of their rules: all or nothing.
pub type Group<'r> = SmallVec<[Operation<'r>; 4]>;
