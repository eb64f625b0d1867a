//! One connection: served, watched, and ended in time.
//!
//! A connection costs memory and a file descriptor, so none may linger: a request's head must arrive soon after its
//! first byte, and a connection on which nothing is asked is closed after a while. One slow timer per connection
//! sees to both; a timer per request would cost more than the decision.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper_util::server::graceful::GracefulConnection;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::data_plane::LoadGuard;
use crate::streams::Taking;
use crate::trust::Trust;

/// How often a connection is looked at, at most.
const TICK: Duration = Duration::from_secs(5);

/// How long a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// To send the head of a request.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// To take any part of an answer.
    pub take: Duration,
}

impl Default for Patience {
    /// Connections are kept for longer than proxies keep theirs, so that they end them and not we.
    fn default() -> Self {
        Self { head: Duration::from_secs(10), idle: Duration::from_secs(300), take: Duration::from_secs(60) }
    }
}

impl Patience {
    /// How often to look.
    fn tick(&self) -> Duration {
        let shortest = self.head.min(self.idle).min(self.take);
        TICK.min(shortest / 2).max(Duration::from_millis(10))
    }
}

/// What connections are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Go on.
    Serving,
    /// Ask clients to go elsewhere: a connection that ends with an answer takes no request down with it.
    Leaving,
    /// Finish what has begun.
    Closing,
}

/// Serves a connection to its end, or to ours: when nobody is left to say what to do, it is cut. One that has reached
/// its greatest age is ended once what has begun on it is finished.
pub(crate) async fn drive(
    connection: impl GracefulConnection,
    activity: &Activity,
    mut phase: watch::Receiver<Phase>,
    max_age: Option<Duration>,
    patience: Patience,
) {
    let mut connection = pin!(connection);
    let mut watchdog = Watchdog::new(patience);
    let mut ticks = interval(patience.tick());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut closing = false;
    let mut cut = None;
    let end = max_age.and_then(|age| Instant::now().checked_add(age));
    let present = phase.clone();
    loop {
        tokio::select! {
            biased;
            ended = progress(connection.as_mut(), activity, &present, closing) => match ended {
                Progress::Ended => return,
                // A client that may not ask is not waited for as long as others are.
                Progress::Final => cut = Instant::now().checked_add(patience.head),
            },
            changed = phase.changed() => match *phase.borrow_and_update() {
                _ if changed.is_err() => return,
                Phase::Serving => continue,
                Phase::Leaving => {
                    activity.leave();
                    continue;
                }
                Phase::Closing => {}
            },
            now = ticks.tick() => {
                if cut.is_some_and(|cut| now >= cut) {
                    return;
                }
                let overdue = watchdog.is_overdue(activity, now);
                // There is no gentle way to end an answer that nobody takes.
                if overdue && (closing || activity.is_stuck()) {
                    return;
                }
                if !overdue && (closing || end.is_none_or(|end| now < end)) {
                    continue;
                }
            }
        }
        closing = true;
        connection.as_mut().graceful_shutdown();
    }
}

/// Result of driving a connection.
enum Progress {
    /// It has ended.
    Ended,
    /// It is to end with what has begun on it.
    Final,
}

