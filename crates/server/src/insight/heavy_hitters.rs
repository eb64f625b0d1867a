//! Who is counted most, in bounded memory: the SpaceSaving algorithm.
//!
//! With room for `k` keys and `n` counted in all: every key that was counted more than `n / k` times is there, and for each
//! that is there `count - error` ≤ what was counted ≤ `count`. One that is not there was counted [`HeavyHitters::least`]
//! times at most. When there is no room, a new key takes the place of the least, and its count with it, as its error.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A key: a keyed hash, so that nobody can choose it, and every part of it is as good as any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) [u64; 2]);

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

/// Fingerprints are hashes already.
#[derive(Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by fingerprint.
pub(crate) type ByFingerprint<V> = HashMap<Fingerprint, V, BuildHasherDefault<AsIs>>;

/// One key, how much was counted for it, and what is known about it besides.
#[derive(Clone, Debug)]
pub(crate) struct Counted<V> {
    pub(crate) key: Fingerprint,
    /// No less than what was counted.
    pub(crate) count: u64,
    /// How much less it may have been.
    pub(crate) error: u64,
    /// Anything; the default for a key that has just come.
    pub(crate) value: V,
}

impl<V> Counted<V> {
    /// What was counted for certain.
    pub(crate) fn certain(&self) -> u64 {
        self.count - self.error
    }
}

/// The keys that are counted most.
#[derive(Debug)]
pub(crate) struct HeavyHitters<V> {
    room: usize,
    slots: Vec<Counted<V>>,
    /// Where in the heap each slot is.
    places: Vec<usize>,
    /// Slots as a binary heap, the least count first.
    heap: Vec<usize>,
    by_key: ByFingerprint<usize>,
}

impl<V: Default> HeavyHitters<V> {
    /// Room for this many keys, one at least. It is taken as it is needed.
    pub(crate) fn new(room: usize) -> Self {
        let (slots, places, heap, by_key) = Default::default();
        Self { room: room.max(1), slots, places, heap, by_key }
    }

    /// Counts `weight` for `key`.
    pub(crate) fn add(&mut self, key: Fingerprint, weight: u64) -> &mut Counted<V> {
        let slot = match self.by_key.get(&key) {
            Some(&slot) => {
                self.slots[slot].count = self.slots[slot].count.saturating_add(weight);
                slot
            }
            None => self.admit(key, weight),
        };
        self.sink(self.places[slot]);
        &mut self.slots[slot]
    }

    /// Makes room for a key that is not there.
    fn admit(&mut self, key: Fingerprint, weight: u64) -> usize {
        let slot = self.slots.len();
        if slot < self.room {
            self.slots.push(Counted { key, count: weight, error: 0, value: V::default() });
            self.places.push(slot);
            self.heap.push(slot);
            self.by_key.insert(key, slot);
            self.rise(slot);
            return slot;
        }
        let slot = self.heap[0];
        let least = self.slots[slot].count;
        self.by_key.remove(&self.slots[slot].key);
        self.by_key.insert(key, slot);
        self.slots[slot] =
            Counted { key, count: least.saturating_add(weight), error: least, value: V::default() };
        slot
    }

    /// What a key that is not there was counted at most.
    pub(crate) fn least(&self) -> u64 {
        if self.slots.len() < self.room { 0 } else { self.slots[self.heap[0]].count }
    }

    /// What is known of a key, if it is there.
    pub(crate) fn get(&self, key: Fingerprint) -> Option<&Counted<V>> {
        self.by_key.get(&key).map(|&slot| &self.slots[slot])
    }

    /// All that are there, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Counted<V>> {
        self.slots.iter()
    }

    /// How many are there.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Forgets everything but the memory it has.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.places.clear();
        self.heap.clear();
        self.by_key.clear();
    }

    fn count_at(&self, place: usize) -> u64 {
        self.slots[self.heap[place]].count
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a]] = a;
        self.places[self.heap[b]] = b;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.count_at(parent) <= self.count_at(place) {
                return;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children =
                [2 * place + 1, 2 * place + 2].into_iter().filter(|child| *child < self.heap.len());
            let Some(child) = children.min_by_key(|child| self.count_at(*child)) else { return };
            if self.count_at(place) <= self.count_at(child) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }
}

/// What there is to say of some time: who was there, and what others were counted at most.
#[derive(Clone, Debug)]
pub(crate) struct Summary<V> {
    pub(crate) counted: Vec<Counted<V>>,
    pub(crate) least: u64,
}

impl<V: Default + Clone> HeavyHitters<V> {
    /// All of it, to be read while counting goes on.
    pub(crate) fn summary(&self) -> Summary<V> {
        Summary { counted: self.slots.clone(), least: self.least() }
    }
}

impl<V> Summary<V> {
    /// The first of them; the others are among those of whom it is only known what they were counted at most.
    pub(crate) fn first(mut self, many: usize) -> Self {
        if let Some(next) = self.counted.get(many) {
            self.least = self.least.max(next.count);
            self.counted.truncate(many);
        }
        self
    }
}

