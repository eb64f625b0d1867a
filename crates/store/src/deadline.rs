//! Deadlines, and giving up when one has passed.
//!
//! A timer that fires says that time has passed, not that no answer has come: a process that was not running for a while (too
//! little processor time, a paused virtual machine) finds its timers fired and the answers waiting in its sockets. Giving up
//! then would blame the server for the client's own absence. So [`until`] lets the runtime take in what has arrived before it gives up.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::yield_now;
use tokio::time::{self, sleep_until};

/// Moment after which an answer is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// Creates a deadline `patience` after `start`, which is when the request arrived.
    pub fn after(start: Instant, patience: Duration) -> Self {
        Self(start + patience)
    }

    /// Returns the moment itself.
    pub const fn at(self) -> Instant {
        self.0
    }
}

/// Turns of the runtime that an answer takes from its socket to the task that waits for it: the connection's task reads it, one or two
/// tasks pass it on, and one turn is to spare.
const TURNS: u32 = 4;

/// Error of a wait that has ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer in time")
    }
}

impl std::error::Error for Late {}

/// Waits for `future` until `deadline`. An answer that has arrived by the time the deadline is noticed counts.
///
/// Must be called within a Tokio runtime with a timer.
pub async fn until<F: Future>(deadline: impl Into<time::Instant>, future: F) -> Result<F::Output, Late> {
    let (mut future, deadline) = (pin!(future), deadline.into());
    let timer = async {
        keep_timer_armed(deadline);
        sleep_until(deadline).await;
    };
    tokio::select! {
        biased;
        output = future.as_mut() => return Ok(output),
        () = timer => {}
    }
    take_in(future).await
}

/// The timer that is kept armed on a thread.
#[derive(Clone, Copy)]
struct Armed {
    /// When it fires.
    at: time::Instant,
    /// How far ahead that was when it was armed.
    ahead: Duration,
}

thread_local! {
    static ARMED: Cell<Option<Armed>> = const { Cell::new(None) };
}

/// Deadlines that are further away are not those that the event loop wakes up for next.
const NEAR: Duration = Duration::from_millis(100);

/// Sees to it that a timer is armed on this thread that fires no later than `deadline`, whatever becomes of the caller.
///
/// Tokio's event loop, told of a timer that is earlier than all it knew of when it last went to sleep, wakes itself by a system call;
/// and so does each request whose deadline is the only one near. While an earlier timer stays armed, they do not. The next one is
/// armed when half the time of the last is over, so that there is always one: two for each length of a deadline, however many
/// requests there are.
fn keep_timer_armed(deadline: time::Instant) {
    let now = time::Instant::now();
    let ahead = deadline.saturating_duration_since(now);
    let enough = |armed: Armed| match armed.at.saturating_duration_since(now) {
        left if left.is_zero() => false,
        left => left <= ahead && (left > ahead / 2 || armed.ahead < ahead / 2),
    };
    if ahead <= NEAR && !ARMED.get().is_some_and(enough) {
        ARMED.set(Some(Armed { at: deadline, ahead }));
        tokio::spawn(sleep_until(deadline));
    }
}

/// Waits for `future` for `patience`, from now on; otherwise like [`until`].
pub async fn within<F: Future>(patience: Duration, future: F) -> Result<F::Output, Late> {
    match time::Instant::now().checked_add(patience) {
        Some(deadline) => until(deadline, future).await,
        None => Ok(future.await),
    }
}

/// Lets the runtime read what has arrived and pass it on.
async fn take_in<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, Late> {
    for _ in 0..TURNS {
        // Yielding to Tokio means that it looks at its sockets before this task runs again.
        yield_now().await;
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(output) = polled.await {
            return Ok(output);
        }
    }
    Err(Late)
}

/// Waits for `call`, which began at `begun`, and returns its output and for how long it was certainly not answered.
///
/// The second figure is what may be counted against the server: it is zero unless one of the `marks`, in ascending order, had
/// passed and no answer had arrived, whereas the time that the call seems to have taken includes all that this process was not running.
pub async fn watch<F: Future>(begun: Instant, marks: &[Duration], call: F) -> (F::Output, Duration) {
    let mut call = pin!(call);
    let mut unanswered = Duration::ZERO;
    for mark in marks {
        match until(begun + *mark, call.as_mut()).await {
            Ok(output) => return (output, unanswered),
            Err(Late) => unanswered = begun.elapsed(),
        }
    }
    (call.await, unanswered)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use tokio::io::AsyncReadExt;
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const NEVER: Duration = Duration::from_secs(3_600);

    /// A connection whose answers are read by one task and passed on by another.
    struct Scene {
        peer: TcpStream,
        answer: oneshot::Receiver<u8>,
        tasks: [JoinHandle<()>; 2],
    }

    impl Scene {
        async fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let ((read, passed_on), (reply, answer)) = (oneshot::channel(), oneshot::channel());
            let reader = tokio::spawn(async move {
                read.send(stream.read_u8().await.unwrap()).unwrap();
            });
            let courier = tokio::spawn(async move {
                reply.send(passed_on.await.unwrap()).ok();
            });
            // Both are waiting when they have had a turn.
            yield_now().await;
            Self { peer, answer, tasks: [reader, courier] }
        }

        /// The answer arrives, and this process does not run until after the deadline.
        fn answer_while_absent(&mut self, deadline: Instant) {
            self.peer.write_all(&[7]).unwrap();
            while Instant::now() <= deadline {
                std::thread::sleep(SHORT);
            }
        }
    }

    #[tokio::test]
    async fn an_answer_that_has_arrived_counts() {
        let mut scene = Scene::new().await;
        let deadline = Instant::now() + SHORT;
        scene.answer_while_absent(deadline);
        assert_eq!(until(deadline, scene.answer).await, Ok(Ok(7)));
    }

    #[tokio::test]
    async fn without_an_answer_it_is_late() {
        let scene = Scene::new().await;
        assert_eq!(until(Instant::now() + SHORT, scene.answer).await, Err(Late));
        scene.tasks.iter().for_each(JoinHandle::abort);
    }

    #[tokio::test]
    async fn absence_is_not_held_against_the_server() {
        let mut scene = Scene::new().await;
        let begun = Instant::now();
        scene.answer_while_absent(begun + 2 * SHORT);
        let (answer, unanswered) = watch(begun, &[SHORT, 2 * SHORT, NEVER], scene.answer).await;
        assert_eq!((answer, unanswered), (Ok(7), Duration::ZERO));
    }

    #[tokio::test]
    async fn silence_is_held_against_the_server() {
        let mut scene = Scene::new().await;
        let begun = Instant::now();
        let call = async {
            until(begun + 5 * SHORT, std::future::pending::<()>()).await.unwrap_err();
            scene.peer.write_all(&[7]).unwrap();
            scene.answer.await
        };
        let (answer, unanswered) = watch(begun, &[SHORT, 2 * SHORT, NEVER], call).await;
        assert_eq!(answer, Ok(7));
        assert!(unanswered >= 2 * SHORT, "{unanswered:?}");
    }
}
