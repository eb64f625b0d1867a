//! Work that takes the processor for long, kept off event loops.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::{io, thread};

use tokio::sync::{Semaphore, oneshot};

/// Reading, compiling and comparing rules: thousands of them take seconds.
pub static RULE_WORK: OneAtATime = OneAtATime::new();

/// Name of the threads that do the work, as the operating system shows it.
const THREAD: &str = "control-work";

/// Priority of these threads: a tenth of the weight of a thread with the usual one.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Runs one piece of work at a time, on a thread of its own where it holds up nobody.
///
/// However many ask, the work takes one core at most, and the event loops of those who wait go on.
#[derive(Debug)]
pub struct OneAtATime {
    turns: Semaphore,
    waiting: AtomicUsize,
    /// Sender of work to the thread that does it, once there has been any.
    worker: Mutex<Option<mpsc::Sender<Work>>>,
}

type Work = Box<dyn FnOnce() + Send>;

impl OneAtATime {
    /// Creates one that is idle.
    pub const fn new() -> Self {
        Self { turns: Semaphore::const_new(1), waiting: AtomicUsize::new(0), worker: Mutex::new(None) }
    }

    /// Returns how many wait for their turn.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for its turn, and does `work`. The work of a caller that gives up before is never begun; one that gives up
    /// after that does not stop it.
    ///
    /// Fails if `work` panics, or there can be no thread for it.
    pub async fn run<T, W>(&'static self, work: W) -> Result<T, Interrupted>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let place = Place::take(&self.waiting);
        // Never closed.
        let turn = self.turns.acquire().await;
        drop(place);
        let (done, result) = oneshot::channel();
        self.send(Box::new(move || {
            let _turn = turn;
            done.send(work()).ok();
        }))?;
        result.await.map_err(|_| Interrupted)
    }

    fn send(&self, work: Work) -> Result<(), Interrupted> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match worker.take() {
            Some(sender) => sender,
            None => start().map_err(|_| Interrupted)?,
        };
        worker.insert(sender).send(work).map_err(|_| Interrupted)
    }
}

/// Starts a thread that does what is sent to it, for as long as the process runs.
fn start() -> io::Result<mpsc::Sender<Work>> {
    let (sender, work) = mpsc::channel::<Work>();
    thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        give_way();
        for work in work {
            // The panic has been reported, and the caller learns of it by hearing nothing.
            catch_unwind(AssertUnwindSafe(work)).ok();
        }
    })?;
    Ok(sender)
}

/// Has the present thread give way to those of usual priority. They still leave it about a tenth of a core that it shares with one of
/// them, so that nothing waits forever.
fn give_way() {
    // Linux alone has a priority for each thread.
    #[cfg(target_os = "linux")]
    {
        // Every process may; in a sandbox that forbids it all the same, the priority stays as it is.
        rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE).ok();
    }
}

/// A place in the line, left by dropping it.
struct Place<'l>(&'l AtomicUsize);

impl<'l> Place<'l> {
    fn take(line: &'l AtomicUsize) -> Self {
        line.fetch_add(1, Ordering::Relaxed);
        Self(line)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
    async fn work_of_callers_that_left_is_never_begun() {
        static WORK: OneAtATime = OneAtATime::new();
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let (release, released) = mpsc::channel::<()>();
        let (started, is_started) = tokio::sync::oneshot::channel();
        let first = tokio::spawn(WORK.run(move || {
            started.send(()).unwrap();
            released.recv().unwrap();
        }));
        is_started.await.unwrap();
        let mut others = JoinSet::new();
        for _ in 0..10 {
            others.spawn(WORK.run(|| BEGUN.fetch_add(1, Ordering::SeqCst)));
        }
        while WORK.waiting() < 10 {
            tokio::task::yield_now().await;
        }
        others.shutdown().await;
        assert_eq!(WORK.waiting(), 0);
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        // Its turn comes after theirs would have come.
        assert_eq!(WORK.run(|| BEGUN.load(Ordering::SeqCst)).await, Ok(0));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn work_gives_way_and_those_who_wait_for_it_do_not() {
        static WORK: OneAtATime = OneAtATime::new();
        let nice = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
        let usual = nice();
        assert_eq!(WORK.run(nice).await, Ok(NICE));
        assert_eq!(nice(), usual);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_leaves_others_alone() {
        static WORK: OneAtATime = OneAtATime::new();
        assert_eq!(WORK.run(|| panic!("a bug")).await, Err::<(), _>(Interrupted));
        assert_eq!(WORK.run(|| 7).await, Ok(7));
    }
}
