//! Messages between nodes, and calls to the store. Plain data; how they are encoded is the driver's business.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{Quota, RequestId, Timestamp};

use crate::announcement::Gossip;
use crate::book::{Book, BookReply, CallName, Draw};
use crate::key::CounterKey;
use crate::ledger::{Charge, ChargeId};
use crate::note::Note;
use crate::phase::Epoch;
use crate::pid::Pid;

/// A message with its sender and, for answers, the process that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The process that sends it.
    pub from: Pid,
    /// The process it is for; `None` for whatever process runs under the name.
    pub to: Option<Pid>,
    /// The message.
    pub message: Message,
}

/// Units that were debited and not spent, on their way to the pool of their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolDeposit {
    /// The counter.
    pub key: CounterKey,
    /// Quota in force.
    pub quota: Quota,
    /// Time slot that the units can be spent in.
    pub slot: u64,
    /// How many.
    pub units: u64,
    /// Name of the deposit, unique to the sender, so that a repeat counts once.
    pub name: u64,
}

/// Request to take back what was debited under a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// The counter.
    pub key: CounterKey,
    /// The request's id.
    pub id: RequestId,
    /// Units it was debited with.
    pub cost: u64,
    /// Epoch it was debited under.
    pub epoch: Epoch,
    /// Name of the take that debited it.
    pub name: CallName,
}

/// A message between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The sender's state.
    Announce(Box<Gossip>),
    /// Take from the recipient's book.
    Take {
        /// The sender's number for the call.
        call: u64,
        /// The take.
        draw: Draw,
    },
    /// Answer to [`Message::Take`].
    TakeReply {
        /// Number of the call.
        call: u64,
        /// The book's answer.
        reply: BookReply,
        /// Ledger entry of the book afterwards, so that it outlives its owner.
        charge: Option<Charge>,
    },
    /// Asks for the recipient's note about a key.
    Recall {
        /// The counter.
        key: CounterKey,
        /// Epoch in which the sender owns it.
        epoch: Epoch,
    },
    /// Answer to [`Message::Recall`].
    Recalled {
        /// The counter.
        key: CounterKey,
        /// Epoch of the recall.
        epoch: Epoch,
        /// The note, if there is one.
        note: Option<Note>,
    },
    /// A call to the store by way of the recipient.
    Relay(StoreRequest),
    /// The store's answer to a relayed call.
    Relayed {
        /// The answer.
        reply: StoreReply,
        /// True if the relay closed the phase meanwhile: a grant must not be spent.
        stale: bool,
    },
    /// Units for the pool.
    Pool(PoolDeposit),
    /// Spends from the pool.
    Spend {
        /// The sender's number for the call.
        call: u64,
        /// The counter.
        key: CounterKey,
        /// Quota in force.
        quota: Quota,
        /// Units to spend, all or none.
        cost: u64,
    },
    /// Answer to [`Message::Spend`].
    Spent {
        /// Number of the call.
        call: u64,
        /// The counter.
        key: CounterKey,
        /// Quota in force.
        quota: Quota,
        /// Time slot of the units.
        slot: u64,
        /// Units spent: the cost, or 0.
        units: u64,
    },
    /// Takes back what was debited under a request id.
    Cancel(Cancellation),
    /// All that a leaving node knows.
    Handover {
        /// Its notes.
        notes: Vec<(CounterKey, Note)>,
        /// Its ledger, as far as the store does not know of it.
        charges: Vec<Charge>,
    },
    /// Acknowledges [`Message::Handover`].
    HandoverDone,
}

/// A call to one part of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRequest {
    /// The part.
    pub part: u8,
    /// The process that wants the answer.
    pub origin: Pid,
    /// Its number for the call.
    pub call: u64,
    /// Its time when it asked.
    pub sent: Duration,
    /// Phase in which it asked.
    pub epoch: Epoch,
    /// Operation to carry out.
    pub body: StoreCall,
}

/// Operation that the store is asked to carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreCall {
    /// Take from a counter.
    Take(Draw),
    /// Take back what was debited under a request id.
    Cancel(Cancellation),
    /// Apply named charges.
    Charge(Vec<Charge>),
    /// Answer.
    Probe,
}

/// The store's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReply {
    /// The part.
    pub part: u8,
    /// The process that asked.
    pub origin: Pid,
    /// Its number for the call.
    pub call: u64,
    /// Its time when it asked.
    pub sent: Duration,
    /// The store's time.
    pub time: Timestamp,
    /// The result.
    pub body: StoreResult,
}

/// Result of a [`StoreCall`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreResult {
    /// Of a take.
    Taken {
        /// The counter.
        key: CounterKey,
        /// The book's answer.
        reply: BookReply,
    },
    /// Of charges: what the store knows of now.
    Charged(Vec<(ChargeId, u64)>),
    /// Of anything else.
    Done,
}

impl StoreRequest {
    /// Carries out the call on a book at the store's time: the reference for what every store does.
    pub fn apply(&self, book: &mut Book, time: Timestamp) -> StoreReply {
        let body = match &self.body {
            StoreCall::Take(draw) => StoreResult::Taken { key: draw.key, reply: book.take(draw, time) },
            StoreCall::Cancel(cancel) => {
                book.cancel(cancel, time);
                StoreResult::Done
            }
            StoreCall::Charge(charges) => {
                charges.iter().for_each(|charge| book.charge(charge, time));
                StoreResult::Charged(charges.iter().map(|charge| (charge.id(), charge.seq)).collect())
            }
            StoreCall::Probe => StoreResult::Done,
        };
        StoreReply { part: self.part, origin: self.origin, call: self.call, sent: self.sent, time, body }
    }
}
