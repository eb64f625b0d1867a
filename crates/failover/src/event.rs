//! Events that drive the machine, and actions that it wants carried out.

use tidegate_core::algorithm::Balance;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Quota, RequestId, Timestamp, Verdict};

use crate::key::CounterKey;
use crate::message::{Envelope, StoreReply, StoreRequest};
use crate::phase::Phase;
use crate::pid::{NodeName, Pid};

/// A request that wants a decision on one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionRequest {
    /// The counter.
    pub key: CounterKey,
    /// Its quota by this node's rules.
    pub quota: Quota,
    /// Units that the request costs.
    pub cost: u64,
    /// The request's id, if its caller is trusted to give one.
    pub id: Option<RequestId>,
    /// The rule's policy for when no book answers.
    pub on_store_failure: OnStoreFailure,
    /// True if the cost is only held, and [`Event::Settle`] will say what the request really costs.
    pub hold: bool,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time has passed; see [`Machine::next_wakeup`](crate::Machine::next_wakeup).
    Tick,
    /// A request wants a decision under the number `call`, unique to this process.
    Decide {
        /// Number of the call.
        call: u64,
        /// The request.
        request: DecisionRequest,
    },
    /// A request that held its cost has turned out to cost this much.
    Settle {
        /// Number of the call.
        call: u64,
        /// The cost.
        cost: u64,
    },
    /// A message from another node.
    Message(Envelope),
    /// An answer of the store to a call of this node, or of one it relays for.
    Store(StoreReply),
    /// Names that announcements are sent to, beside those in the roster.
    Contacts(Vec<NodeName>),
    /// The process is asked to end.
    Leave,
}

/// Something to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends a message to whatever process runs under a name.
    Send {
        /// The name.
        to: NodeName,
        /// The message.
        envelope: Envelope,
    },
    /// Calls the store.
    Ask(StoreRequest),
    /// Answers a request.
    Answer {
        /// Number of the call.
        call: u64,
        /// The answer.
        answer: Answer,
    },
    /// Something worth logging or counting.
    Notice(Notice),
    /// All is handed over; the process can end.
    Exit,
}

/// The book or rule that an admission rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionSource {
    /// Debited in the store.
    Store,
    /// Debited in the owner's book.
    Owner,
    /// Spent from the pool.
    Reserve,
    /// Within the emergency cap.
    Emergency,
    /// The rule says `allow` when no book answers.
    Policy,
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may go ahead.
    Admitted {
        /// Source of the admitted units.
        source: AdmissionSource,
        /// Time slot of the units, where there is one.
        slot: u64,
        /// The book's time of the debit, where there is one.
        at: Timestamp,
        /// Verdict of the book, where there is one.
        verdict: Option<Verdict>,
    },
    /// A book knows that it does not fit.
    Refused(Verdict),
    /// Neither a book nor a reserve answered in time: retry after a second. No rule is blamed.
    Undecided,
}

/// A change that is worth a log line, a metric, or a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The part entered a phase; its book is closed.
    Entered {
        /// The part.
        part: u8,
        /// The phase.
        phase: Phase,
    },
    /// All members agree on the phase of a part, which is open from now on.
    Opened {
        /// The part.
        part: u8,
        /// The phase.
        phase: Phase,
        /// True if every member was heard to agree, false if an open member has told.
        agreed: bool,
    },
    /// This node starts counting a key.
    BookOpened {
        /// The counter.
        key: CounterKey,
        /// Quota of the balance.
        quota: Quota,
        /// Consumption that it starts from.
        balance: Balance,
    },
    /// This node's book debited units.
    Debited {
        /// The counter.
        key: CounterKey,
        /// Time slot.
        slot: u64,
        /// Units, lent ones included.
        units: u64,
    },
    /// This node joined a running fleet.
    Joined,
    /// This node formed a fleet with those it heard.
    Formed,
    /// A member was silent for too long and is given up.
    Forgot(Pid),
    /// This node was given up by the others and goes on as a new process.
    Renamed {
        /// The process until now.
        from: Pid,
        /// The process from now on.
        to: Pid,
    },
}
