//! Replies: what came of each call of a batch.

use prost::Message;
use prost::encoding::{self, WireType, encode_key, encode_varint};
use tidegate_core::{Retry, Span, Verdict};
use tidegate_store::peers::{MAX_LOOK_BYTES, Reply};
use tidegate_store::{Failure, Outcome};

use super::figures::{read_failure, read_quota, read_seen, write_quota, write_seen};
use super::{MAX_ITEMS, MAX_OPERATIONS, MAX_RECALLS, Shape, Unreadable, wire};

/// What came of a call: a reply, or why there is none.
pub(crate) type Answered = Result<Reply, Failure>;

/// The answers to a batch, in the order of its calls, as one message.
pub(crate) fn write_answers<'r>(answers: impl IntoIterator<Item = &'r Answered>) -> Vec<u8> {
    let (mut all, mut one) = (Vec::new(), Vec::new());
    for answer in answers {
        one.clear();
        write_answer(answer, &mut one);
        encode_key(wire::ENTRIES, WireType::LengthDelimited, &mut all);
        encode_varint(one.len() as u64, &mut all);
        all.extend_from_slice(&one);
    }
    all
}

/// What came of the calls that have these shapes. What does not answer its call counts as no answer.
pub(crate) fn read_answers(bytes: &[u8], shapes: &[Shape]) -> Result<Vec<Answered>, Unreadable> {
    let pieces = wire::pieces(bytes, wire::ENTRIES, MAX_ITEMS)?;
    if pieces.len() != shapes.len() {
        return Err(Unreadable::Missing("answer"));
    }
    let answered = pieces.into_iter().zip(shapes).map(|(bytes, shape)| match read_answer(bytes) {
        Ok(Ok(reply)) if shape.fits(&reply) => Ok(reply),
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(_)) | Err(_) => Err(Failure::Other),
    });
    Ok(answered.collect())
}

fn write_answer(answer: &Answered, bytes: &mut Vec<u8>) {
    let mut head = wire::Answer::default();
    match answer {
        Ok(Reply::Outcomes(_)) => head.kind = 1,
        Ok(Reply::Known(_)) => head.kind = 2,
        Ok(Reply::Owes(owes)) => (head.kind, head.owes) = (3, *owes),
        Ok(Reply::Secret(secret)) => (head.kind, head.secret) = (4, secret.map(Vec::from)),
        Err(failure) => (head.kind, head.failure) = (5, failure.name().into()),
        // One that nobody would read tells nothing; it must not keep others from being read, either.
        Ok(Reply::Look(look)) if look.len() > MAX_LOOK_BYTES => head.kind = 6,
        Ok(Reply::Look(look)) => (head.kind, head.look) = (6, look.clone()),
    }
    head.encode_raw(bytes);
    match answer {
        Ok(Reply::Outcomes(outcomes)) => {
            for outcome in outcomes {
                encoding::message::encode(wire::OUTCOMES, &write_outcome(outcome), bytes);
            }
        }
        Ok(Reply::Known(known)) => {
            for seen in known {
                let known = wire::Known { seen: seen.map(write_seen) };
                encoding::message::encode(wire::KNOWN, &known, bytes);
            }
        }
        Ok(Reply::Owes(_) | Reply::Secret(_) | Reply::Look(_)) | Err(_) => {}
    }
}

fn read_answer(bytes: &[u8]) -> Result<Answered, Unreadable> {
    let head = wire::Answer::decode(bytes)?;
    Ok(Ok(match head.kind {
        1 => {
            let pieces = wire::pieces(bytes, wire::OUTCOMES, MAX_OPERATIONS)?;
            Reply::Outcomes(pieces.into_iter().map(read_outcome).collect::<Result<_, _>>()?)
        }
        2 => {
            let known = |bytes| Ok(wire::Known::decode(bytes)?.seen.map(read_seen));
            let pieces = wire::pieces(bytes, wire::KNOWN, MAX_RECALLS)?;
            Reply::Known(pieces.into_iter().map(known).collect::<Result<_, Unreadable>>()?)
        }
        3 => Reply::Owes(head.owes),
        4 => {
            let secret = head.secret.map(<[u8; 16]>::try_from).transpose();
            Reply::Secret(secret.map_err(|_| Unreadable::Unknown("secret"))?)
        }
        5 => return Ok(Err(read_failure(&head.failure))),
        6 if head.look.len() > MAX_LOOK_BYTES => return Err(Unreadable::TooMany(MAX_LOOK_BYTES)),
        6 => Reply::Look(head.look),
        _ => return Err(Unreadable::Unknown("answer")),
    }))
}

fn write_outcome(outcome: &Outcome) -> wire::Outcome {
    let decided = |kind, verdict: &Verdict| (kind, Some(write_verdict(verdict)), String::new());
    let failed = |kind, failure: &Failure| (kind, None, failure.name().into());
    let (kind, verdict, failure) = match outcome {
        Outcome::Verdict(verdict) => decided(1, verdict),
        Outcome::Local(verdict) => decided(2, verdict),
        Outcome::Unavailable(failure) => failed(3, failure),
        Outcome::Unknown(failure) => failed(4, failure),
        Outcome::Unasked => (5, None, String::new()),
    };
    wire::Outcome { kind, verdict, failure }
}

fn read_outcome(bytes: &[u8]) -> Result<Outcome, Unreadable> {
    let told = wire::Outcome::decode(bytes)?;
    let verdict = || read_verdict(told.verdict.ok_or(Unreadable::Missing("verdict"))?);
    Ok(match told.kind {
        1 => Outcome::Verdict(verdict()?),
        2 => Outcome::Local(verdict()?),
        3 => Outcome::Unavailable(read_failure(&told.failure)),
        4 => Outcome::Unknown(read_failure(&told.failure)),
        5 => Outcome::Unasked,
        _ => return Err(Unreadable::Unknown("outcome")),
    })
}

fn write_verdict(verdict: &Verdict) -> wire::Verdict {
    let (retry, retry_after_ms) = match verdict.retry {
        Retry::Now => (1, 0),
        Retry::After(span) => (2, span.as_millis()),
        Retry::Never => (3, 0),
    };
    wire::Verdict {
        allowed: verdict.allowed,
        remaining: verdict.remaining,
        reset_after_ms: verdict.reset_after.as_millis(),
        retry,
        retry_after_ms,
        held: verdict.held,
        quota: Some(write_quota(verdict.quota)),
    }
}

fn read_verdict(told: wire::Verdict) -> Result<Verdict, Unreadable> {
    Ok(Verdict {
        allowed: told.allowed,
        remaining: told.remaining,
        reset_after: Span::from_millis(told.reset_after_ms),
        retry: match told.retry {
            1 => Retry::Now,
            2 => Retry::After(Span::from_millis(told.retry_after_ms)),
            3 => Retry::Never,
            _ => return Err(Unreadable::Unknown("retry")),
        },
        held: told.held,
        quota: read_quota(told.quota)?,
    })
}
