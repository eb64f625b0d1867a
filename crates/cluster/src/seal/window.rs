//! Which of a sender's latest messages came.

/// How far a message may be behind the latest. Many tasks seal calls at once and send them when they come to it.
pub(super) const WIDTH: u64 = 8192;

const WORDS: usize = 128;
const _: () = assert!(WORDS as u64 * 64 == WIDTH);

/// The latest numbers, and which of them came.
#[derive(Debug)]
pub(super) struct Window {
    /// One more than the highest that came.
    next: u64,
    /// One bit for each of the latest numbers, at the number modulo the width.
    came: Box<[u64; WORDS]>,
}

impl Window {
    pub(super) fn new() -> Self {
        Self { next: 0, came: Box::new([0; WORDS]) }
    }

    /// Takes note of a number. False if it came before, or may have.
    pub(super) fn take(&mut self, number: u64) -> bool {
        if number == u64::MAX || self.next.saturating_sub(number) > WIDTH {
            return false;
        }
        if number >= self.next {
            if number - self.next >= WIDTH {
                self.came.fill(0);
            } else {
                (self.next..number).for_each(|skipped| self.bit(skipped, false));
            }
            self.bit(number, true);
            self.next = number + 1;
            return true;
        }
        let (word, mask) = place(number);
        let came = self.came.get(word).is_none_or(|bits| bits & mask != 0);
        self.bit(number, true);
        !came
    }

    fn bit(&mut self, number: u64, came: bool) {
        let (word, mask) = place(number);
        if let Some(bits) = self.came.get_mut(word) {
            *bits = if came { *bits | mask } else { *bits & !mask };
        }
    }
}

/// The word and the bit of a number.
fn place(number: u64) -> (usize, u64) {
    let at = number % WIDTH;
    (usize::try_from(at / 64).unwrap_or_default(), 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes in whatever order: as if all numbers were remembered, and old ones refused.
        #[test]
        fn as_a_set_would(steps in prop::collection::vec((0_u64..3 * WIDTH, prop::bool::weighted(0.05)), 1..400)) {
            let (mut window, mut came, mut highest, mut base) = (Window::new(), HashSet::new(), None, 0);
            for (number, leap) in steps {
                base += if leap { WIDTH } else { 0 };
                let number = base + number % if leap { 3 * WIDTH } else { 70 };
                let old = highest.is_some_and(|highest: u64| number + WIDTH <= highest);
                prop_assert_eq!(window.take(number), !old && came.insert(number));
                highest = highest.max(Some(number));
            }
        }
    }

    #[test]
    fn the_last_number_of_all_never_comes() {
        let mut window = Window::new();
        assert!(!window.take(u64::MAX));
        assert!(window.take(u64::MAX - 1));
        assert!(!window.take(u64::MAX - 1));
        assert!(!window.take(0));
    }
}
