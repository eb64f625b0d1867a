//! Finding data threads that are stuck.
//!
//! A thread that never gets back to its event loop (a blocking call, an endless loop, a bug) serves none of its connections and says
//! nothing about it. So each is given a small job now and then, by the control plane, and how long that has to wait is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;

/// Time between two looks at each thread.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Number of looks in a row that find a job still waiting before its thread counts as stuck. Looks are counted, not seconds: a process
/// that does not run for a while does not look either.
const STUCK_AFTER: u32 = 10;

/// Knows whether one data thread does what it is given.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// When the job that still waits was given.
    waiting: Mutex<Option<Instant>>,
    /// Looks in a row that found it still waiting.
    missed: AtomicU32,
    /// Time that the last job had to wait, in nanoseconds.
    delay: AtomicU64,
}

impl Liveness {
    /// Gives the thread a job, unless the last one still waits.
    pub(super) fn look(self: &Arc<Self>, thread: &Handle) {
        let mut waiting = self.waiting.lock();
        if waiting.is_some() {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let given = Instant::now();
        *waiting = Some(given);
        drop(waiting);
        let liveness = Arc::clone(self);
        thread.spawn(async move { liveness.done(given.elapsed()) });
    }

    fn done(&self, delay: Duration) {
        self.delay.store(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.missed.store(0, Ordering::Relaxed);
        *self.waiting.lock() = None;
    }

    /// Returns how long a job has to wait for the thread: the last one, or the one that waits if that is longer.
    pub(crate) fn delay(&self) -> Duration {
        let last = Duration::from_nanos(self.delay.load(Ordering::Relaxed));
        self.waiting.lock().map_or(last, |given| last.max(given.elapsed()))
    }

    /// Returns how long the thread has done nothing of what it was given, if that is long enough to call it stuck.
    pub(crate) fn stuck(&self) -> Option<Duration> {
        let given = (*self.waiting.lock())?;
        (self.missed.load(Ordering::Relaxed) >= STUCK_AFTER).then(|| given.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_stuck_when_a_job_waits_for_many_looks() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let liveness = Arc::new(Liveness::default());
        liveness.look(runtime.handle());
        assert_eq!(liveness.stuck(), None, "it has just been asked");
        for _ in 1..STUCK_AFTER {
            liveness.look(runtime.handle());
            assert_eq!(liveness.stuck(), None);
        }
        liveness.look(runtime.handle());
        let stuck = liveness.stuck().unwrap();
        assert!(liveness.delay() >= stuck);
        // It runs, and does the one job that it was given.
        runtime.block_on(tokio::task::yield_now());
        assert_eq!(liveness.stuck(), None);
        liveness.look(runtime.handle());
        assert_eq!(liveness.missed.load(Ordering::Relaxed), 0);
    }
}
