//! Calls: what is asked, and how long its caller waits.

use std::time::Duration;

use prost::Message;
use prost::encoding::{self, WireType, encode_key, encode_varint, encoded_len_varint};
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, HoldId, RequestId, Span, Tag, Timestamp};
use tidegate_store::peers::{Asked, Call, NodeId};
use tidegate_store::spans::Origin;

use super::figures::{read_bits, read_quota, read_seen, write_bits, write_quota, write_seen};
use super::{
    MAX_ITEMS, MAX_OPERATIONS, MAX_PATIENCE, MAX_RECALLS, MAX_RULE_ID_BYTES, Shape, Unreadable, wire,
};

/// A call that is ready to go with others.
#[derive(Debug)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// What can answer it.
    pub(crate) shape: Shape,
}

impl Packed {
    /// Packs a call, unless it is one that no node would read: it must not spoil those that go with it.
    pub(crate) fn new(call: &Call, origin: Option<Origin>) -> Result<Self, Unreadable> {
        let (kind, asked): (_, &[Asked]) = match call {
            Call::Decide(asked) => (1, asked),
            Call::Store(asked) => (2, asked),
            Call::Recall { asked, .. } => (3, asked),
            Call::Owes => (4, &[]),
            Call::Secret => (5, &[]),
            Call::Look => (6, &[]),
        };
        let node = if let Call::Recall { node, .. } = call { node.0 } else { 0 };
        let most = most_of(kind);
        if asked.len() > most {
            return Err(Unreadable::TooMany(most));
        }
        let origin = origin.map(|Origin { trace, span }| [&trace[..], &span].concat()).unwrap_or_default();
        let mut bytes = wire::Item { patience_us: 0, kind, node, origin }.encode_to_vec();
        for asked in asked {
            check_rule_id(&asked.rule_id)?;
            encoding::message::encode(wire::OPERATIONS, &write(asked), &mut bytes);
        }
        Ok(Self { bytes, shape: Shape::of(call) })
    }

    /// How many bytes it adds to a batch, or a few less.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Several calls as one message, each with how long its caller waits.
pub(crate) fn write_batch<'c>(calls: impl IntoIterator<Item = (&'c Packed, Duration)>) -> Vec<u8> {
    let mut batch = Vec::new();
    for (Packed { bytes, .. }, patience) in calls {
        let patience = u64::try_from(patience.min(MAX_PATIENCE).as_micros()).unwrap_or(u64::MAX);
        let length = encoding::uint64::encoded_len(wire::PATIENCE, &patience) + bytes.len();
        batch.reserve(1 + encoded_len_varint(length as u64) + length);
        encode_key(wire::ENTRIES, WireType::LengthDelimited, &mut batch);
        encode_varint(length as u64, &mut batch);
        encoding::uint64::encode(wire::PATIENCE, &patience, &mut batch);
        batch.extend_from_slice(bytes);
    }
    batch
}

/// What was read of one call of a batch. One that cannot be read says nothing about the others.
pub(crate) type ReadCall = Result<Arrived, Unreadable>;

/// A call as it arrives.
#[derive(Debug, PartialEq)]
pub(crate) struct Arrived {
    pub(crate) call: Call,
    /// The span that it comes from, if that is recorded.
    pub(crate) origin: Option<Origin>,
    /// How long its caller waits.
    pub(crate) patience: Duration,
}

/// The calls of a batch.
pub(crate) fn read_batch(bytes: &[u8]) -> Result<Vec<ReadCall>, Unreadable> {
    Ok(wire::pieces(bytes, wire::ENTRIES, MAX_ITEMS)?.into_iter().map(read_call).collect())
}

