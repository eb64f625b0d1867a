//! Operations as the scripts read them, and their answers as we do. The layouts are described in `takes.lua` and
//! `groups.lua`.

use smallvec::SmallVec;
use tidegate_core::algorithm::{Counter, FixedWindow, SlidingWindow, TokenBucket};
use tidegate_core::quota::MAX_UNITS;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{
    Action, Algorithm, HoldId, Operation, Quota, RequestId, Retry, Secret, Span, Timestamp, Verdict,
};
use tidegate_store::{Failure, Outcome, Outcomes};

use crate::key;

/// An operation that belongs to nobody: it outlives the caller who asked for it.
#[derive(Clone, Debug)]
pub(crate) struct OwnedOp {
    pub(crate) key: Vec<u8>,
    pub(crate) quota: Quota,
    pub(crate) cost: u64,
    pub(crate) action: Action,
    request_id: Option<RequestId>,
    shadow: bool,
    denies: bool,
    is_local: bool,
}

impl OwnedOp {
    pub(crate) fn new(prefix: &str, op: &Operation<'_>) -> Self {
        let take = &op.take;
        Self {
            key: key::name(prefix, op),
            quota: take.quota,
            // What is beyond any capacity need not be told exactly, and numbers end there for scripts.
            cost: take.cost.min(MAX_UNITS),
            action: op.action,
            request_id: take.request_id,
            shadow: take.shadow,
            denies: take.on_store_failure == OnStoreFailure::Deny && !take.shadow,
            is_local: take.on_store_failure.is_local(),
        }
    }

    /// Returns a take of one under `quota`.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn take_one(quota: Quota) -> Self {
        Self {
            key: vec![7; 16],
            quota,
            cost: 1,
            action: Action::Take,
            request_id: None,
            shadow: false,
            denies: false,
            is_local: true,
        }
    }

    /// Whether a request is turned away if this cannot be decided.
    pub(crate) fn denies(&self) -> bool {
        self.denies
    }

    /// Whether it is counted elsewhere if this cannot be decided in time.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether this is a take like most: of a small counter, with nothing out of the ordinary.
    fn is_plain_take(&self) -> bool {
        self.action == Action::Take
            && self.request_id.is_none()
            && !self.shadow
            && !self.quota.is_blocked()
            && !matches!(self.quota.algorithm(), Algorithm::SlidingLog | Algorithm::InFlight)
    }

    /// Gives back what this took at `since`, or lets go of what it holds.
    pub(crate) fn returned(&self, since: Timestamp) -> Self {
        let (action, cost) = match self.action {
            Action::Hold { id, .. } => (Action::Settle { id }, 0),
            _ => (Action::Return { since }, self.cost),
        };
        Self { action, cost, request_id: None, ..self.clone() }
    }
}

/// What time it is for the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// The server's own.
    Server,
    /// This; keys live for as long as is given.
    Explicit(Timestamp, Span),
}

/// Which script decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `takes.lua`, for plain takes; it may leave some undecided.
    Short,
    /// All the others together, for everything.
    Long,
}

impl Way {
    /// The way that can decide all of `groups`.
    pub(crate) fn of<'g>(mut groups: impl Iterator<Item = &'g [OwnedOp]>) -> Self {
        if groups.all(|group| matches!(group, [op] if op.is_plain_take())) { Self::Short } else { Self::Long }
    }
}

/// Groups as the script of `way` reads them.
pub(crate) fn request<'g>(way: Way, time: Time, groups: impl Iterator<Item = &'g [OwnedOp]>) -> Vec<u8> {
    let mut body = Array::default();
    match way {
        Way::Short => put_takes(&mut body, groups),
        Way::Long => put_groups(&mut body, groups),
    }
    let mut out = Array::default();
    match time {
        Time::Server => out.numbers([0, 0]),
        Time::Explicit(now, ttl) => out.numbers([now.as_millis(), ttl.as_millis()]),
    }
    out.append(&body).finish()
}

/// Takes that differ in nothing but their key go together.
fn put_takes<'g>(out: &mut Array, groups: impl Iterator<Item = &'g [OwnedOp]>) {
    let mut takes = groups.flatten().peekable();
    while let Some(take) = takes.next() {
        let mut run = 1;
        while takes.next_if(|next| next.cost == take.cost && next.quota == take.quota).is_some() {
            run += 1;
        }
        out.numbers([run]);
        put_quota(out, &take.quota);
        out.numbers([take.cost]);
    }
}

