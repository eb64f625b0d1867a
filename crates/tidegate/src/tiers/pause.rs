//! Not asking whoever does not answer.

use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row are not chance.
const FAILURES: u32 = 5;

/// How long nobody is asked then, but for one who finds out whether that is over.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Whether to ask, by how it went before.
#[derive(Debug, Default)]
pub(super) struct Pause {
    failures: u32,
    /// When the next one may ask.
    until: Option<Instant>,
}

impl Pause {
    /// Whether one may ask. During a pause, one in a second may.
    pub(super) fn admits(&mut self, now: Instant) -> bool {
        if self.until.is_some_and(|until| now < until) {
            return false;
        }
        if self.failures >= FAILURES {
            self.until = Some(now + PAUSE);
        }
        true
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            self.until = Some(now + PAUSE);
        }
    }

    /// Whoever was asked has answered, or says that it can.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_failures_in_a_row_one_in_a_second_may_ask() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pause = Pause::default();
        for _ in 0..4 {
            pause.failed(at(0));
        }
        pause.end();
        for _ in 0..4 {
            pause.failed(at(0));
            assert!(pause.admits(at(0)));
        }
        pause.failed(at(10));
        let admitted = [11, 1_009, 1_010, 1_011, 2_009, 2_010].map(|ms| pause.admits(at(ms)));
        assert_eq!(admitted, [false, false, true, false, false, true]);
        pause.failed(at(3_000));
        assert!(!pause.admits(at(3_999)), "the one who asked has found out that it goes on");
        assert!(pause.admits(at(4_000)));
        pause.end();
        assert!(pause.admits(at(4_001)) && pause.admits(at(4_001)));
    }
}
