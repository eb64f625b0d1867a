//! What the store last said about keys, as far as there is room.

use parking_lot::Mutex;
use tidegate_core::Timestamp;

/// How many locks there are.
const STRIPES: usize = 1024;

/// How many keys each has room for: 131,072 in all, in about 5 MB.
const SLOTS: usize = 128;

/// A table in which each key has one place, and the last one to come has it.
pub(super) struct LastSeen {
    stripes: Box<[Mutex<[Slot; SLOTS]>]>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    fingerprint: [u64; 2],
    remaining: u64,
    at: u64,
    /// Whether counting has gone on from here already.
    used: bool,
}

impl LastSeen {
    pub(super) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::new([Slot::default(); SLOTS])).collect() }
    }

    /// Takes note of what is left of a key.
    pub(super) fn learn(&self, fingerprint: [u64; 2], remaining: u64, now: Timestamp) {
        let slot = Slot { fingerprint, remaining, at: now.as_millis(), used: false };
        let (stripe, place) = self.find(fingerprint);
        stripe.lock()[place] = slot;
    }

    /// What was left of a key, and when, unless it was asked for since.
    pub(super) fn not_yet_used(&self, fingerprint: [u64; 2]) -> Option<(u64, Timestamp)> {
        let (stripe, place) = self.find(fingerprint);
        let mut slots = stripe.lock();
        let slot = &mut slots[place];
        if slot.fingerprint != fingerprint || slot.used {
            return None;
        }
        slot.used = true;
        Some((slot.remaining, Timestamp::from_millis(slot.at)))
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of the fingerprint will do")]
    fn find(&self, fingerprint: [u64; 2]) -> (&Mutex<[Slot; SLOTS]>, usize) {
        (&self.stripes[fingerprint[0] as usize % STRIPES], fingerprint[1] as usize % SLOTS)
    }
}