fn put_groups<'g>(out: &mut Array, groups: impl Iterator<Item = &'g [OwnedOp]>) {
    let (mut quotas, mut list, mut body): (SmallVec<[Quota; 8]>, _, _) =
        (SmallVec::new(), Array::default(), Array::default());
    for group in groups {
        body.numbers([group.len() as u64]);
        for op in group {
            let quota = quotas.iter().rposition(|known| *known == op.quota).unwrap_or_else(|| {
                quotas.push(op.quota);
                put_quota(&mut list, &op.quota);
                quotas.len() - 1
            });
            put_operation(&mut body, op, quota as u64);
        }
    }
    out.numbers([quotas.len() as u64]);
    *out = std::mem::take(out).append(&list).append(&body);
}

fn put_quota(out: &mut Array, quota: &Quota) {
    let (limit, window, capacity) = (quota.limit(), quota.window().as_millis(), quota.capacity());
    let rest = match quota.algorithm() {
        Algorithm::TokenBucket if limit > 0 => (capacity * window).div_ceil(limit),
        _ => 2 * window,
    };
    let number = algorithm_number(quota.algorithm());
    out.numbers([number, quota_hash(quota), quota.version(), limit, window, capacity, rest]);
}

/// What tells quotas apart in a counter's few bytes. All nodes must come to the same.
fn quota_hash(quota: &Quota) -> u64 {
    let mut encoding = Secret::new([0; 16]).encode();
    for number in [quota.version(), quota.limit(), quota.window().as_millis(), quota.capacity()] {
        encoding.part(0, &number.to_le_bytes());
    }
    // As many bits as a Lua number holds.
    encoding.tag().bits()[0] >> 12
}

fn put_operation(out: &mut Array, op: &OwnedOp, quota: u64) {
    let what = match op.action {
        Action::Peek => 0,
        Action::Take => 1,
        Action::Hold { .. } => 2,
        Action::Settle { .. } => 3,
        Action::Return { .. } => 4,
        Action::Charge => 5,
    };
    let flags = u64::from(op.shadow) << 3 | u64::from(op.request_id.is_some()) << 4;
    out.numbers([what | flags, quota, op.cost]);
    if let Some(id) = op.request_id {
        out.bytes(id.bits());
    }
    match op.action {
        Action::Hold { id: HoldId(id), ttl } => {
            out.bytes(id);
            out.numbers([ttl.as_millis()]);
        }
        Action::Settle { id: HoldId(id) } => out.bytes(id),
        // `LATEST` of the script.
        Action::Return { since } => out.numbers([since.as_millis().min(MAX_UNITS)]),
        Action::Peek | Action::Take | Action::Charge => {}
    }
}

const fn algorithm_number(algorithm: Algorithm) -> u64 {
    match algorithm {
        Algorithm::TokenBucket => 1,
        Algorithm::FixedWindow => 2,
        Algorithm::SlidingWindow => 3,
        Algorithm::SlidingLog => 4,
        Algorithm::InFlight => 5,
    }
}

/// A MessagePack array in the making.
#[derive(Debug, Default)]
struct Array {
    items: Vec<u8>,
    count: u32,
}

impl Array {
    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            // Into memory: that cannot fail.
            rmp::encode::write_uint(&mut self.items, number).ok();
            self.count += 1;
        }
    }

    /// Sixteen bytes as a text.
    fn bytes(&mut self, halves: [u64; 2]) {
        rmp::encode::write_str_len(&mut self.items, 16).ok();
        halves.into_iter().for_each(|half| self.items.extend_from_slice(&half.to_le_bytes()));
        self.count += 1;
    }

    fn append(mut self, other: &Self) -> Self {
        self.items.extend_from_slice(&other.items);
        self.count += other.count;
        self
    }

    fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.items.len() + 5);
        rmp::encode::write_array_len(&mut out, self.count).ok();
        out.extend_from_slice(&self.items);
        out
    }
}

/// An answer of a script, read from the front.
pub(crate) struct Reply<'b> {
    rest: &'b [u8],
    way: Way,
    /// The server's time.
    pub(crate) now: Timestamp,
}

const ALLOWED: u64 = 1;
const HELD: u64 = 2;
const AFTER: u64 = 4;
const OTHER_QUOTA: u64 = 16;
const FOREIGN: u64 = 32;
const FULL: u64 = 64;

