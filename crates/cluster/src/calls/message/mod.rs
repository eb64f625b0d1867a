//! Calls and replies as bytes, and back.
//!
//! Whoever could seal them may still be a node of another version, or one gone mad: what is read is bounded, and nothing
//! is believed that could not have been built here.

mod call;
mod figures;
mod reply;
#[cfg(test)]
mod tests;
mod wire;

use std::time::Duration;

use prost::DecodeError;
use tidegate_core::quota::QuotaError;
use tidegate_store::peers::{Call, Reply};

pub(crate) use call::{Arrived, Packed, read_batch, write_batch};
pub(crate) use reply::{Answered, read_answers, write_answers};
pub(crate) use wire::Sealed;

/// The most calls in one message: more than are ever sent together.
pub(crate) const MAX_ITEMS: usize = 1_024;

/// The most operations in one group: more than a request has rules.
pub(crate) const MAX_OPERATIONS: usize = 64;

/// The most counters that can be asked about at once.
pub(crate) const MAX_RECALLS: usize = 4_096;

/// The longest rule id, as rule documents have it.
pub(crate) const MAX_RULE_ID_BYTES: usize = 128;

/// The longest that anybody waits for another node.
pub(crate) const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// Not even protobuf.
    #[error("{0}")]
    Protobuf(#[from] DecodeError),
    /// It ends too early.
    #[error("the message is cut off")]
    CutOff,
    /// A list is too long.
    #[error("there are more than {0} in one list")]
    TooMany(usize),
    /// Something is not there.
    #[error("there is no {0}")]
    Missing(&'static str),
    /// Something has a value that does not exist.
    #[error("the {0} is not known here")]
    Unknown(&'static str),
    /// No rule can have this id.
    #[error("a rule id has 1 to {MAX_RULE_ID_BYTES} bytes")]
    RuleId,
    /// No rule can have this quota.
    #[error("{0}")]
    Quota(#[from] QuotaError),
}

/// What kind of reply answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Outcomes(usize),
    Known(usize),
    Owes,
    Secret,
    Look,
}

impl Shape {
    fn of(call: &Call) -> Self {
        match call {
            Call::Decide(asked) | Call::Store(asked) => Self::Outcomes(asked.len()),
            Call::Recall { asked, .. } => Self::Known(asked.len()),
            Call::Owes => Self::Owes,
            Call::Secret => Self::Secret,
            Call::Look => Self::Look,
        }
    }

    fn fits(self, reply: &Reply) -> bool {
        match reply {
            Reply::Outcomes(outcomes) => self == Self::Outcomes(outcomes.len()),
            Reply::Known(known) => self == Self::Known(known.len()),
            Reply::Owes(_) => self == Self::Owes,
            Reply::Secret(_) => self == Self::Secret,
            Reply::Look(_) => self == Self::Look,
        }
    }
}
