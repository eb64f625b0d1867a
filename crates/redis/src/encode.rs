//! Operations as the script reads them, and its answers as we do. The layout is described in `apply.lua`.

use smallvec::SmallVec;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{
    Action, Algorithm, HoldId, Operation, Quota, RequestId, Retry, Span, Timestamp, Verdict,
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
}

impl OwnedOp {
    pub(crate) fn new(prefix: &str, op: &Operation<'_>) -> Self {
        let take = &op.take;
        Self {
            key: key::name(prefix, op),
            quota: take.quota,
            cost: take.cost,
            action: op.action,
            request_id: take.request_id,
            shadow: take.shadow,
            denies: take.on_store_failure == OnStoreFailure::Deny && !take.shadow,
        }
    }

    /// Whether a request is turned away if this cannot be decided.
    pub(crate) fn denies(&self) -> bool {
        self.denies
    }

    /// Gives back what this took at `since`.
    pub(crate) fn returned(&self, since: Timestamp) -> Self {
        Self { action: Action::Return { since }, request_id: None, ..self.clone() }
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

/// Groups as the script reads them.
pub(crate) fn request<'g>(time: Time, groups: impl Iterator<Item = &'g [OwnedOp]>) -> Vec<u8> {
    let mut quotas: SmallVec<[Quota; 8]> = SmallVec::new();
    let mut body = Vec::with_capacity(256);
    let mut groups = groups.peekable();
    while let Some(group) = groups.next() {
        let mut run = 1;
        while groups.next_if(|next| is_same_take(group, next)).is_some() {
            run += 1;
        }
        put_count(&mut body, run);
        put_count(&mut body, group.len());
        for op in group {
            let quota = quotas.iter().rposition(|known| *known == op.quota).unwrap_or_else(|| {
                quotas.push(op.quota);
                quotas.len() - 1
            });
            put_operation(&mut body, op, quota);
        }
    }
    let mut out = Vec::with_capacity(18 + quotas.len() * 33 + body.len());
    let (now, ttl) = match time {
        Time::Server => (0, 0),
        Time::Explicit(now, ttl) => (now.as_millis(), ttl.as_millis()),
    };
    put(&mut out, [now, ttl]);
    put_count(&mut out, quotas.len());
    for quota in &quotas {
        out.push(algorithm_number(quota.algorithm()));
        put(&mut out, [quota.version(), quota.limit(), quota.window().as_millis(), quota.capacity()]);
    }
    out.extend_from_slice(&body);
    out
}

/// Whether both are a plain take of the same cost under the same quota, so that only their keys tell them apart.
fn is_same_take(a: &[OwnedOp], b: &[OwnedOp]) -> bool {
    let ([a], [b]) = (a, b) else { return false };
    let plain = |op: &OwnedOp| op.action == Action::Take && op.request_id.is_none() && !op.shadow;
    plain(a) && plain(b) && a.cost == b.cost && a.quota == b.quota
}

fn put<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Batches and groups are far smaller than this can count.
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
}

fn put_operation(out: &mut Vec<u8>, op: &OwnedOp, quota: usize) {
    let what = match op.action {
        Action::Peek => 0,
        Action::Take => 1,
        Action::Hold { .. } => 2,
        Action::Settle { .. } => 3,
        Action::Return { .. } => 4,
    };
    out.push(what | u8::from(op.shadow) << 3 | u8::from(op.request_id.is_some()) << 4);
    put_count(out, quota);
    put(out, [op.cost]);
    if let Some(id) = op.request_id {
        put(out, id.bits());
    }
    match op.action {
        Action::Hold { id: HoldId(id), ttl } => {
            put(out, id);
            put(out, [ttl.as_millis()]);
        }
        Action::Settle { id: HoldId(id) } => put(out, id),
        Action::Return { since } => put(out, [since.as_millis()]),
        Action::Peek | Action::Take => {}
    }
}

const fn algorithm_number(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::TokenBucket => 1,
        Algorithm::FixedWindow => 2,
        Algorithm::SlidingWindow => 3,
        Algorithm::SlidingLog => 4,
    }
}

/// An answer of the script, read from the front.
pub(crate) struct Reply<'b> {
    rest: &'b [u8],
    /// The server's time.
    pub(crate) now: Timestamp,
}

const ALLOWED: u8 = 1;
const HELD: u8 = 2;
const AFTER: u8 = 4;
const OTHER_QUOTA: u8 = 16;
const FOREIGN: u8 = 32;
const FULL: u8 = 64;

impl<'b> Reply<'b> {
    pub(crate) fn new(mut bytes: &'b [u8]) -> Option<Self> {
        let now = Timestamp::from_millis(number(&mut bytes)?);
        Some(Self { rest: bytes, now })
    }

    /// The outcomes of the next group; none if the answer is not one of ours.
    pub(crate) fn outcomes(&mut self, group: &[OwnedOp]) -> Option<Outcomes> {
        group.iter().map(|op| self.outcome(op)).collect()
    }

    fn outcome(&mut self, op: &OwnedOp) -> Option<Outcome> {
        let (&flags, mut rest) = self.rest.split_first()?;
        let (remaining, reset, retry) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
        let mut quota = op.quota;
        if flags & OTHER_QUOTA != 0 {
            let (version, limit) = (number(&mut rest)?, number(&mut rest)?);
            let (window, capacity) = (Span::from_millis(number(&mut rest)?), number(&mut rest)?);
            quota = match quota.algorithm() {
                Algorithm::TokenBucket => Quota::token_bucket(limit, window, capacity),
                algorithm => Quota::new(algorithm, limit, window),
            }
            .ok()?
            .at_version(version);
        }
        self.rest = rest;
        if flags & FOREIGN != 0 {
            return Some(Outcome::Unavailable(Failure::Foreign));
        }
        if flags & FULL != 0 {
            return Some(Outcome::Unavailable(Failure::Full));
        }
        Some(Outcome::Verdict(Verdict {
            allowed: flags & ALLOWED != 0,
            remaining,
            reset_after: Span::from_millis(reset),
            retry: match flags & (ALLOWED | AFTER) {
                0 => Retry::Never,
                AFTER => Retry::After(Span::from_millis(retry)),
                _ => Retry::Now,
            },
            held: flags & HELD != 0,
            quota,
        }))
    }
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}
