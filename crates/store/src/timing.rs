//! Timing what happens so often that timing each would cost more than it tells.
//!
//! A clock takes some 25 ns to read, and to time something takes two reads. As long as a thread has less than some 64 to time in a
//! millisecond, each is timed. Beyond that it is one in 64, which stands for those before it: all are counted, late by a few at most.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use tidegate_core::Timestamp;

use crate::histogram::Histogram;
use crate::striped::Striped;

/// How many in a millisecond are much, and of how many one is timed then.
const MUCH: u32 = 64;

/// How long it must have taken from one timed to the next for it not to be much any more.
const CALM_MS: u64 = 4;

/// How long things take, some of which happen very often.
#[derive(Debug, Default)]
pub struct Timing {
    /// What was timed. What is known to have taken some time can be put in here, too.
    pub histogram: Histogram,
    gates: Striped<Gate>,
}

/// What one thread has had to time of late; several may share one.
#[derive(Debug, Default)]
struct Gate {
    much: AtomicBool,
    /// How many were not timed since the last that was.
    owed: AtomicU32,
    /// When the last was timed, and how many were in the same millisecond.
    millis: AtomicU64,
    count: AtomicU32,
}

/// Something that is going on, and since when if it is timed.
#[derive(Debug)]
#[must_use = "it is to be ended"]
pub struct Timed<'t> {
    gate: &'t Gate,
    since: Option<Instant>,
}

impl Timing {
    /// Something begins.
    #[inline]
    pub fn begin(&self) -> Timed<'_> {
        let gate = self.gates.mine().stripe;
        let owed = gate.owed.load(Ordering::Relaxed) + 1;
        if gate.much.load(Ordering::Relaxed) && owed < MUCH {
            // Threads that share a gate may lose one in a great many.
            gate.owed.store(owed, Ordering::Relaxed);
            return Timed { gate, since: None };
        }
        Timed { gate, since: Some(Instant::now()) }
    }

    /// It is over; `now` is some time within it.
    #[inline]
    pub fn end(&self, Timed { gate, since }: Timed<'_>, now: Timestamp) {
        match since {
            Some(since) => {
                let weight = gate.timed(now.as_millis());
                self.histogram.observe_many(since.elapsed(), weight);
            }
            None => gate.passed(now.as_millis()),
        }
    }
}

impl Gate {
    /// One was not timed. If it has calmed down meanwhile, the next is.
    #[inline]
    fn passed(&self, millis: u64) {
        if millis.abs_diff(self.millis.load(Ordering::Relaxed)) > CALM_MS {
            self.much.store(false, Ordering::Relaxed);
        }
    }

    /// One was timed at `millis`. Says for how many it stands, and finds out whether there is much to time.
    fn timed(&self, millis: u64) -> u64 {
        let weight = self.owed.load(Ordering::Relaxed) + 1;
        self.owed.store(0, Ordering::Relaxed);
        let last = self.millis.load(Ordering::Relaxed);
        self.millis.store(millis, Ordering::Relaxed);
        if last == millis {
            let count = self.count.load(Ordering::Relaxed).saturating_add(weight);
            self.count.store(count, Ordering::Relaxed);
            if count >= MUCH {
                self.much.store(true, Ordering::Relaxed);
            }
        } else {
            self.count.store(weight, Ordering::Relaxed);
            if millis.abs_diff(last) > CALM_MS {
                self.much.store(false, Ordering::Relaxed);
            }
        }
        u64::from(weight)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn timed(timing: &Timing, millis: u64) -> bool {
        let timed = timing.begin();
        let is_timed = timed.since.is_some();
        timing.end(timed, Timestamp::from_millis(millis));
        is_timed
    }

    #[test]
    fn little_is_timed_each() {
        let timing = Timing::default();
        assert!((0..1_000).all(|number| timed(&timing, number / 10)));
        assert_eq!(timing.histogram.read().count, 1_000);
    }

    #[test]
    fn of_much_one_in_64_is() {
        let timing = Timing::default();
        let count = (0..100_000).filter(|number| timed(&timing, number / 100)).count();
        assert!((1_562..1_700).contains(&count), "{count}");
    }

    #[test]
    fn when_it_has_calmed_down_each_is_again() {
        let timing = Timing::default();
        (0..1_000).for_each(|_| _ = timed(&timing, 0));
        // The first may still be one of those before.
        let calm = (0..200).filter(|number| timed(&timing, 1_000 + 10 * number)).count();
        assert!(calm >= 199, "{calm}");
        assert_eq!(timing.histogram.read().count, 1_200);
    }

    proptest! {
        #[test]
        fn all_are_counted_late_by_a_few_at_most(steps in vec(0..3_u64, 1..2_000), pause in 0..40_usize) {
            let timing = Timing::default();
            let mut now = 0;
            for (index, step) in steps.iter().enumerate() {
                now += if pause > 0 && index % pause == 0 { step * 5 } else { step / 2 };
                timed(&timing, now);
                let (all, seen) = (index as u64 + 1, timing.histogram.read().count);
                prop_assert!(seen <= all && all - seen < u64::from(MUCH), "{seen} of {all}");
            }
        }
    }
}
