//! Work that takes the processor for long, kept off event loops.

use std::fmt;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Reading, compiling and comparing rules: thousands of them take seconds.
pub static RULE_WORK: OneAtATime = OneAtATime::new();

/// Runs one piece of work at a time, on a thread where it holds up nobody.
///
/// However many ask, the work takes one core at most, and the event loops of those who wait go on.
#[derive(Debug)]
pub struct OneAtATime(Semaphore);

impl OneAtATime {
    /// Creates one that is idle.
    pub const fn new() -> Self {
        Self(Semaphore::const_new(1))
    }

    /// Waits for its turn, and does `work`. A caller that gives up after that does not stop it.
    ///
    /// Must be called within a Tokio runtime. Fails if `work` panics, or the runtime ends before its turn has come.
    pub async fn run<T, W>(&'static self, work: W) -> Result<T, Interrupted>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        // Never closed.
        let turn = self.0.acquire().await;
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.map_err(|_| Interrupted)
    }
}

/// Work that was not done to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work was interrupted, by a bug or by the end of this process; the log says more")
    }
}

impl std::error::Error for Interrupted {}

impl Default for OneAtATime {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn no_two_run_at_once_even_if_callers_give_up() {
        static WORK: OneAtATime = OneAtATime::new();
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let (release, released) = mpsc::channel::<()>();
        let (started, is_started) = tokio::sync::oneshot::channel();
        let first = tokio::spawn(WORK.run(move || {
            RUNNING.fetch_add(1, Ordering::SeqCst);
            started.send(()).unwrap();
            released.recv().unwrap();
            RUNNING.fetch_sub(1, Ordering::SeqCst);
        }));
        is_started.await.unwrap();
        first.abort();
        let mut others = JoinSet::new();
        for _ in 0..10 {
            others.spawn(WORK.run(|| {
                let before = RUNNING.fetch_add(1, Ordering::SeqCst);
                RUNNING.fetch_sub(1, Ordering::SeqCst);
                before
            }));
        }
        tokio::task::yield_now().await;
        release.send(()).unwrap();
        assert_eq!(others.join_all().await, [Ok(0); 10]);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_leaves_others_alone() {
        static WORK: OneAtATime = OneAtATime::new();
        assert_eq!(WORK.run(|| panic!("a bug")).await, Err::<(), _>(Interrupted));
        assert_eq!(WORK.run(|| 7).await, Ok(7));
    }
}
