//! Looking at all of few and at some of many, without a pattern that others could keep out of step with.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use tidegate_core::Timestamp;

/// What is few is told by tenths of a second.
const SLOT_MS: u64 = 100;

/// How much to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// How many of a slot and thread are looked at each, before it is one of many.
    pub(crate) few: u32,
    /// Of how many, on average.
    pub(crate) mean: u32,
}

/// Which of those that pass a thread are looked at.
#[derive(Debug)]
pub(crate) struct Sampler {
    slot: Cell<u64>,
    /// How many were looked at in it.
    looked: Cell<u32>,
    /// How many have passed since the last that was looked at.
    passed: Cell<u32>,
    /// How many more are to pass.
    left: Cell<u32>,
    /// Of a generator; 0 before the first draw.
    state: Cell<u64>,
}

impl Sampler {
    const fn new() -> Self {
        Self {
            slot: Cell::new(0),
            looked: Cell::new(0),
            passed: Cell::new(0),
            left: Cell::new(0),
            state: Cell::new(0),
        }
    }

    /// One passes. If it is to be looked at, says for how many it stands: for itself, and for those before it that were not.
    #[inline]
    pub(crate) fn pass(&self, at: Timestamp, effort: Effort) -> Option<u64> {
        let (slot, left) = (at.as_millis() / SLOT_MS, self.left.get());
        if left > 0 && slot == self.slot.get() {
            self.left.set(left - 1);
            self.passed.set(self.passed.get() + 1);
            return None;
        }
        Some(self.look(slot, effort))
    }

    #[inline(never)]
    fn look(&self, slot: u64, Effort { few, mean }: Effort) -> u64 {
        let last = self.slot.replace(slot);
        if slot != last {
            self.looked.set(0);
            if slot != last + 1 {
                // Those passed long ago.
                self.passed.set(0);
            }
        }
        let looked = self.looked.get().saturating_add(1);
        self.looked.set(looked);
        self.left.set(if looked < few || mean <= 1 { 0 } else { self.draw(mean) });
        u64::from(self.passed.take()) + 1
    }

    /// How many are to pass next: from half of the mean to half as much again, all as likely, so that no rhythm of what passes stays
    /// unseen.
    fn draw(&self, mean: u32) -> u32 {
        let mut state = self.state.get();
        if state == 0 {
            state = RandomState::new().hash_one(0) | 1;
        }
        // SplitMix64: any start gives a good sequence.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let spread = u32::try_from((z ^ (z >> 31)) % u64::from(mean)).unwrap_or(0);
        (mean / 2 + spread).saturating_sub(1)
    }
}

thread_local! {
    /// That of decisions.
    pub(crate) static DECISIONS: Sampler = const { Sampler::new() };
    /// That of refusals.
    pub(crate) static REFUSALS: Sampler = const { Sampler::new() };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_704_067_200_000 + millis)
    }

    fn seeded(state: u64) -> Sampler {
        Sampler { state: Cell::new(state), ..Sampler::new() }
    }

    #[test]
    fn few_are_looked_at_each() {
        let sampler = Sampler::new();
        let effort = Effort { few: 10, mean: 64 };
        for slot in 0..5 {
            (0..10).for_each(|n| assert_eq!(sampler.pass(at(slot * SLOT_MS + n), effort), Some(1)));
        }
    }

    #[test]
    fn what_passed_long_ago_is_not_put_down_to_who_comes_now() {
        let sampler = Sampler::new();
        let effort = Effort { few: 1, mean: 64 };
        (0..2).for_each(|_| _ = sampler.pass(at(0), effort));
        assert_eq!(sampler.pass(at(SLOT_MS), effort), Some(2), "that was just now");
        (0..2).for_each(|_| _ = sampler.pass(at(SLOT_MS), effort));
        assert_eq!(sampler.pass(at(10 * SLOT_MS), effort), Some(1));
        assert_eq!(sampler.pass(at(0), effort), Some(1), "nor if a clock is turned back");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// However regularly something comes, it is counted as often as it is there.
        #[test]
        fn no_rhythm_hides(seed in 1u64.., few in 0u32..32, mean in 1u32..32, period in 1usize..64) {
            let (sampler, effort) = (seeded(seed), Effort { few, mean });
            let mut counted = vec![0u64; period];
            let rounds = 4_000;
            for round in 0..rounds {
                for counted in &mut counted {
                    *counted += sampler.pass(at(round), effort).unwrap_or(0);
                }
            }
            for counted in counted {
                prop_assert!((counted as f64 / rounds as f64 - 1.0).abs() < 0.5, "{counted} instead of {rounds}");
            }
        }

        /// All that pass are counted, but for the last few that nobody stands for yet.
        #[test]
        fn nothing_is_lost(seed in 1u64.., few in 0u32..8, mean in 1u32..64, steps in prop::collection::vec(0u64..60, 1..600)) {
            let (sampler, effort) = (seeded(seed), Effort { few, mean });
            let (mut now, mut all, mut counted) = (0, 0, 0);
            for step in steps {
                now += step;
                all += 1;
                counted += sampler.pass(at(now), effort).unwrap_or(0);
                prop_assert!(counted <= all && all - counted <= u64::from(mean + mean / 2), "{counted} of {all}");
            }
        }
    }
}
