//! The number of threads that serve requests.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::sleep;

use crate::failure::Failure;

/// Time between two looks at how many cores there are.
const LOOK: Duration = Duration::from_secs(10);

/// Upper bound, to catch typing errors: no machine has more cores.
const MOST: usize = 1_024;

/// Number of threads that serve requests, beside the cores that there are for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    pub(crate) count: NonZeroUsize,
    /// Cores that this process may use, as far as is known, a quota of its cgroup included.
    cores: NonZeroUsize,
}

impl Threads {
    /// Takes the number that was given, or else one per core.
    pub(crate) fn new(given: Option<usize>) -> Result<Self, Failure> {
        Self::of(given, present_cores())
    }

    fn of(given: Option<usize>, cores: NonZeroUsize) -> Result<Self, Failure> {
        let count = match given {
            None => cores,
            Some(given) => NonZeroUsize::new(given).filter(|count| count.get() <= MOST).ok_or_else(|| {
                Failure::Usage(format!(
                    "--threads is {given}; give a number from 1 to {MOST}, or leave it out for one per core (here: {cores})"
                ))
            })?,
        };
        Ok(Self { count, cores })
    }

    /// Logs when the cores change that this process may use, for as long as this runs: its threads stay as many as they are.
    pub(crate) async fn watch(mut self) {
        loop {
            sleep(LOOK).await;
            if let Some(before) = self.take_in(present_cores()) {
                tracing::warn!(
                    before,
                    cores = self.cores,
                    threads = self.count,
                    "the number of cores that this process may use has changed (a quota or an affinity); it goes on with as many \
                     data threads as it has; restart it to have one per core"
                );
            }
        }
    }

    /// Takes note of how many cores there are; returns how many there were, if that is something else.
    fn take_in(&mut self, cores: NonZeroUsize) -> Option<NonZeroUsize> {
        let before = std::mem::replace(&mut self.cores, cores);
        (before != cores).then_some(before)
    }

    /// Logs a warning if there are more threads than cores.
    pub(crate) fn warn_if_too_many(self) {
        if self.count > self.cores {
            tracing::warn!(
                threads = self.count,
                cores = self.cores,
                "--threads is more than the cores that this process may use: threads will wait for each other; leave it out \
                 for one thread per core"
            );
        }
    }
}

/// Returns the number of cores that this process may use now.
fn present_cores() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_per_core_unless_stated() {
        let cores = NonZeroUsize::new(4).unwrap();
        let count = |given| Threads::of(given, cores).map(|threads| threads.count.get());
        assert_eq!(count(None).ok(), Some(4));
        assert_eq!(count(Some(1)).ok(), Some(1));
        assert_eq!(count(Some(64)).ok(), Some(64));
        for wrong in [0, 1_025] {
            let Err(Failure::Usage(message)) = count(Some(wrong)) else { panic!("{wrong} is accepted") };
            assert!(
                message.contains(&format!("--threads is {wrong}; give a number from 1 to 1024")),
                "{message}"
            );
        }
    }

    #[test]
    fn a_change_of_the_cores_is_told_once() {
        let cores = |count| NonZeroUsize::new(count).unwrap();
        let mut threads = Threads::of(None, cores(4)).ok().unwrap();
        assert_eq!(threads.take_in(cores(4)), None);
        assert_eq!(threads.take_in(cores(2)), Some(cores(4)));
        assert_eq!(threads.take_in(cores(2)), None);
        assert_eq!((threads.count, threads.take_in(cores(4))), (cores(4), Some(cores(2))));
    }
}
