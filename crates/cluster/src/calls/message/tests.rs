//! Everything goes there and back; nothing else gets through.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tidegate_core::quota::MAX_IN_FLIGHT;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Algorithm, HoldId, Quota, RequestId, Retry, Span, Tag, Timestamp, Verdict};
use tidegate_store::peers::{Asked, MAX_LOOK_BYTES, NodeId, Seen};
use tidegate_store::spans::Origin;
use tidegate_store::{Failure, Outcome};

use super::*;

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span::from_millis)
}

fn quota() -> impl Strategy<Value = Quota> {
    let figures = (0u64..100_000, 1u64..10_000_000, 0u64..200_000, any::<u64>());
    (prop::sample::select(&Algorithm::ALL[..]), figures).prop_map(
        |(algorithm, (limit, window, burst, version))| {
            let window = Span::from_millis(window);
            let quota = match algorithm {
                Algorithm::TokenBucket => Quota::token_bucket(limit, window, burst),
                Algorithm::InFlight => Quota::new(algorithm, limit % (MAX_IN_FLIGHT + 1), window),
                _ => Quota::new(algorithm, limit, window),
            };
            quota.unwrap().at_version(version)
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Peek),
        Just(Action::Take),
        (any::<[u64; 2]>(), span()).prop_map(|(id, ttl)| Action::Hold { id: HoldId(id), ttl }),
        any::<[u64; 2]>().prop_map(|id| Action::Settle { id: HoldId(id) }),
        any::<u64>().prop_map(|since| Action::Return { since: Timestamp::from_millis(since) }),
        Just(Action::Return { since: Timestamp::LATEST }),
    ]
}

fn seen() -> impl Strategy<Value = Seen> {
    (any::<u64>(), span(), span()).prop_map(|(used, age, reset_after)| Seen { used, age, reset_after })
}

fn asked() -> impl Strategy<Value = Asked> {
    let on_store_failure = prop::sample::select(vec![
        OnStoreFailure::Local,
        OnStoreFailure::LocalOrDeny,
        OnStoreFailure::Allow,
        OnStoreFailure::Deny,
    ]);
    let who = ("[a-z_.-]{1,128}", any::<[u64; 2]>(), option::of(any::<[u64; 2]>()));
    let how = (quota(), any::<u64>(), any::<bool>(), on_store_failure, action(), option::of(seen()));
    (who, how).prop_map(
        |((rule_id, tag, request_id), (quota, cost, shadow, on_store_failure, action, seen))| Asked {
            rule_id: rule_id.into(),
            tag: Tag::from_bits(tag),
            quota,
            cost,
            request_id: request_id.map(RequestId::from_bits),
            shadow,
            on_store_failure,
            action,
            seen,
        },
    )
}

