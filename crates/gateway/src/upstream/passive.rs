//! Putting a server aside because requests to it fail: a state machine in one word.

use std::num::NonZeroU32;
use std::time::Duration;

/// Where a server stands with those who send it requests. Times are in milliseconds since some moment that its owner
/// knows.
///
/// ```text
///          failures in a row              time is over: one request
/// In use ─────────────────────▶ Aside ───────────────────────────▶ Trial
///   ▲                             ▲              fails               │ │
///   │                             └───────────────────────────────────┘ │
///   └──────────────────────────────────── succeeds ─────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passive {
    /// It gets requests; so many in a row have failed.
    InUse {
        /// Failures since the last success.
        failures: u32,
    },
    /// It gets none before this time.
    Aside {
        /// When one may be let through.
        until: u64,
    },
    /// One request was let through, and what becomes of it is not known.
    Trial {
        /// When another may be, should the first never be heard of again.
        until: u64,
    },
}

/// Whether a server may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Like any other.
    Free,
    /// For one request, which takes the trial first.
    Trial,
    /// Not now.
    No,
}

const KIND: u32 = 62;
const VALUE: u64 = (1 << KIND) - 1;

impl Passive {
    /// As everything begins.
    pub const NEW: Self = Self::InUse { failures: 0 };

    /// Whether a request may go there at `now`.
    #[must_use]
    pub fn admits(self, now: u64) -> Admission {
        match self {
            Self::InUse { .. } => Admission::Free,
            Self::Aside { until } | Self::Trial { until } if now >= until => Admission::Trial,
            Self::Aside { .. } | Self::Trial { .. } => Admission::No,
        }
    }

    /// Takes the trial, if there is one to be had at `now`.
    #[must_use]
    pub fn try_out(self, now: u64, aside: Duration) -> Option<Self> {
        (self.admits(now) == Admission::Trial).then(|| Self::Trial { until: later(now, aside) })
    }

    /// After a success. One that was under way since before the server was put aside says nothing about now: only a
    /// request that went there in spite of it (`in_spite`) ends that.
    #[must_use]
    pub fn succeeded(self, in_spite: bool) -> Self {
        match self {
            Self::InUse { .. } => Self::NEW,
            _ if in_spite => Self::NEW,
            other => other,
        }
    }

    /// After a failure at `now`, where so many (`limit`) in a row are too many.
    #[must_use]
    pub fn failed(self, now: u64, limit: NonZeroU32, aside: Duration) -> Self {
        match self {
            Self::InUse { failures } if failures.saturating_add(1) < limit.get() => {
                Self::InUse { failures: failures + 1 }
            }
            Self::InUse { .. } | Self::Trial { .. } => Self::Aside { until: later(now, aside) },
            // Those that were under way when it was put aside do not make it longer.
            Self::Aside { until } => Self::Aside { until },
        }
    }

    /// After a trial that ended without telling anything: the next request may try.
    #[must_use]
    pub fn given_up(self) -> Self {
        match self {
            Self::Trial { .. } => Self::Aside { until: 0 },
            other => other,
        }
    }

    pub(super) fn pack(self) -> u64 {
        match self {
            Self::InUse { failures } => u64::from(failures),
            Self::Aside { until } => (1 << KIND) | until.min(VALUE),
            Self::Trial { until } => (2 << KIND) | until.min(VALUE),
        }
    }

    pub(super) fn unpack(word: u64) -> Self {
        let value = word & VALUE;
        match word >> KIND {
            0 => Self::InUse { failures: u32::try_from(value).unwrap_or(u32::MAX) },
            1 => Self::Aside { until: value },
            _ => Self::Trial { until: value },
        }
    }
}

fn later(now: u64, by: Duration) -> u64 {
    now.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)).min(VALUE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: NonZeroU32 = NonZeroU32::new(3).unwrap();
    const ASIDE: Duration = Duration::from_millis(100);

    #[test]
    fn aside_then_one_trial_then_all() {
        let mut state = Passive::NEW;
        for now in 0..3 {
            assert_eq!(state.admits(now), Admission::Free);
            state = state.failed(now, LIMIT, ASIDE);
        }
        assert_eq!(state, Passive::Aside { until: 102 });
        assert_eq!((state.admits(101), state.try_out(101, ASIDE)), (Admission::No, None));
        let trial = state.try_out(102, ASIDE).unwrap();
        assert_eq!((trial.admits(102), trial.admits(202)), (Admission::No, Admission::Trial));
        assert_eq!(trial.succeeded(true), Passive::NEW);
        assert_eq!(trial.failed(110, LIMIT, ASIDE), Passive::Aside { until: 210 });
        assert_eq!(trial.given_up().admits(103), Admission::Trial);
    }

    #[test]
    fn what_was_under_way_changes_nothing() {
        let aside = Passive::Aside { until: 100 };
        assert_eq!(aside.succeeded(false), aside);
        assert_eq!(aside.failed(99, LIMIT, ASIDE), aside);
        assert_eq!(aside.succeeded(true), Passive::NEW);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Wait(u64),
        Request(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![(0..60u64).prop_map(Step::Wait), any::<bool>().prop_map(Step::Request)];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn packing_loses_nothing(failures: u32, until in 0..=VALUE) {
            for state in [Passive::InUse { failures }, Passive::Aside { until }, Passive::Trial { until }] {
                prop_assert_eq!(Passive::unpack(state.pack()), state);
            }
        }

        /// A server is out of use exactly from the last of three failures in a row until its time is over.
        #[test]
        fn aside_exactly_as_long_as_said(steps in steps()) {
            let (mut state, mut now) = (Passive::NEW, 0);
            let (mut row, mut until) = (0, None::<u64>);
            for step in steps {
                match step {
                    Step::Wait(ms) => now += ms,
                    Step::Request(ok) => {
                        let expected = match until {
                            None => Admission::Free,
                            Some(until) if now >= until => Admission::Trial,
                            Some(_) => Admission::No,
                        };
                        prop_assert_eq!(state.admits(now), expected);
                        if expected == Admission::No {
                            continue;
                        }
                        if expected == Admission::Trial {
                            state = state.try_out(now, ASIDE).unwrap();
                            prop_assert_eq!(state.admits(now), Admission::No);
                        }
                        let trial = expected == Admission::Trial;
                        if ok {
                            (state, row, until) = (state.succeeded(trial), 0, None);
                        } else {
                            state = state.failed(now, LIMIT, ASIDE);
                            row += 1;
                            if trial || row == 3 {
                                until = Some(now + 100);
                            }
                        }
                    }
                }
            }
        }
    }
}
