use std::sync::Arc;

use proptest::prelude::*;
use tidegate_core::Timestamp;

use super::*;
use crate::keyring::{Keyring, SharedKeyring};

const OLD: &str = "the-old-secret-that-is-long-enough";
const NEW: &str = "the-new-secret-that-is-long-enough";
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn ring(secrets: &[&str]) -> SharedKeyring {
    Keyring::parse(&secrets.join("\n")).unwrap().shared()
}

fn pair() -> (Sealer, Opener) {
    let ring = ring(&[OLD]);
    (Sealer::new(Arc::clone(&ring)).unwrap(), Opener::new(ring))
}

fn later(ms: u64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + ms)
}

fn purpose() -> impl Strategy<Value = Purpose> {
    prop_oneof![Just(Purpose::Gossip), Just(Purpose::Call), Just(Purpose::Reply)]
}

proptest! {
    #[test]
    fn what_is_sealed_opens_once(
        purpose in purpose(),
        bound in prop::collection::vec(any::<u8>(), 0..40),
        plain in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let (sealer, opener) = pair();
        let sealed = sealer.seal(purpose, &bound, &plain, NOW);
        prop_assert_eq!(opener.open(purpose, &bound, &sealed, NOW), Ok(plain));
        prop_assert_eq!(opener.open(purpose, &bound, &sealed, NOW), Err(Unopened::Replayed));
    }

    #[test]
    fn garbage_is_refused_and_leaves_nothing_behind(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, opener) = pair();
        prop_assert!(opener.open(Purpose::Gossip, &[], &garbage, NOW).is_err());
        prop_assert_eq!(opener.sessions(), 0);
    }

    #[test]
    fn nothing_opens_as_something_else(
        (purpose, other) in (purpose(), purpose()),
        bound in prop::collection::vec(any::<u8>(), 0..4),
        other_bound in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        prop_assume!((purpose, &bound) != (other, &other_bound));
        let (sealer, opener) = pair();
        let sealed = sealer.seal(purpose, &bound, b"plain", NOW);
        prop_assert_eq!(opener.open(other, &other_bound, &sealed, NOW), Err(Unopened::Stranger));
        prop_assert_eq!(opener.sessions(), 0);
        prop_assert!(opener.open(purpose, &bound, &sealed, NOW).is_ok());
    }

    #[test]
    fn order_does_not_matter_and_repeats_do(order in prop::collection::vec(0_usize..40, 1..200)) {
        let (sealer, opener) = pair();
        let sealed: Vec<_> = (0..40_u8).map(|n| sealer.seal(Purpose::Call, &[], &[n], NOW)).collect();
        let mut came = [false; 40];
        for n in order {
            let expected = if came[n] { Err(Unopened::Replayed) } else { Ok(vec![u8::try_from(n).unwrap()]) };
            prop_assert_eq!(opener.open(Purpose::Call, &[], &sealed[n], NOW), expected);
            came[n] = true;
        }
    }

    #[test]
    fn clocks_may_differ_by_half_a_minute(ms in 0_u64..100_000, ahead: bool) {
        let (sealer, opener) = pair();
        let (then, now) = if ahead { (later(ms), NOW) } else { (NOW, later(ms)) };
        let sealed = sealer.seal(Purpose::Gossip, &[], b"plain", then);
        let opened = opener.open(Purpose::Gossip, &[], &sealed, now);
        prop_assert_eq!(opened, if ms > 30_000 { Err(Unopened::Stale) } else { Ok(b"plain".to_vec()) });
    }
}

#[test]
fn a_forged_time_says_nothing_about_clocks() {
    let (sealer, opener) = pair();
    let sealed = sealer.seal(Purpose::Gossip, &[], b"plain", NOW);
    for time in [0, NOW.as_millis() - 31_000, NOW.as_millis() + 31_000, u64::MAX] {
        let mut forged = sealed.clone();
        forged[header::LENGTH - 8..header::LENGTH].copy_from_slice(&time.to_be_bytes());
        assert_eq!(opener.open(Purpose::Gossip, &[], &forged, NOW), Err(Unopened::Stranger), "{time}");
    }
    // An authentic message that is too old leaves nothing behind either.
    assert_eq!(opener.open(Purpose::Gossip, &[], &sealed, later(31_000)), Err(Unopened::Stale));
    assert_eq!(opener.sessions(), 0);
    assert!(opener.open(Purpose::Gossip, &[], &sealed, NOW).is_ok());
}

