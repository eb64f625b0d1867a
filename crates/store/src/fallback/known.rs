//! What was last heard about keys, as far as there is room: from the store, or from whoever counts in its place.

use parking_lot::Mutex;
use tidegate_core::{Span, Timestamp, Verdict};

use crate::peers::{NodeId, Seen};

/// How many keys there is room for at most, in about 11 MB.
const MAX_SLOTS: usize = 131_072;

/// How many keys share a lock.
const SLOTS: usize = 128;

/// What was heard at two places within this time may have been heard in either order.
const AT_ONCE: u64 = 1_000;

/// Nobody has told yet.
const NOBODY: u64 = 0;

/// No outage has this number.
pub(super) const NEVER: u64 = 0;

/// A table in which each key has one place, and the last one to come has it.
pub(super) struct Known {
    stripes: Box<[Mutex<[Slot; SLOTS]>]>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    fingerprint: [u64; 2],
    used: u64,
    at: u64,
    /// When it is as if never used.
    rest_at: u64,
    /// The node that said so; nobody if it was the store.
    from: u64,
    /// In which era everybody was asked about it, and counting has gone on from there.
    era: u64,
    /// Where counting began here.
    base: Base,
}

/// Where counting a key began here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    /// In which outage.
    pub(super) outage: u64,
    /// What was taken to be gone.
    pub(super) gone: u64,
    /// What was taken here beyond what anybody had said, and when: to be given back once it is known to be wrong.
    pub(super) assumed: u64,
    pub(super) at: Timestamp,
}

impl Slot {
    fn is_at_rest(&self, at: u64) -> bool {
        self.used == 0 || self.rest_at <= at
    }
}

impl Known {
    /// A table for so many keys, if that is not too many.
    pub(super) fn new(keys: usize) -> Self {
        let stripes = keys.min(MAX_SLOTS).div_ceil(SLOTS).max(1);
        Self { stripes: (0..stripes).map(|_| Mutex::new([Slot::default(); SLOTS])).collect() }
    }

    /// Takes note of what the store says about a key, or the node that counts it.
    pub(super) fn learn(
        &self,
        fingerprint: [u64; 2],
        verdict: &Verdict,
        from: Option<NodeId>,
        now: Timestamp,
    ) {
        let at = now.as_millis();
        let (stripe, place) = self.find(fingerprint);
        let slot = &mut stripe.lock()[place];
        let base = if slot.fingerprint == fingerprint { slot.base } else { Base::default() };
        *slot = Slot {
            fingerprint,
            // Counting begins anew, but what was assumed is still in the counter.
            base: Base { outage: NEVER, ..base },
            used: verdict.used(),
            at,
            rest_at: at.saturating_add(verdict.reset_after.as_millis()),
            from: from.map_or(NOBODY, |node| node.0),
            ..Slot::default()
        };
    }

    /// Takes note of what another node last heard. The later word counts; of two at once, the worse.
    pub(super) fn merge(&self, fingerprint: [u64; 2], seen: Seen, now: Timestamp) {
        let at = now.as_millis().saturating_sub(seen.age.as_millis());
        let rest_at = at.saturating_add(seen.reset_after.as_millis());
        let told = Slot { fingerprint, used: seen.used, at, rest_at, ..Slot::default() };
        let (stripe, place) = self.find(fingerprint);
        let mut slots = stripe.lock();
        let slot = &mut slots[place];
        if slot.fingerprint != fingerprint {
            *slot = told;
            return;
        }
        let Slot { used, era, base, .. } = *slot;
        if slot.is_at_rest(told.at) {
            *slot = told;
        } else if told.is_at_rest(slot.at) {
            return;
        } else if slot.at.abs_diff(told.at) <= AT_ONCE {
            slot.used = slot.used.max(told.used);
            (slot.at, slot.rest_at) = (slot.at.max(told.at), slot.rest_at.max(told.rest_at));
        } else if told.at > slot.at {
            *slot = told;
        }
        // Whatever is worse than was thought has to be gone on from.
        slot.era = if slot.used > used { 0 } else { era };
        slot.base = base;
    }

    /// What was last heard of a key, unless it is at rest by now.
    pub(super) fn recall(&self, fingerprint: [u64; 2], now: Timestamp) -> Option<Seen> {
        let (stripe, place) = self.find(fingerprint);
        let slot = stripe.lock()[place];
        let known = slot.fingerprint == fingerprint && !slot.is_at_rest(now.as_millis());
        known.then(|| Seen {
            used: slot.used,
            age: Span::from_millis(now.as_millis().saturating_sub(slot.at)),
            reset_after: Span::from_millis(slot.rest_at.saturating_sub(slot.at)),
        })
    }

    /// The same, unless it was heard from `node`, which need not be told what it said.
    pub(super) fn news_to(&self, node: NodeId, fingerprint: [u64; 2], now: Timestamp) -> Option<Seen> {
        let (stripe, place) = self.find(fingerprint);
        let from = stripe.lock()[place].from;
        if from == node.0 { None } else { self.recall(fingerprint, now) }
    }

