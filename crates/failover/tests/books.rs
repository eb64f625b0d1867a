//! Books, ledgers and messages: what must hold however often and in whatever order things arrive.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::{Algorithm, Quota, RequestId, Span, Tag, Timestamp};
use tidegate_failover::{
    Amount, Book, BookReply, CallName, Cancellation, Charge, CounterKey, Draw, Envelope, Epoch, Message,
    NodeName, Phase, Pid, StoreCall, StoreRequest,
};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn key() -> CounterKey {
    CounterKey { part: 0, tag: Tag::from_bits([1, 2]), rule: [3, 4] }
}

fn pid(order: u64) -> Pid {
    Pid::new(NodeName(1), order, 9)
}

fn quota(algorithm: Algorithm) -> Quota {
    Quota::new(algorithm, 10, Span::from_secs(60)).unwrap()
}

fn draw(algorithm: Algorithm, number: u64, id: Option<u64>) -> Draw {
    Draw {
        key: key(),
        quota: quota(algorithm),
        cost: 1,
        want: 0,
        id: id.map(|id| RequestId::from_bits([id, id])),
        epoch: Epoch::new(Phase(0), 0),
        name: CallName { by: pid(1), number },
    }
}

fn cancellation(draw: &Draw) -> Cancellation {
    let Draw { key, cost, epoch, name, .. } = *draw;
    Cancellation { key, id: draw.id.unwrap(), cost, epoch, name }
}

fn used(book: &Book) -> u64 {
    book.balance(key(), NOW).map_or(0, |(quota, balance)| balance.used(&quota))
}

fn is_replay(reply: &BookReply) -> bool {
    matches!(reply, BookReply::Granted { replay: true, .. })
}

#[test]
fn a_repeated_cancellation_leaves_the_retry_alone() {
    let mut book = Book::new(10);
    let (first, retry) = (draw(Algorithm::FixedWindow, 1, Some(7)), draw(Algorithm::FixedWindow, 2, Some(7)));
    book.take(&first, NOW);
    assert!(book.cancel(&cancellation(&first), NOW).is_some());
    assert!(!is_replay(&book.take(&retry, NOW)));
    assert!(book.cancel(&cancellation(&first), NOW).is_none(), "the retry has its own name");
    assert_eq!(used(&book), 1);
}

#[test]
fn a_replayed_id_cannot_be_cancelled_and_is_free_in_its_own_epoch_only() {
    let mut book = Book::new(10);
    let first = draw(Algorithm::FixedWindow, 1, Some(7));
    book.take(&first, NOW);
    assert!(is_replay(&book.take(&draw(Algorithm::FixedWindow, 2, Some(7)), NOW)));
    assert!(book.cancel(&cancellation(&first), NOW).is_none());
    let later = Draw { epoch: Epoch::new(Phase(2), 0), ..draw(Algorithm::FixedWindow, 3, Some(7)) };
    assert!(!is_replay(&book.take(&later, NOW)));
    assert_eq!(used(&book), 2);
}

#[test]
fn a_bucket_gives_nothing_back_that_an_owners_level_may_have_covered() {
    let mut book = Book::new(10);
    let first = draw(Algorithm::TokenBucket, 1, Some(7));
    book.take(&first, NOW);
    book.cancel(&cancellation(&first), NOW);
    assert_eq!(used(&book), 1);
}

#[test]
fn a_book_is_lent_from_only_while_a_quarter_stays_free() {
    let mut book = Book::new(10);
    let want = |want| Draw { want, ..draw(Algorithm::FixedWindow, 1, None) };
    let units = |reply| match reply {
        BookReply::Granted { units, .. } => units,
        _ => 0,
    };
    assert_eq!(units(book.take(&want(2), NOW)), 3);
    assert_eq!(units(book.take(&want(4), NOW)), 1, "3 + 5 leaves less than a quarter of 10");
    assert_eq!(units(book.take(&want(2), NOW)), 3);
}

#[test]
fn a_full_book_refuses_new_keys_and_keeps_the_old() {
    let mut book = Book::new(1);
    let first = draw(Algorithm::FixedWindow, 1, None);
    book.take(&first, NOW);
    let other = Draw { key: CounterKey { rule: [9, 9], ..key() }, ..first };
    assert_eq!(book.take(&other, NOW), BookReply::NotNow);
    assert!(matches!(book.take(&first, NOW), BookReply::Granted { .. }));
}

fn charge(seq: u64, total: i64) -> Charge {
    let quota = quota(Algorithm::FixedWindow);
    let slot = NOW.as_millis() / quota.window().as_millis();
    Charge { key: key(), quota, slot, by: pid(1), seq, amount: Amount::Units(total) }
}

proptest! {
    /// Named charges: whatever is repeated, lost or reordered, the last one counts once it has arrived.
    #[test]
    fn charges_count_once(totals in prop::collection::vec(0i64..9, 1..6), order in prop::collection::vec(0usize..6, 0..20)) {
        let charges: Vec<Charge> = (1..).zip(&totals).map(|(seq, total)| charge(seq, *total)).collect();
        let mut book = Book::new(10);
        for index in order {
            if let Some(charge) = charges.get(index) {
                book.charge(charge, NOW);
            }
        }
        book.charge(charges.last().unwrap(), NOW);
        prop_assert_eq!(used(&book), u64::try_from(*totals.last().unwrap()).unwrap());
    }
}

#[test]
fn messages_survive_the_wire() {
    let request = StoreRequest {
        part: 1,
        origin: pid(3),
        call: 9,
        sent: Duration::from_micros(77),
        epoch: Epoch::new(Phase(3), 5),
        body: StoreCall::Take(draw(Algorithm::SlidingWindow, 1, Some(7))),
    };
    let reply = request.apply(&mut Book::new(10), NOW);
    for message in [Message::Relay(request), Message::Relayed { reply, stale: true }, Message::HandoverDone] {
        let envelope = Envelope { from: pid(1), to: Some(pid(2)), message };
        let bytes = postcard::to_allocvec(&envelope).unwrap();
        assert_eq!(postcard::from_bytes::<Envelope>(&bytes).unwrap(), envelope);
    }
}