fn read_call(bytes: &[u8]) -> ReadCall {
    let wire::Item { patience_us, kind, node, origin } = wire::Item::decode(bytes)?;
    let operations = || {
        let pieces = wire::pieces(bytes, wire::OPERATIONS, most_of(kind))?;
        pieces.into_iter().map(read).collect::<Result<Vec<_>, _>>()
    };
    let call = match kind {
        1 => Call::Decide(operations()?),
        2 => Call::Store(operations()?),
        3 => Call::Recall { node: NodeId(node), asked: operations()? },
        4 => Call::Owes,
        5 => Call::Secret,
        6 => Call::Look,
        _ => return Err(Unreadable::Unknown("call")),
    };
    let patience = Duration::from_micros(patience_us).min(MAX_PATIENCE);
    Ok(Arrived { call, origin: read_origin(&origin), patience })
}

/// What is no origin is as if it were not there: it is no reason not to answer.
fn read_origin(bytes: &[u8]) -> Option<Origin> {
    let (trace, span) = bytes.split_first_chunk()?;
    let origin = Origin { trace: *trace, span: span.try_into().ok()? };
    (origin.trace != [0; 16] && origin.span != [0; 8]).then_some(origin)
}

const fn most_of(kind: u32) -> usize {
    if kind == 3 { MAX_RECALLS } else { MAX_OPERATIONS }
}

fn check_rule_id(rule_id: &str) -> Result<(), Unreadable> {
    if rule_id.is_empty() || rule_id.len() > MAX_RULE_ID_BYTES { Err(Unreadable::RuleId) } else { Ok(()) }
}

fn write(asked: &Asked) -> wire::Operation {
    let (action, hold, ttl_ms, since_ms) = match asked.action {
        Action::Peek => (1, None, 0, 0),
        Action::Take => (2, None, 0, 0),
        Action::Hold { id, ttl } => (3, Some(write_bits(id.0)), ttl.as_millis(), 0),
        Action::Settle { id } => (4, Some(write_bits(id.0)), 0, 0),
        Action::Return { since } => (5, None, 0, since.as_millis()),
        Action::Charge => (6, None, 0, 0),
    };
    wire::Operation {
        rule_id: asked.rule_id.clone().into(),
        tag: Some(write_bits(asked.tag.bits())),
        quota: Some(write_quota(asked.quota)),
        cost: asked.cost,
        request_id: asked.request_id.map(|id| write_bits(id.bits())),
        shadow: asked.shadow,
        on_store_failure: match asked.on_store_failure {
            OnStoreFailure::Local => 1,
            OnStoreFailure::LocalOrDeny => 2,
            OnStoreFailure::Allow => 3,
            OnStoreFailure::Deny => 4,
        },
        action,
        hold,
        ttl_ms,
        since_ms,
        seen: asked.seen.map(write_seen),
    }
}

fn read(bytes: &[u8]) -> Result<Asked, Unreadable> {
    let told = wire::Operation::decode(bytes)?;
    check_rule_id(&told.rule_id)?;
    let hold = || told.hold.map(|bits| HoldId(read_bits(bits))).ok_or(Unreadable::Missing("hold"));
    let action = match told.action {
        1 => Action::Peek,
        2 => Action::Take,
        3 => Action::Hold { id: hold()?, ttl: Span::from_millis(told.ttl_ms) },
        4 => Action::Settle { id: hold()? },
        5 => Action::Return { since: Timestamp::from_millis(told.since_ms) },
        6 => Action::Charge,
        _ => return Err(Unreadable::Unknown("action")),
    };
    Ok(Asked {
        tag: Tag::from_bits(read_bits(told.tag.ok_or(Unreadable::Missing("tag"))?)),
        quota: read_quota(told.quota)?,
        cost: told.cost,
        request_id: told.request_id.map(|bits| RequestId::from_bits(read_bits(bits))),
        shadow: told.shadow,
        on_store_failure: match told.on_store_failure {
            1 => OnStoreFailure::Local,
            2 => OnStoreFailure::LocalOrDeny,
            3 => OnStoreFailure::Allow,
            4 => OnStoreFailure::Deny,
            _ => return Err(Unreadable::Unknown("on_store_failure")),
        },
        action,
        seen: told.seen.map(read_seen),
        rule_id: told.rule_id.into(),
    })
}
