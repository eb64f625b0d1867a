//! Who was counted most in the last five minutes, the last hour and the last day.
//!
//! Each is a ring of slots that are forgotten as time goes on, so that it reaches back to the start of its oldest slot: the last
//! five minutes are the current minute and the four before it.

use std::sync::Arc;

use tidegate_core::Timestamp;

use super::heavy_hitters::{Counted, Fingerprint, HeavyHitters, Summary};

/// How many keys each slot has room for: whoever is more than one in a hundred of what was counted in it is there.
const ROOM: usize = 100;

const MINUTE: u64 = 60_000;

/// How far to look back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    FiveMinutes,
    Hour,
    Day,
}

impl Period {
    pub(crate) const ALL: [Self; 3] = [Self::FiveMinutes, Self::Hour, Self::Day];

    /// How many slots there are, and how long each is, in milliseconds.
    const fn shape(self) -> (u64, u64) {
        match self {
            Self::FiveMinutes => (5, MINUTE),
            Self::Hour => (12, 5 * MINUTE),
            Self::Day => (24, 60 * MINUTE),
        }
    }
}

/// What somebody is called.
pub(crate) type Name = Arc<str>;

#[derive(Debug)]
struct Ring {
    period: Period,
    /// Each with the number of its time since the epoch.
    slots: Vec<(u64, HeavyHitters<Option<Name>>)>,
}

impl Ring {
    fn new(period: Period) -> Self {
        let slots = (0..period.shape().0).map(|_| (0, HeavyHitters::new(ROOM))).collect();
        Self { period, slots }
    }

    fn add(&mut self, key: Fingerprint, weight: u64, at: Timestamp) -> Option<&mut Counted<Option<Name>>> {
        let (slots, length) = self.period.shape();
        let number = at.as_millis() / length;
        let (current, hitters) = self.slots.get_mut(usize::try_from(number % slots).ok()?)?;
        if *current != number {
            hitters.clear();
            *current = number;
        }
        Some(hitters.add(key, weight))
    }

    fn read(&self, now: Timestamp) -> Vec<Summary<Option<Name>>> {
        let (slots, length) = self.period.shape();
        let number = now.as_millis() / length;
        let recent = self.slots.iter().filter(|(at, _)| *at <= number && number - *at < slots);
        recent.map(|(_, hitters)| hitters.summary()).collect()
    }
}

/// One kind of things that are counted.
#[derive(Debug)]
pub(crate) struct Rings([Ring; 3]);

impl Default for Rings {
    fn default() -> Self {
        Self(Period::ALL.map(Ring::new))
    }
}

impl Rings {
    /// Counts `weight` for `key`, and asks for its name if that is not known.
    pub(crate) fn add(&mut self, key: Fingerprint, weight: u64, at: Timestamp, name: impl Fn() -> String) {
        let mut known = None;
        for ring in &mut self.0 {
            let Some(counted) = ring.add(key, weight, at) else { continue };
            let name = counted.value.take().or(known).unwrap_or_else(|| name().into());
            counted.value = Some(Arc::clone(&name));
            known = Some(name);
        }
    }

    /// What was counted lately, to be [merged](super::heavy_hitters::merge).
    pub(crate) fn read(&self, period: Period, now: Timestamp) -> Vec<Summary<Option<Name>>> {
        self.0.iter().filter(|ring| ring.period == period).flat_map(|ring| ring.read(now)).collect()
    }

    /// How many keys are remembered.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.0.iter().flat_map(|ring| &ring.slots).map(|(_, hitters)| hitters.len()).sum()
    }

    /// How many keys there is room for.
    #[cfg(test)]
    pub(crate) fn room() -> usize {
        Period::ALL.iter().map(|period| usize::try_from(period.shape().0).unwrap() * ROOM).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::heavy_hitters::merge;
    use super::*;

    fn key(number: u64) -> Fingerprint {
        Fingerprint([number, number])
    }

    proptest! {
        /// Few keys are counted exactly, from the start of the oldest slot on.
        #[test]
        fn as_a_list_of_all_that_was_counted(
            steps in prop::collection::vec((0u64..20 * MINUTE, 0u64..5, 1u64..4), 1..80),
            later in 0u64..90 * MINUTE,
        ) {
            let (mut rings, mut all, mut at) = (Rings::default(), Vec::new(), 4_000 * MINUTE);
            for (step, number, weight) in steps {
                at += step;
                rings.add(key(number), weight, Timestamp::from_millis(at), || number.to_string());
                all.push((at, number, weight));
            }
            let now = at + later;
            for period in Period::ALL {
                let (slots, length) = period.shape();
                let from = (now / length + 1 - slots) * length;
                let read = merge(rings.read(period, Timestamp::from_millis(now)));
                for number in 0..5 {
                    let exact: u64 =
                        all.iter().filter(|(at, of, _)| *at >= from && *of == number).map(|(_, _, weight)| weight).sum();
                    let read = read.counted.iter().find(|counted| counted.key == key(number));
                    prop_assert_eq!(read.map_or((0, 0), |read| (read.count, read.error)), (exact, 0));
                    if let Some(read) = read {
                        prop_assert_eq!(read.value.as_deref(), Some(&*number.to_string()));
                    }
                }
            }
        }
    }
}
