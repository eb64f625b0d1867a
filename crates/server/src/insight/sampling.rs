//! Looking at few of many, without a pattern that others could keep out of step with.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::thread::LocalKey;

/// How far it is from one that is looked at to the next: from 1 to twice the mean, all as likely, so that no rhythm of what
/// passes stays unseen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides {
    /// How many more pass.
    left: u32,
    /// Of a generator; 0 before the first draw.
    state: u64,
}

impl Strides {
    pub(crate) const fn new() -> Self {
        Self { left: 0, state: 0 }
    }

    #[cfg(test)]
    const fn seeded(state: u64) -> Self {
        Self { left: 0, state }
    }

    /// Whether the next is to be looked at, which is so for one in `mean`.
    #[inline]
    pub(crate) fn is_due(&mut self, mean: u32) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.draw(mean)
    }

    /// A stride ends here, and the next begins.
    #[inline(never)]
    fn draw(&mut self, mean: u32) -> bool {
        let begun = self.state != 0;
        if !begun {
            self.state = RandomState::new().hash_one(0) | 1;
        }
        // SplitMix64: any start gives a good sequence.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let strides = u64::from(mean.max(1)) * 2 - 1;
        self.left = u32::try_from((z ^ (z >> 31)) % strides).unwrap_or(0);
        begun
    }
}

thread_local! {
    /// Those of decisions.
    pub(crate) static DECISIONS: Cell<Strides> = const { Cell::new(Strides::new()) };
    /// Those of refusals, when there are very many.
    pub(crate) static REFUSALS: Cell<Strides> = const { Cell::new(Strides::new()) };
}

/// Whether this thread is to look at the next.
#[inline]
pub(crate) fn is_due(strides: &'static LocalKey<Cell<Strides>>, mean: u32) -> bool {
    if mean <= 1 {
        return true;
    }
    strides.with(|cell| {
        let mut strides = cell.get();
        let due = strides.is_due(mean);
        cell.set(strides);
        due
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// However regularly something comes, it is seen as often as it should be.
        #[test]
        fn no_rhythm_hides(seed in 1u64.., mean in 1u32..32, period in 1usize..64) {
            let mut strides = Strides::seeded(seed);
            let mut seen = vec![0u32; period];
            let rounds = 4_000;
            for _ in 0..rounds {
                seen.iter_mut().for_each(|seen| *seen += u32::from(strides.is_due(mean)));
            }
            let expected = f64::from(rounds) / f64::from(mean);
            for seen in seen {
                prop_assert!((f64::from(seen) / expected - 1.0).abs() < 0.5, "{seen} instead of {expected}");
            }
        }
    }
}