    /// Where counting a key last began here.
    pub(super) fn base(&self, fingerprint: [u64; 2]) -> Base {
        let (stripe, place) = self.find(fingerprint);
        let slot = stripe.lock()[place];
        if slot.fingerprint == fingerprint { slot.base } else { Base::default() }
    }

    pub(super) fn set_base(&self, fingerprint: [u64; 2], base: Base) {
        self.change(fingerprint, |slot| slot.base = base);
    }

    /// Whether everybody was asked about a key in this era.
    pub(super) fn is_complete(&self, fingerprint: [u64; 2], era: u64) -> bool {
        let (stripe, place) = self.find(fingerprint);
        let slot = stripe.lock()[place];
        slot.fingerprint == fingerprint && slot.era == era
    }

    /// Takes note that everybody was asked about a key in this era.
    pub(super) fn complete(&self, fingerprint: [u64; 2], era: u64) {
        self.change(fingerprint, |slot| slot.era = era);
    }

    fn change(&self, fingerprint: [u64; 2], change: impl FnOnce(&mut Slot)) {
        let (stripe, place) = self.find(fingerprint);
        let slot = &mut stripe.lock()[place];
        if slot.fingerprint != fingerprint {
            *slot = Slot { fingerprint, ..Slot::default() };
        }
        change(slot);
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of the fingerprint will do")]
    fn find(&self, fingerprint: [u64; 2]) -> (&Mutex<[Slot; SLOTS]>, usize) {
        (&self.stripes[fingerprint[0] as usize % self.stripes.len()], fingerprint[1] as usize % SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Algorithm, Quota, Retry};

    use super::*;

    const KEY: [u64; 2] = [7, 9];

    fn verdict(used: u64, reset_after: u64) -> Verdict {
        let quota = Quota::new(Algorithm::FixedWindow, 100, Span::from_secs(60)).unwrap();
        let (remaining, reset_after) = (100 - used, Span::from_millis(reset_after));
        Verdict { allowed: true, remaining, reset_after, retry: Retry::Now, held: false, quota }
    }

    fn seen(used: u64, age: u64, reset_after: u64) -> Seen {
        Seen { used, age: Span::from_millis(age), reset_after: Span::from_millis(reset_after) }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn the_later_word_counts_and_of_two_at_once_the_worse() {
        let known = Known::new(1_000);
        known.learn(KEY, &verdict(50, 60_000), None, at(100_000));
        known.merge(KEY, seen(70, 5_000, 60_000), at(101_000));
        assert_eq!(
            known.recall(KEY, at(101_000)).map(|seen| seen.used),
            Some(50),
            "what is older says nothing"
        );
        known.merge(KEY, seen(40, 500, 60_000), at(101_000));
        assert_eq!(known.recall(KEY, at(101_000)).map(|seen| seen.used), Some(50));
        known.merge(KEY, seen(60, 500, 60_000), at(101_000));
        assert_eq!(known.recall(KEY, at(101_000)), Some(seen(60, 500, 60_000)));
        known.merge(KEY, seen(10, 0, 60_000), at(105_000));
        assert_eq!(known.recall(KEY, at(105_000)).map(|seen| seen.used), Some(10));
    }

    #[test]
    fn a_window_that_has_ended_says_nothing() {
        let known = Known::new(1_000);
        known.learn(KEY, &verdict(100, 100), None, at(59_900));
        known.merge(KEY, seen(1, 0, 59_900), at(60_100));
        assert_eq!(known.recall(KEY, at(60_100)).map(|seen| seen.used), Some(1));
        known.merge(KEY, seen(100, 300, 100), at(60_200));
        assert_eq!(known.recall(KEY, at(60_200)).map(|seen| seen.used), Some(1));
        assert_eq!(known.recall(KEY, at(120_000)), None);
    }

    #[test]
    fn nobody_is_told_what_it_said() {
        let known = Known::new(1_000);
        known.learn(KEY, &verdict(50, 60_000), Some(NodeId(3)), at(1_000));
        assert_eq!(known.news_to(NodeId(3), KEY, at(1_000)), None);
        assert_eq!(known.news_to(NodeId(4), KEY, at(1_000)).map(|seen| seen.used), Some(50));
    }

    #[test]
    fn an_era_ends_when_the_store_is_heard_again() {
        let known = Known::new(1_000);
        known.complete(KEY, 5);
        assert!(known.is_complete(KEY, 5) && !known.is_complete(KEY, 6));
        known.merge(KEY, seen(50, 0, 60_000), at(1_000));
        assert!(!known.is_complete(KEY, 5), "that was not known");
        known.complete(KEY, 5);
        known.merge(KEY, seen(40, 0, 60_000), at(1_000));
        assert!(known.is_complete(KEY, 5), "that was");
        known.learn(KEY, &verdict(50, 60_000), None, at(1_000));
        assert!(!known.is_complete(KEY, 5));
    }
}