/// What the short way says to a take that it leaves undecided.
const UNDECIDED: u8 = rmp::Marker::False.to_u8();

impl<'b> Reply<'b> {
    /// What the script of `way` answered.
    pub(crate) fn new(way: Way, mut bytes: &'b [u8]) -> Option<Self> {
        rmp::decode::read_array_len(&mut bytes).ok()?;
        let now = Timestamp::from_millis(number(&mut bytes)?);
        Some(Self { rest: bytes, way, now })
    }

    /// What is said to the next group; fewer outcomes than operations if the short way could not decide it, none at
    /// all if the answer is not one of ours.
    pub(crate) fn next(&mut self, group: &[OwnedOp]) -> Option<Outcomes> {
        let mut outcomes = Outcomes::new();
        for op in group {
            match self.way {
                Way::Short => outcomes.extend(self.verdict(op)?.map(Outcome::Verdict)),
                Way::Long => outcomes.push(self.outcome(op)?),
            }
        }
        Some(outcomes)
    }

    /// The verdict on the next take, if there is one: what the core says of the counter that the script has left.
    fn verdict(&mut self, op: &OwnedOp) -> Option<Option<Verdict>> {
        if let Some(rest) = self.rest.strip_prefix(&[UNDECIDED]) {
            self.rest = rest;
            return Some(None);
        }
        let (quota, now) = (&op.quota, self.now);
        let previous = match quota.algorithm() {
            Algorithm::SlidingWindow => number(&mut self.rest)?,
            _ => 0,
        };
        let last: i64 = rmp::decode::read_int(&mut self.rest).ok()?;
        let allowed = last >= 0;
        // `-1 - x` is `!x`.
        let count = u64::try_from(if allowed { last } else { !last }).ok()?;
        let cost = if allowed { 0 } else { op.cost };
        let verdict = match quota.algorithm() {
            Algorithm::TokenBucket => TokenBucket::new(count, now).look(quota, cost, now),
            Algorithm::FixedWindow => FixedWindow::new(count, now).look(quota, cost, now),
            Algorithm::SlidingWindow => SlidingWindow::new(previous, count, now).look(quota, cost, now),
            Algorithm::SlidingLog | Algorithm::InFlight => return None,
        };
        // A script that sees it differently is not ours.
        (verdict.allowed == allowed).then_some(Some(verdict))
    }

    /// The next operation's outcome.
    fn outcome(&mut self, op: &OwnedOp) -> Option<Outcome> {
        let rest = &mut self.rest;
        let (flags, remaining) = (number(rest)?, number(rest)?);
        let (reset, retry) = (number(rest)?, number(rest)?);
        let mut quota = op.quota;
        if flags & OTHER_QUOTA != 0 {
            let (version, limit) = (number(rest)?, number(rest)?);
            let (window, capacity) = (Span::from_millis(number(rest)?), number(rest)?);
            quota = match quota.algorithm() {
                Algorithm::TokenBucket => Quota::token_bucket(limit, window, capacity),
                algorithm => Quota::new(algorithm, limit, window),
            }
            .ok()?
            .at_version(version);
        }
        if flags & (FOREIGN | FULL) != 0 {
            let failure = if flags == FOREIGN { Failure::Foreign } else { Failure::Full };
            return Some(Outcome::Unavailable(failure));
        }
        let retry = match flags & (ALLOWED | AFTER) {
            0 => Retry::Never,
            AFTER => Retry::After(Span::from_millis(retry)),
            _ => Retry::Now,
        };
        let (allowed, held) = (flags & ALLOWED != 0, flags & HELD != 0);
        let reset_after = Span::from_millis(reset);
        // Clients are told so, whatever it is that answers.
        let remaining = remaining.min(quota.capacity());
        Some(Outcome::Verdict(Verdict { allowed, remaining, reset_after, retry, held, quota }))
    }
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    rmp::decode::read_int(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_are_read() {
        let bytes = b"\x96\xcf\x00\x00\x01\x8c\xc2\x51\xf4\x00\x01\x63\xcd\xea\x60\x00\x04";
        let mut reply = Reply::new(Way::Long, bytes).unwrap();
        assert_eq!(reply.now, Timestamp::from_millis(1_704_067_200_000));
        assert_eq!([(); 5].map(|()| number(&mut reply.rest)), [1, 99, 60_000, 0, 4].map(Some));
    }
}
