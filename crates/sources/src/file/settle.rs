//! When content counts: it is news, and it has stayed as it is.

/// What to do after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is what was told last.
    Nothing,
    /// It is news, and may be news in the making.
    LookAgain,
    /// It is news, and was the same the last time.
    Deliver,
}

/// What was told last, and what was seen since. Content is known by its digest.
#[derive(Debug, Default)]
pub(super) struct Settling {
    told: Option<u64>,
    seen: Option<u64>,
}

impl Settling {
    pub(super) fn see(&mut self, digest: u64) -> Step {
        let same = self.seen.replace(digest) == Some(digest);
        if self.told == Some(digest) {
            Step::Nothing
        } else if same {
            self.told = Some(digest);
            Step::Deliver
        } else {
            Step::LookAgain
        }
    }

    /// Whether what was seen last has been told.
    pub(super) fn is_settled(&self) -> bool {
        self.told.is_some() && self.told == self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{Deliver, LookAgain, Nothing};
    use super::*;

    #[test]
    fn only_what_stays_is_told_and_only_once() {
        let mut settling = Settling::default();
        let steps = [1, 2, 2, 2, 3, 2, 2, 4, 5, 6, 6, 6].map(|digest| settling.see(digest));
        assert_eq!(
            steps,
            [
                LookAgain, LookAgain, Deliver, Nothing, // the first
                LookAgain, Nothing, Nothing, // a glimpse of something else
                LookAgain, LookAgain, LookAgain, Deliver, Nothing, // being written
            ]
        );
    }

    #[test]
    fn what_is_still_changing_is_not_settled() {
        let mut settling = Settling::default();
        assert!(!settling.is_settled());
        settling.see(1);
        settling.see(1);
        assert!(settling.is_settled());
        settling.see(2);
        assert!(!settling.is_settled());
    }
}
