//! Which changes of a breaker are logged. One that stays open is half-open again and again, which nobody needs to read.

use std::time::{Duration, Instant};

use tidegate_store::BreakerState;

/// How often it is said that a breaker is still not closed.
const EVERY: Duration = Duration::from_secs(60);

/// Decides what is worth a line in the log.
#[derive(Debug, Default)]
pub(crate) struct BreakerLog {
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Instant,
    last_notice: Instant,
}

/// A line for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It has opened.
    Opened,
    /// It has not been closed for so long.
    StillOpen(Duration),
    /// It has closed, after so long.
    Closed(Duration),
}

impl BreakerLog {
    /// Takes note of the state at `now`, and returns what is to be logged.
    pub(crate) fn note(&mut self, state: BreakerState, now: Instant) -> Option<Notice> {
        let for_how_long = |open: &Open| now.saturating_duration_since(open.since);
        match (&mut self.open, state) {
            (None, BreakerState::Closed) => None,
            (Some(open), BreakerState::Closed) => {
                let notice = Notice::Closed(for_how_long(open));
                self.open = None;
                Some(notice)
            }
            (None, BreakerState::Open | BreakerState::HalfOpen) => {
                self.open = Some(Open { since: now, last_notice: now });
                Some(Notice::Opened)
            }
            (Some(open), BreakerState::Open | BreakerState::HalfOpen) => {
                let due = now.saturating_duration_since(open.last_notice) >= EVERY;
                due.then(|| {
                    open.last_notice = now;
                    Notice::StillOpen(for_how_long(open))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breaker_that_stays_open_is_told_of_once_a_minute() {
        let (mut log, start) = (BreakerLog::default(), Instant::now());
        let mut told = Vec::new();
        // Every second and a half it is tried, in vain; after 150 seconds it closes.
        for half_seconds in 0..=300 {
            let state = match half_seconds {
                300 => BreakerState::Closed,
                _ if half_seconds % 3 == 2 => BreakerState::HalfOpen,
                _ => BreakerState::Open,
            };
            told.extend(log.note(state, start + Duration::from_millis(500) * half_seconds));
        }
        let seconds = Duration::from_secs;
        let expected = [
            Notice::Opened,
            Notice::StillOpen(seconds(60)),
            Notice::StillOpen(seconds(120)),
            Notice::Closed(seconds(150)),
        ];
        assert_eq!(told, expected);
        assert_eq!(log.note(BreakerState::Closed, start + seconds(200)), None);
    }
}