#[test]
fn no_bit_can_be_turned() {
    let (sealer, opener) = pair();
    let sealed = sealer.seal(Purpose::Call, b"bound", b"what one node asks another", NOW);
    for bit in 0..sealed.len() * 8 {
        let mut turned = sealed.clone();
        turned[bit / 8] ^= 1 << (bit % 8);
        assert!(opener.open(Purpose::Call, b"bound", &turned, NOW).is_err(), "bit {bit}");
    }
    for length in 0..sealed.len() {
        assert!(opener.open(Purpose::Call, b"bound", &sealed[..length], NOW).is_err(), "{length} bytes");
    }
    assert_eq!(opener.sessions(), 0);
    assert!(opener.open(Purpose::Call, b"bound", &sealed, NOW).is_ok());
}

#[test]
fn nothing_that_is_sealed_can_be_read_or_looks_alike() {
    let (sealer, _) = pair();
    let plain = b"what one node asks another";
    let one = sealer.seal(Purpose::Call, &[], plain, NOW);
    let two = sealer.seal(Purpose::Call, &[], plain, NOW);
    assert!(!one.windows(8).any(|seen| plain.windows(8).any(|part| part == seen)));
    assert_ne!(one[header::LENGTH..], two[header::LENGTH..]);
}

#[test]
fn another_secret_does_not_open() {
    let (sealer, _) = pair();
    let opener = Opener::new(ring(&[NEW]));
    let sealed = sealer.seal(Purpose::Gossip, &[], b"plain", NOW);
    assert_eq!(opener.open(Purpose::Gossip, &[], &sealed, NOW), Err(Unopened::Stranger));
}

/// Both know both; then all seal with the new one; then the old one goes. Nothing is refused on the way.
#[test]
fn secrets_are_exchanged_without_a_pause() {
    let (ours, theirs) = (ring(&[OLD]), ring(&[OLD]));
    let (sealer, opener) = (Sealer::new(Arc::clone(&ours)).unwrap(), Opener::new(Arc::clone(&theirs)));
    let mut kept = Vec::new();
    for (us, them) in [(&[OLD][..], &[OLD, NEW][..]), (&[NEW, OLD], &[OLD, NEW]), (&[NEW], &[NEW])] {
        ours.store(ring(us).load_full());
        theirs.store(ring(them).load_full());
        for plain in [b"one", b"two"] {
            let sealed = sealer.seal(Purpose::Call, &[], plain, NOW);
            assert_eq!(opener.open(Purpose::Call, &[], &sealed, NOW), Ok(plain.to_vec()), "{us:?} {them:?}");
            kept.push(sealed);
        }
    }
    // The old secret is gone, and with it all that it sealed; what the new one sealed was opened.
    let refused = kept.iter().map(|sealed| opener.open(Purpose::Call, &[], sealed, NOW).unwrap_err());
    let (old, new) = (Unopened::Stranger, Unopened::Replayed);
    assert_eq!(refused.collect::<Vec<_>>(), [old, old, new, new, new, new]);
}

#[test]
fn gossip_does_not_push_calls_out_of_the_window() {
    let (sealer, opener) = pair();
    let call = sealer.seal(Purpose::Call, &[], b"call", NOW);
    for _ in 0..2 * window::WIDTH {
        let gossip = sealer.seal(Purpose::Gossip, &[], b"gossip", NOW);
        assert!(opener.open(Purpose::Gossip, &[], &gossip, NOW).is_ok());
    }
    assert!(opener.open(Purpose::Call, &[], &call, NOW).is_ok());
}

#[test]
fn those_silent_for_longest_are_forgotten() {
    let ring = ring(&[OLD]);
    let opener = Opener::new(Arc::clone(&ring));
    let greet = |at| {
        let sealed = Sealer::new(Arc::clone(&ring)).unwrap().seal(Purpose::Gossip, &[], b"I am here", at);
        assert!(opener.open(Purpose::Gossip, &[], &sealed, at).is_ok());
        sealed
    };
    let first = greet(NOW);
    (1..5000).for_each(|ms| drop(greet(later(ms))));
    assert_eq!(opener.sessions(), 4096);
    greet(later(64_000));
    assert!(opener.sessions() < 2000);
    assert_eq!(opener.open(Purpose::Gossip, &[], &first, later(64_000)), Err(Unopened::Stale));
}
