//! The messages as they travel: `tidegate.cluster.v1` in protobuf.
//!
//! ```proto
//! service Peer { rpc Ask(Sealed) returns (Sealed); }
//! message Sealed { bytes sealed = 1; }            // a Batch or Answers, sealed
//! message Batch { repeated Item items = 1; }
//! message Answers { repeated Answer answers = 1; } // one for each item, in order
//! ```
//!
//! Lists are no fields of the types here: a list is read piece by piece, so that no message makes room for more than it
//! may have. Numbers of enums begin at 1; 0 is what a field that was forgotten looks like.

use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::Unreadable;

/// The only thing that is visible on its way.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sealed {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) sealed: Bytes,
}

/// Where a `Batch` has its items, and `Answers` their answers.
pub(super) const ENTRIES: u32 = 1;

/// Where an `Item` says how long its caller waits, in microseconds from when it was sent.
pub(super) const PATIENCE: u32 = 1;

/// What an `Item` is, but for its operations.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Item {
    #[prost(uint64, tag = "1")]
    pub(super) patience_us: u64,
    /// 1 decide, 2 store, 3 recall, 4 owes, 5 secret, 6 look.
    #[prost(uint32, tag = "2")]
    pub(super) kind: u32,
    /// Who recalls.
    #[prost(fixed64, tag = "4")]
    pub(super) node: u64,
    /// The trace and the span that it comes from, 16 and 8 bytes; nothing if it is not traced.
    #[prost(bytes = "vec", tag = "5")]
    pub(super) origin: Vec<u8>,
}

/// Where an `Item` has its operations.
pub(super) const OPERATIONS: u32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Operation {
    #[prost(string, tag = "1")]
    pub(super) rule_id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) tag: Option<Bits>,
    #[prost(message, optional, tag = "3")]
    pub(super) quota: Option<Quota>,
    #[prost(uint64, tag = "4")]
    pub(super) cost: u64,
    #[prost(message, optional, tag = "5")]
    pub(super) request_id: Option<Bits>,
    #[prost(bool, tag = "6")]
    pub(super) shadow: bool,
    /// 1 local, 2 local or deny, 3 allow, 4 deny.
    #[prost(uint32, tag = "7")]
    pub(super) on_store_failure: u32,
    /// 1 peek, 2 take, 3 hold, 4 settle, 5 return.
    #[prost(uint32, tag = "8")]
    pub(super) action: u32,
    /// Of a hold and a settlement.
    #[prost(message, optional, tag = "9")]
    pub(super) hold: Option<Bits>,
    /// Of a hold.
    #[prost(uint64, tag = "10")]
    pub(super) ttl_ms: u64,
    /// Of a return: by the store's clock, which is everybody's.
    #[prost(uint64, tag = "11")]
    pub(super) since_ms: u64,
    #[prost(message, optional, tag = "12")]
    pub(super) seen: Option<Seen>,
}

/// 128 evenly distributed bits, for which varints would be longer.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Bits {
    #[prost(fixed64, tag = "1")]
    pub(super) first: u64,
    #[prost(fixed64, tag = "2")]
    pub(super) second: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Quota {
    /// 1 token bucket, 2 fixed window, 3 sliding window, 4 sliding log.
    #[prost(uint32, tag = "1")]
    pub(super) algorithm: u32,
    #[prost(uint64, tag = "2")]
    pub(super) limit: u64,
    #[prost(uint64, tag = "3")]
    pub(super) window_ms: u64,
    #[prost(uint64, tag = "4")]
    pub(super) capacity: u64,
    #[prost(uint64, tag = "5")]
    pub(super) version: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Seen {
    #[prost(uint64, tag = "1")]
    pub(super) used: u64,
    #[prost(uint64, tag = "2")]
    pub(super) age_ms: u64,
    #[prost(uint64, tag = "3")]
    pub(super) reset_after_ms: u64,
}

/// What an answer is, but for its lists.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Answer {
    /// 1 outcomes, 2 known, 3 owes, 4 secret, 5 failed, 6 look.
    #[prost(uint32, tag = "1")]
    pub(super) kind: u32,
    #[prost(uint64, tag = "2")]
    pub(super) owes: u64,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) secret: Option<Vec<u8>>,
    /// Why there is no answer, by the name it has in metrics.
    #[prost(string, tag = "4")]
    pub(super) failure: String,
    /// What a node shows of itself.
    #[prost(bytes = "vec", tag = "7")]
    pub(super) look: Vec<u8>,
}

/// Where an answer has its outcomes.
pub(super) const OUTCOMES: u32 = 5;

/// Where an answer has what is known.
pub(super) const KNOWN: u32 = 6;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Outcome {
    /// 1 verdict, 2 local, 3 unavailable, 4 unknown, 5 unasked.
    #[prost(uint32, tag = "1")]
    pub(super) kind: u32,
    #[prost(message, optional, tag = "2")]
    pub(super) verdict: Option<Verdict>,
    #[prost(string, tag = "3")]
    pub(super) failure: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Verdict {
    #[prost(bool, tag = "1")]
    pub(super) allowed: bool,
    #[prost(uint64, tag = "2")]
    pub(super) remaining: u64,
    #[prost(uint64, tag = "3")]
    pub(super) reset_after_ms: u64,
    /// 1 now, 2 after a while, 3 never.
    #[prost(uint32, tag = "4")]
    pub(super) retry: u32,
    #[prost(uint64, tag = "5")]
    pub(super) retry_after_ms: u64,
    #[prost(bool, tag = "6")]
    pub(super) held: bool,
    #[prost(message, optional, tag = "7")]
    pub(super) quota: Option<Quota>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Known {
    #[prost(message, optional, tag = "1")]
    pub(super) seen: Option<Seen>,
}

/// The pieces of the list that a message has at `tag`, if they are no more than `most`.
pub(super) fn pieces(mut bytes: &[u8], tag: u32, most: usize) -> Result<Vec<&[u8]>, Unreadable> {
    let mut found = Vec::new();
    while bytes.has_remaining() {
        let (at, wire_type) = decode_key(&mut bytes)?;
        if at != tag || wire_type != WireType::LengthDelimited {
            skip_field(wire_type, at, &mut bytes, DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut bytes)?).map_err(|_| Unreadable::CutOff)?;
        let (piece, rest) = bytes.split_at_checked(length).ok_or(Unreadable::CutOff)?;
        if found.len() == most {
            return Err(Unreadable::TooMany(most));
        }
        found.push(piece);
        bytes = rest;
    }
    Ok(found)
}