fn an_origin() -> impl Strategy<Value = Origin> {
    let ids = (any::<[u8; 16]>(), any::<[u8; 8]>());
    ids.prop_map(|(mut trace, mut span)| {
        (trace[15], span[7]) = (trace[15].max(1), span[7].max(1));
        Origin { trace, span }
    })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        vec(asked(), 0..5).prop_map(Call::Decide),
        vec(asked(), 0..5).prop_map(Call::Store),
        (any::<u64>(), vec(asked(), 0..5))
            .prop_map(|(node, asked)| Call::Recall { node: NodeId(node), asked }),
        Just(Call::Owes),
        Just(Call::Secret),
        Just(Call::Look),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    prop::sample::select(&Failure::ALL[..])
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let retry = prop_oneof![Just(Retry::Now), span().prop_map(Retry::After), Just(Retry::Never)];
    (any::<bool>(), any::<u64>(), span(), retry, any::<bool>(), quota()).prop_map(
        |(allowed, remaining, reset_after, retry, held, quota)| Verdict {
            allowed,
            remaining,
            reset_after,
            retry,
            held,
            quota,
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        verdict().prop_map(Outcome::Verdict),
        verdict().prop_map(Outcome::Local),
        failure().prop_map(Outcome::Unavailable),
        failure().prop_map(Outcome::Unknown),
        Just(Outcome::Unasked),
    ]
}

fn answered() -> impl Strategy<Value = Answered> {
    prop_oneof![
        vec(outcome(), 0..5).prop_map(|outcomes| Ok(Reply::Outcomes(outcomes.into()))),
        vec(option::of(seen()), 0..5).prop_map(|known| Ok(Reply::Known(known))),
        any::<u64>().prop_map(|owes| Ok(Reply::Owes(owes))),
        option::of(any::<[u8; 16]>()).prop_map(|secret| Ok(Reply::Secret(secret))),
        vec(any::<u8>(), 0..99).prop_map(|look| Ok(Reply::Look(look))),
        failure().prop_map(Err),
    ]
}

/// A shape that an answer has.
fn shape_of(answered: &Answered) -> Shape {
    match answered {
        Ok(Reply::Outcomes(outcomes)) => Shape::Outcomes(outcomes.len()),
        Ok(Reply::Known(known)) => Shape::Known(known.len()),
        Ok(Reply::Owes(_)) | Err(_) => Shape::Owes,
        Ok(Reply::Secret(_)) => Shape::Secret,
        Ok(Reply::Look(_)) => Shape::Look,
    }
}

fn batch_of(calls: &[Call]) -> Vec<u8> {
    let packed: Vec<_> = calls.iter().map(|call| Packed::new(call, None).unwrap()).collect();
    write_batch(packed.iter().map(|packed| (packed, Duration::from_micros(7))))
}

fn an_asked() -> Asked {
    Asked {
        rule_id: "api".into(),
        tag: Tag::from_bits([1, 2]),
        quota: Quota::new(Algorithm::SlidingLog, 10, Span::from_secs(1)).unwrap(),
        cost: 1,
        request_id: None,
        shadow: false,
        on_store_failure: OnStoreFailure::Local,
        action: Action::Take,
        seen: None,
    }
}

proptest! {
    #[test]
    fn calls_arrive_as_they_left(calls in vec((call(), option::of(an_origin()), 0u64..60_000_000), 0..6)) {
        let packed: Vec<_> = calls.iter().map(|(call, origin, _)| Packed::new(call, *origin).unwrap()).collect();
        let patience = calls.iter().map(|(.., micros)| Duration::from_micros(*micros));
        let bytes = write_batch(packed.iter().zip(patience));
        let read: Vec<_> = read_batch(&bytes).unwrap().into_iter().map(Result::unwrap).collect();
        let sent = |(call, origin, us)| Arrived { call, origin, patience: Duration::from_micros(us) };
        let sent: Vec<_> = calls.into_iter().map(sent).collect();
        prop_assert_eq!(read, sent);
    }

    #[test]
    fn replies_arrive_as_they_left(answers in vec(answered(), 0..6)) {
        let shapes: Vec<_> = answers.iter().map(shape_of).collect();
        prop_assert_eq!(read_answers(&write_answers(&answers), &shapes).unwrap(), answers);
    }

    #[test]
    fn garbage_is_read_without_a_word(bytes in vec(any::<u8>(), 0..200)) {
        let _ = read_batch(&bytes);
        let _ = read_answers(&bytes, &[Shape::Owes]);
    }

    /// Closer to the truth than mere noise, so that more of what is read is read.
    #[test]
    fn what_was_spoilt_on_its_way_is_read_without_a_word(
        calls in vec(call(), 1..4),
        answers in vec(answered(), 1..4),
        spoilt in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
    ) {
        let spoil = |mut bytes: Vec<u8>| {
            for (index, byte) in &spoilt {
                let index = index.index(bytes.len());
                bytes[index] = *byte;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            bytes
        };
        let _ = read_batch(&spoil(batch_of(&calls)));
        let shapes: Vec<_> = answers.iter().map(shape_of).collect();
        let _ = read_answers(&spoil(write_answers(&answers)), &shapes);
    }
}

#[test]
fn what_is_no_origin_is_not_there() {
    for origin in [vec![], vec![0; 24], vec![7; 23], vec![7; 25], [vec![0; 16], vec![7; 8]].concat()] {
        let item = wire::Item { kind: 4, origin, ..wire::Item::default() };
        let mut batch = Vec::new();
        prost::encoding::message::encode(wire::ENTRIES, &item, &mut batch);
        let [Ok(Arrived { call: Call::Owes, origin: None, .. })] = &read_batch(&batch).unwrap()[..] else {
            panic!("{item:?}")
        };
    }
}

#[test]
fn lists_end_somewhere() {
    let many = |count| vec![an_asked(); count];
    assert!(Packed::new(&Call::Decide(many(MAX_OPERATIONS)), None).is_ok());
    assert!(Packed::new(&Call::Decide(many(MAX_OPERATIONS + 1)), None).is_err());
    assert!(Packed::new(&Call::Store(many(MAX_OPERATIONS + 1)), None).is_err());
    let recall = |count| Call::Recall { node: NodeId(1), asked: many(count) };
    assert!(Packed::new(&recall(MAX_RECALLS), None).is_ok());
    assert!(Packed::new(&recall(MAX_RECALLS + 1), None).is_err());
    assert!(read_batch(&batch_of(&vec![Call::Owes; MAX_ITEMS])).is_ok());
    assert!(matches!(read_batch(&batch_of(&vec![Call::Owes; MAX_ITEMS + 1])), Err(Unreadable::TooMany(_))));
}

/// What comes of one call that somebody else has written.
fn read_foreign(kind: u32, operations: &[wire::Operation]) -> Result<Call, Unreadable> {
    use prost::Message;
    let mut item = wire::Item { patience_us: 1, kind, ..wire::Item::default() }.encode_to_vec();
    for operation in operations {
        prost::encoding::message::encode(wire::OPERATIONS, operation, &mut item);
    }
    let mut batch = Vec::new();
    prost::encoding::bytes::encode(wire::ENTRIES, &item, &mut batch);
    read_batch(&batch).unwrap().remove(0).map(|arrived| arrived.call)
}

#[test]
fn what_could_not_have_been_built_here_is_refused() {
    use wire::{Bits, Operation, Quota};
    let quota = Quota { algorithm: 1, limit: 5, window_ms: 1_000, capacity: 9, version: 3 };
    let good = Operation {
        rule_id: "api".into(),
        tag: Some(Bits { first: 1, second: 2 }),
        quota: Some(quota),
        cost: 1,
        on_store_failure: 1,
        action: 2,
        ..Operation::default()
    };
    let bad = |change: &dyn Fn(&mut Operation)| {
        let mut operation = good.clone();
        change(&mut operation);
        read_foreign(1, &[operation])
    };
    assert!(bad(&|_| {}).is_ok());
    let with = |quota| bad(&move |op: &mut Operation| op.quota = Some(quota));
    assert!(matches!(with(Quota { window_ms: 0, ..quota }), Err(Unreadable::Quota(_))));
    assert!(matches!(
        with(Quota { limit: u64::MAX, capacity: u64::MAX, ..quota }),
        Err(Unreadable::Quota(_))
    ));
    assert!(matches!(with(Quota { algorithm: 0, ..quota }), Err(Unreadable::Unknown("algorithm"))));
    assert!(matches!(with(Quota { capacity: 4, ..quota }), Err(Unreadable::Unknown("capacity"))));
    assert!(matches!(with(Quota { algorithm: 2, ..quota }), Err(Unreadable::Unknown("capacity"))));
    assert!(matches!(bad(&|op| op.quota = None), Err(Unreadable::Missing("quota"))));
    assert!(matches!(bad(&|op| op.tag = None), Err(Unreadable::Missing("tag"))));
    assert!(matches!(bad(&|op| op.rule_id = String::new()), Err(Unreadable::RuleId)));
    assert!(matches!(bad(&|op| op.rule_id = "x".repeat(129)), Err(Unreadable::RuleId)));
    assert!(matches!(bad(&|op| op.action = 9), Err(Unreadable::Unknown("action"))));
    assert!(matches!(bad(&|op| op.action = 4), Err(Unreadable::Missing("hold"))));
    assert!(matches!(bad(&|op| op.on_store_failure = 0), Err(Unreadable::Unknown(_))));
    assert!(matches!(read_foreign(0, &[]), Err(Unreadable::Unknown("call"))));
    assert!(matches!(read_foreign(1, &vec![good.clone(); 65]), Err(Unreadable::TooMany(64))));
    assert!(matches!(read_foreign(3, &vec![good.clone(); 4_097]), Err(Unreadable::TooMany(4_096))));
}

#[test]
fn one_bad_call_does_not_spoil_the_others() {
    let mut bytes = batch_of(&[Call::Owes]);
    bytes.extend_from_slice(&[0x0a, 0x01, 0xff]);
    bytes.extend_from_slice(&batch_of(&[Call::Secret]));
    let read = read_batch(&bytes).unwrap();
    let [Ok(first), Err(Unreadable::Protobuf(_)), Ok(last)] = &read[..] else { panic!("{read:?}") };
    assert_eq!((&first.call, &last.call), (&Call::Owes, &Call::Secret));
}

#[test]
fn a_reply_that_answers_something_else_is_none() {
    let read =
        |answered: Answered, shape| read_answers(&write_answers([&answered]), &[shape]).unwrap().remove(0);
    let outcomes = || Ok(Reply::Outcomes(smallvec::smallvec![Outcome::Unasked]));
    assert_eq!(read(outcomes(), Shape::Outcomes(1)), outcomes());
    assert_eq!(read(outcomes(), Shape::Outcomes(2)), Err(Failure::Other));
    assert_eq!(read(outcomes(), Shape::Owes), Err(Failure::Other));
    assert_eq!(read(Ok(Reply::Known(vec![None])), Shape::Known(2)), Err(Failure::Other));
    assert!(read_answers(&write_answers([&outcomes()]), &[]).is_err(), "one more than was asked");
    assert!(read_answers(&[], &[Shape::Owes]).is_err());
}

#[test]
fn a_look_is_bounded() {
    for (length, expected) in [(MAX_LOOK_BYTES, MAX_LOOK_BYTES), (MAX_LOOK_BYTES + 1, 0)] {
        let bytes = write_answers([&Ok(Reply::Look(vec![7; length]))]);
        let read = read_answers(&bytes, &[Shape::Look]).unwrap();
        assert!(matches!(&read[..], [Ok(Reply::Look(look))] if look.len() == expected), "{length}");
    }
    let head = wire::Answer { kind: 6, look: vec![7; MAX_LOOK_BYTES + 1], ..wire::Answer::default() };
    let mut bytes = Vec::new();
    prost::encoding::message::encode(wire::ENTRIES, &head, &mut bytes);
    assert_eq!(read_answers(&bytes, &[Shape::Look]).unwrap(), [Err(Failure::Other)]);
}