/// Drives a connection until it ends or, unless it is `closing` already, is to be ended with what has begun on it.
async fn progress(
    mut connection: Pin<&mut impl GracefulConnection>,
    activity: &Activity,
    phase: &watch::Receiver<Phase>,
    closing: bool,
) -> Progress {
    poll_fn(|cx| {
        // A request that comes with the news is answered as one that came after it.
        if phase.has_changed().unwrap_or_default() && *phase.borrow() == Phase::Leaving {
            activity.leave();
        }
        match connection.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(Progress::Ended),
            // Responses are sent by driving the connection, so that whatever says this has been said when it was driven.
            Poll::Pending if !closing && activity.is_final() => Poll::Ready(Progress::Final),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// What goes on on a connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    trust: Arc<Trust>,
    /// True if it is for a single request.
    single: bool,
    /// True once that request has been answered.
    answered: AtomicBool,
    /// Pieces read from the network, ever.
    reads: AtomicU32,
    /// How many of them had been read when the last request was finished.
    reads_finished: AtomicU32,
    /// Requests begun, ever.
    requests: AtomicU32,
    in_flight: AtomicU32,
    /// Whether requests share it (HTTP/2); then not everything read is part of one.
    shared: AtomicBool,
    /// Whether it is to end with the next answer.
    leaving: AtomicBool,
    /// Pieces written to the network, ever.
    writes: AtomicU32,
    /// Whether there is more to write than the client takes.
    stuck: AtomicBool,
}

impl Activity {
    /// Returns the activity of a connection on which nothing has happened yet. A `single` one ends with its first answer.
    pub(crate) fn new(trust: Arc<Trust>, single: bool) -> Self {
        Self { trust, single, ..Self::default() }
    }

    /// Returns whether nothing more is to begin.
    fn is_final(&self) -> bool {
        self.trust.is_refused() || self.answered.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Has the client told with its answer that there is no next one, where the protocol has a word for it.
    pub(crate) fn part(&self, headers: &mut HeaderMap) {
        if self.single {
            self.answered.store(true, Ordering::Relaxed);
        }
        let ends = self.leaving.load(Ordering::Relaxed) || self.is_final();
        if ends && !self.shared.load(Ordering::Relaxed) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    pub(crate) fn read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// A piece was written, or could not be because the client has not taken the last ones yet.
    pub(crate) fn wrote(&self, taken: bool) {
        if taken {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        self.stuck.store(!taken, Ordering::Relaxed);
    }

    fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// A request has begun, on the thread with that load; it ends when what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>, version: http::Version, load: Option<&LoadGuard>) -> InFlight {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        if version == http::Version::HTTP_2 {
            self.shared.store(true, Ordering::Relaxed);
        }
        InFlight { activity: Arc::clone(self), _load: load.map(LoadGuard::request) }
    }

    fn state(&self) -> State {
        let requests = self.requests.load(Ordering::Relaxed);
        let reading = self.reads.load(Ordering::Relaxed) != self.reads_finished.load(Ordering::Relaxed);
        if self.is_stuck() {
            return State::Stuck(self.writes.load(Ordering::Relaxed));
        }
        match (self.in_flight.load(Ordering::Relaxed), requests) {
            // The first request is expected as soon as there is a connection.
            (0, 0) => State::Head(0),
            (0, _) if reading && !self.shared.load(Ordering::Relaxed) => State::Head(requests),
            (0, _) => State::Idle(requests),
            _ => State::Busy,
        }
    }
}

/// A request on its way, for as long as its answer is.
#[derive(Debug)]
pub(crate) struct InFlight {
    activity: Arc<Activity>,
    _load: Option<LoadGuard>,
}

impl InFlight {
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let activity = &self.activity;
        activity.reads_finished.store(activity.reads.load(Ordering::Relaxed), Ordering::Relaxed);
        activity.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a connection is at; with how many requests it had by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Busy,
    Head(u32),
    Idle(u32),
    /// With how many pieces it had written by then.
    Stuck(u32),
}

/// Knows since when a connection has been at the same thing.
struct Watchdog {
    patience: Patience,
    seen: Option<(State, Instant)>,
}

impl Watchdog {
    fn new(patience: Patience) -> Self {
        Self { patience, seen: None }
    }

    fn is_overdue(&mut self, activity: &Activity, now: Instant) -> bool {
        let state = activity.state();
        let since = match self.seen {
            Some((seen, since)) if seen == state => since,
            _ => now,
        };
        self.seen = Some((state, since));
        match state {
            State::Busy => false,
            State::Head(_) => now - since >= self.patience.head,
            State::Idle(_) => now - since >= self.patience.idle,
            State::Stuck(_) => now - since >= self.patience.take,
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum AnswerBody<B> {
    /// Of a request that was handed on.
    Handler(B),
    /// Of one that was refused before.
    Refusal(Full<Bytes>),
}

/// The body of an answer, which keeps its request in flight until it is sent.
#[derive(Debug)]
pub(crate) struct Sending<B> {
    body: AnswerBody<B>,
    _in_flight: InFlight,
    /// Whether its client takes it, where that is not seen from the connection.
    taking: Option<Arc<Taking>>,
}

impl<B> Sending<B> {
    pub(crate) fn new(body: AnswerBody<B>, in_flight: InFlight) -> Self {
        Self { body, _in_flight: in_flight, taking: Taking::current() }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Sending<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(taking) = &self.taking {
            taking.ask();
        }
        let polled = match &mut self.body {
            AnswerBody::Handler(body) => Pin::new(body).poll_frame(cx),
            AnswerBody::Refusal(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
        };
        if let (Some(taking), Poll::Ready(Some(Ok(_)))) = (&self.taking, &polled) {
            taking.give();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            AnswerBody::Handler(body) => body.is_end_stream(),
            AnswerBody::Refusal(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            AnswerBody::Handler(body) => body.size_hint(),
            AnswerBody::Refusal(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_head_must_arrive_soon() {
        let (activity, mut watchdog, start) =
            (Activity::default(), Watchdog::new(Patience::default()), Instant::now());
        assert!(!watchdog.is_overdue(&activity, start));
        activity.read();
        assert!(!watchdog.is_overdue(&activity, after(start, 9)));
        assert!(watchdog.is_overdue(&activity, after(start, 10)));
    }

    #[test]
    fn a_request_may_take_its_time_and_a_connection_may_rest() {
        let (activity, mut watchdog) = (Arc::new(Activity::default()), Watchdog::new(Patience::default()));
        let start = Instant::now();
        activity.read();
        let request = activity.begin(http::Version::HTTP_11, None);
        activity.read();
        assert!(!watchdog.is_overdue(&activity, after(start, 0)));
        assert!(!watchdog.is_overdue(&activity, after(start, 1_000)));
        drop(request);
        assert!(!watchdog.is_overdue(&activity, after(start, 1_001)));
        assert!(!watchdog.is_overdue(&activity, after(start, 1_300)));
        assert!(watchdog.is_overdue(&activity, after(start, 1_301)));
        activity.read();
        assert!(!watchdog.is_overdue(&activity, after(start, 1_302)), "the next head begins");
        assert!(watchdog.is_overdue(&activity, after(start, 1_312)));
    }

    #[test]
    fn an_answer_must_be_taken() {
        let (activity, mut watchdog) = (Arc::new(Activity::default()), Watchdog::new(Patience::default()));
        let start = Instant::now();
        let _request = activity.begin(http::Version::HTTP_11, None);
        activity.wrote(true);
        assert!(!watchdog.is_overdue(&activity, start));
        assert!(!watchdog.is_overdue(&activity, after(start, 1_000)), "there may be nothing to take");
        activity.wrote(false);
        assert!(!watchdog.is_overdue(&activity, after(start, 1_001)));
        activity.wrote(true);
        activity.wrote(false);
        assert!(!watchdog.is_overdue(&activity, after(start, 1_060)), "some of it was taken");
        assert!(!watchdog.is_overdue(&activity, after(start, 1_119)));
        assert!(watchdog.is_overdue(&activity, after(start, 1_120)));
    }

    #[test]
    fn a_shared_connection_may_talk_without_asking() {
        let (activity, mut watchdog) = (Arc::new(Activity::default()), Watchdog::new(Patience::default()));
        let start = Instant::now();
        drop(activity.begin(http::Version::HTTP_2, None));
        activity.read();
        assert!(!watchdog.is_overdue(&activity, start));
        assert!(!watchdog.is_overdue(&activity, after(start, 299)));
        assert!(watchdog.is_overdue(&activity, after(start, 300)));
    }
}