/// Several times, or places, as one, most first. The bounds hold for the sums: who is not in a summary may have been counted as
/// often as its least.
pub(crate) fn merge<V>(summaries: Vec<Summary<V>>) -> Summary<V> {
    let all_least = summaries.iter().fold(0, |sum: u64, summary| sum.saturating_add(summary.least));
    let mut merged: ByFingerprint<(Counted<V>, u64)> = HashMap::default();
    for Summary { counted, least } in summaries {
        for one in counted {
            match merged.get_mut(&one.key) {
                Some((sum, known)) => {
                    sum.count = sum.count.saturating_add(one.count);
                    sum.error = sum.error.saturating_add(one.error);
                    *known = known.saturating_add(least);
                }
                None => drop(merged.insert(one.key, (one, least))),
            }
        }
    }
    let widened = merged.into_values().map(|(mut sum, known)| {
        // One that is in a summary twice is known there all the same.
        let unknown = all_least.saturating_sub(known);
        sum.count = sum.count.saturating_add(unknown);
        sum.error = sum.error.saturating_add(unknown);
        sum
    });
    let mut merged: Vec<_> = widened.collect();
    // What is certain comes first among equals.
    merged.sort_by_key(|one| std::cmp::Reverse((one.count, one.certain(), one.key.0)));
    Summary { counted: merged, least: all_least }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u64) -> Fingerprint {
        Fingerprint([number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number])
    }

    type Stream = Vec<(u64, u64)>;

    fn exact(stream: &[(u64, u64)]) -> HashMap<u64, u64> {
        let mut exact = HashMap::new();
        stream.iter().for_each(|(number, weight)| *exact.entry(*number).or_default() += weight);
        exact
    }

    fn counted(room: usize, stream: &[(u64, u64)]) -> HeavyHitters<()> {
        let mut hitters = HeavyHitters::new(room);
        for (number, weight) in stream {
            hitters.add(key(*number), *weight);
        }
        hitters
    }

    fn within(one: &Counted<()>, exact: &HashMap<u64, u64>) {
        let truth = exact.get(&one.key.0[1]).copied().unwrap_or(0);
        assert!(one.certain() <= truth && truth <= one.count, "{one:?} was {truth}");
    }

    /// Holds the promises against exact counts.
    fn check(room: usize, stream: &[(u64, u64)]) {
        let (hitters, exact) = (counted(room, stream), exact(stream));
        let total: u64 = exact.values().sum();
        assert!(hitters.len() <= room);
        assert_eq!(hitters.iter().map(|one| one.count).sum::<u64>(), total, "nothing is lost or made up");
        hitters.iter().for_each(|one| within(one, &exact));
        for (number, truth) in &exact {
            let there = hitters.get(key(*number)).is_some();
            assert!(there || *truth <= hitters.least(), "{number} with {truth} is not there");
            assert!(there || *truth <= total / room as u64, "{number} with {truth} of {total} is not there");
        }
    }

    /// Many of few and few of many: what is drawn from 0 to 1 becomes the rank.
    fn zipf(draws: &[f64], keys: f64) -> Stream {
        draws.iter().map(|draw| keys.powf(*draw)).map(|rank| (rank.to_bits() >> 46, 1)).collect()
    }

    proptest! {
        #[test]
        fn the_bounds_hold(room in 1usize..20, stream in prop::collection::vec((0u64..40, 1u64..20), 0..400)) {
            check(room, &stream);
        }

        #[test]
        fn the_bounds_hold_for_skewed_streams(
            room in 1usize..40,
            draws in prop::collection::vec(0.0f64..1.0, 0..2_000),
        ) {
            check(room, &zipf(&draws, 10_000.0));
        }

        #[test]
        fn the_bounds_hold_for_sums(
            room in 1usize..12,
            many in 0usize..12,
            streams in prop::collection::vec(prop::collection::vec((0u64..30, 1u64..5), 0..100), 0..5),
        ) {
            let summaries = streams.iter().map(|stream| counted(room, stream).summary()).collect();
            let exact = exact(&streams.concat());
            let merged = merge(summaries);
            merged.counted.iter().for_each(|one| within(one, &exact));
            prop_assert!(merged.counted.is_sorted_by_key(|one| std::cmp::Reverse(one.count)));
            let first = merged.first(many);
            prop_assert!(first.counted.len() <= many);
            for (number, truth) in exact {
                let there = first.counted.iter().any(|one| one.key == key(number));
                prop_assert!(there || truth <= first.least, "{} with {} is not there", number, truth);
            }
        }
    }

    /// Ever new keys push each other out; whoever comes as often as all places together stays.
    #[test]
    fn ever_new_keys_hide_nobody() {
        for room in [1, 2, 10, 100] {
            let churn = |from: u64| (from..from + 99).map(|number| (number, 1));
            let stream: Stream =
                (0..50u64).flat_map(|round| churn(1_000 + round * 99).chain([(7, 2)])).collect();
            check(room, &stream);
            let rounds_last: Stream = (1_000..6_000).map(|n| (n, 1)).chain([(7, 400)]).collect();
            check(room, &rounds_last);
        }
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut hitters = HeavyHitters::<u8>::new(3);
        for (number, weight) in [(1, 5), (2, 1), (3, 2), (2, 1)] {
            hitters.add(key(number), weight);
        }
        assert_eq!(hitters.iter().map(|one| one.error).sum::<u64>(), 0);
        assert_eq!(hitters.get(key(2)).map(|one| one.count), Some(2));
        hitters.add(key(1), 0).value = 9;
        hitters.add(key(4), 1);
        assert_eq!(hitters.get(key(1)).map(|one| one.value), Some(9));
        let new = hitters.get(key(4)).unwrap();
        assert_eq!((new.count, new.error, new.value), (3, 2, 0));
        hitters.clear();
        assert_eq!((hitters.len(), hitters.least()), (0, 0));
    }
}
