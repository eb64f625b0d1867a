//! Whether a server is up, by what it answers: a state machine that believes no single answer.

use std::num::NonZeroU32;

/// Up or down, and how much of late speaks against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkup {
    up: bool,
    /// Answers in a row that say otherwise.
    against: u32,
}

/// A change that the last answer made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The server is up again.
    Up,
    /// The server is down.
    Down,
}

impl Checkup {
    /// A server nobody has asked yet is up: otherwise nothing could be forwarded until all have answered.
    pub const NEW: Self = Self { up: true, against: 0 };

    /// Whether the server is up.
    #[must_use]
    pub fn is_up(self) -> bool {
        self.up
    }

    /// After an answer. It takes `down_after` bad ones in a row to be down, and `up_after` good ones to be up.
    #[must_use]
    pub fn observe(self, good: bool, down_after: NonZeroU32, up_after: NonZeroU32) -> (Self, Option<Turn>) {
        if good == self.up {
            return (Self { against: 0, ..self }, None);
        }
        let against = self.against.saturating_add(1);
        let (needed, turn) = if self.up { (down_after, Turn::Down) } else { (up_after, Turn::Up) };
        match against >= needed.get() {
            true => (Self { up: good, against: 0 }, Some(turn)),
            false => (Self { against, ..self }, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The state is that of the last run of equal answers that was long enough, and turns are exactly its changes.
        #[test]
        fn only_runs_count(
            answers in prop::collection::vec(any::<bool>(), 0..100),
            down_after in 1..5u32,
            up_after in 1..5u32,
        ) {
            let (down, up) = (NonZeroU32::new(down_after).unwrap(), NonZeroU32::new(up_after).unwrap());
            let mut state = Checkup::NEW;
            let mut expected = true;
            for (index, good) in answers.iter().enumerate() {
                let (next, turn) = state.observe(*good, down, up);
                let run = answers[..=index].iter().rev().take_while(|other| *other == good).count();
                let before = expected;
                if run >= if *good { up_after as usize } else { down_after as usize } {
                    expected = *good;
                }
                prop_assert_eq!(next.is_up(), expected);
                let change = (before != expected).then_some(if expected { Turn::Up } else { Turn::Down });
                prop_assert_eq!(turn, change);
                state = next;
            }
        }
    }
}
