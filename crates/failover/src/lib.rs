//! Deciding without the store, right whatever the timing.
//!
//! > Nobody admits a unit that has not already been debited in the one open book of its key. A timeout may lose units for a
//! > moment; it never creates any.
//!
//! A *book* is where a key is counted at present: the store, or one member of the fleet, the key's *owner*. For each part of
//! the store a *phase* says which: even for the store, odd for owners. Phases only grow, and a phase is opened when every
//! member has announced it, so at most one book is open.
//!
//! ```text
//!                 no member has had the store for 500 ms
//!    ┌──────────────┐        ┌───────────────┐ all announced ┌──────────────┐
//!    │ even, open   ├───────▶│ odd, closed   ├──────────────▶│ odd, agreed  │
//!    │ (the store)  │        │ (no book)     │◀──────────────┤ (owners)     │
//!    └──────▲───────┘        └───────────────┘ roster grows  └──────┬───────┘
//!           │ all announced, all debts settled                     │ store well for 500 ms,
//!           │                ┌───────────────┐                     │ all members fresh
//!           └────────────────┤ even, closed  │◀────────────────────┘
//!                            └───────────────┘
//! ```
//!
//! # The seam
//!
//! [`Machine`] does no I/O and reads no clock. A driver hands it [`Event`]s with the time, carries out the [`Action`]s it
//! returns, and wakes it at [`Machine::next_wakeup`]. To be a `Store` of `tidegate-store`, a driver maps each operation to
//! [`Event::Decide`] under a fresh call number, waits for the [`Action::Answer`] of that number, and translates:
//!
//! | answer | outcome |
//! |---|---|
//! | [`Answer::Admitted`] with a verdict, [`Answer::Refused`] | `Outcome::Verdict`, or `Outcome::Local` if an owner said so |
//! | [`Answer::Admitted`] by reserve or cap | `Outcome::Local` |
//! | [`Answer::Undecided`] | `Outcome::Unavailable(Failure::Deadline)`: nothing will be consumed by this request |
//!
//! [`Action::Ask`] goes to the part's store, where [`StoreRequest::apply`] is the reference of what has to happen. A group
//! over several keys stays with the coordinator, which sees each key's open book as one more place.
//!
//! Nothing here grows without bound whatever clients send: every map by key has a ceiling ([`Config::max_keys`]).

mod agreement;
mod announcement;
mod book;
mod call;
mod decision;
mod departure;
mod emergency;
mod event;
mod health;
mod hold;
mod ids;
mod inspect;
mod key;
mod ledger;
mod machine;
mod membership;
mod message;
mod mistake;
mod note;
mod owner;
mod part;
mod phase;
mod pid;
mod pool;
mod rendezvous;
mod reserve;
mod roster;
mod store_calls;
mod timing;

pub use announcement::{Announcement, Gossip, PartReport};
pub use book::{Book, BookReply, CallName, Draw, Statement};
pub use event::{Action, AdmissionSource, Answer, DecisionRequest, Event, Notice};
pub use key::CounterKey;
pub use ledger::{Amount, Charge, ChargeId};
pub use machine::{Config, Machine};
pub use message::{
    Cancellation, Envelope, Message, PoolDeposit, StoreCall, StoreReply, StoreRequest, StoreResult,
};
pub use mistake::Mistake;
#[cfg(feature = "mistakes")]
pub use mistake::plant;
pub use note::Note;
pub use phase::{Epoch, Phase};
pub use pid::{Incarnation, NodeName, Pid};
pub use roster::{MAX_MEMBERS, Roster};
pub use timing::{FailoverTiming, Moment};
