//! Bodies on their way through, piece by piece, with an eye on how long each piece takes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep};

use crate::finish::Finish;
use crate::forwarded::Forwarding;

/// Why a body ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// Whoever sends it has gone, or sends nonsense.
    #[error("the body ended before its end")]
    Gone,
    /// The next piece did not come in time.
    #[error("the next part of the body did not come in time")]
    Late,
    /// It is larger than allowed.
    #[error("the body is larger than allowed")]
    TooLarge,
}

impl Broken {
    const ALL: [Self; 3] = [Self::Gone, Self::Late, Self::TooLarge];
}

/// Waits for each piece of a body for a while, and no longer.
#[derive(Debug)]
struct Timed {
    body: Incoming,
    patience: Duration,
    /// Set up when a piece is waited for the first time: most bodies are all there at once.
    alarm: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Timed {
    fn new(body: Incoming, patience: Duration) -> Self {
        Self { body, patience, alarm: None, waiting: false }
    }

    /// Whether nothing more comes: it has ended, or all that was announced is there.
    fn is_over(&self) -> bool {
        self.body.is_end_stream() || self.body.size_hint().exact() == Some(0)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.waiting = false;
                Poll::Ready(frame.map(|frame| frame.map_err(|_| Broken::Gone)))
            }
            Poll::Pending => {
                let patience = self.patience;
                let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(patience)));
                if !self.waiting {
                    self.waiting = true;
                    alarm.as_mut().reset(Instant::now() + patience);
                }
                alarm.as_mut().poll(cx).map(|()| Some(Err(Broken::Late)))
            }
        }
    }
}

/// The body of a request on its way to a back end.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// There is none.
    Empty,
    /// It comes as it comes.
    Streaming(Streaming),
}

/// A body that is sent on as it comes. Until its first piece is asked for, it can be had back.
#[derive(Debug)]
pub(crate) struct Streaming {
    source: Arc<Source>,
    open: Option<Timed>,
    size: SizeHint,
}

/// Where a body comes from, and how far that has got.
#[derive(Debug)]
pub(crate) struct Source {
    body: Mutex<Option<Incoming>>,
    patience: Duration,
    /// The most bytes it may have.
    most: u64,
    /// What may not be at its end.
    forwarding: Arc<Forwarding>,
    sent: AtomicU64,
    /// Which of the ways to break it took, counted from one; 0: none.
    broken: AtomicU8,
}

impl Source {
    /// `None` if there is no body.
    pub(crate) fn new(
        body: Incoming,
        patience: Duration,
        most: Option<u64>,
        forwarding: &Arc<Forwarding>,
    ) -> Option<Arc<Self>> {
        if body.is_end_stream() {
            return None;
        }
        Some(Arc::new(Self {
            body: Mutex::new(Some(body)),
            patience,
            most: most.unwrap_or(u64::MAX),
            forwarding: Arc::clone(forwarding),
            sent: AtomicU64::new(0),
            broken: AtomicU8::new(0),
        }))
    }

    /// The body, to be sent; again, if nothing of it has been asked for yet.
    pub(crate) fn outgoing(self: &Arc<Self>) -> Option<Outgoing> {
        let size = self.body.lock().as_ref()?.size_hint();
        Some(Outgoing::Streaming(Streaming { source: Arc::clone(self), open: None, size }))
    }

    /// Whether nothing of it has been asked for yet.
    pub(crate) fn is_whole(&self) -> bool {
        self.body.lock().is_some()
    }

    /// How much of it was sent on.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// What went wrong with it, if anything did.
    pub(crate) fn broken(&self) -> Option<Broken> {
        let index = usize::from(self.broken.load(Ordering::Relaxed)).checked_sub(1)?;
        Broken::ALL.get(index).copied()
    }

    fn breaks(&self, how: Broken) -> Broken {
        let index = Broken::ALL.iter().position(|known| *known == how).unwrap_or_default();
        self.broken.store(u8::try_from(index + 1).unwrap_or(1), Ordering::Relaxed);
        how
    }
}

impl Streaming {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let source = &self.source;
        let open = match &mut self.open {
            Some(open) => open,
            None => match source.body.lock().take() {
                Some(body) => self.open.insert(Timed::new(body, source.patience)),
                // Somebody else is sending it.
                None => return Poll::Ready(Some(Err(source.breaks(Broken::Gone)))),
            },
        };
        open.poll_frame(cx).map(|frame| {
            Some(match frame? {
                Ok(mut frame) => {
                    if let Some(trailers) = frame.trailers_mut() {
                        source.forwarding.strip_trailers(trailers);
                    }
                    let bytes = frame.data_ref().map_or(0, |data| data.remaining() as u64);
                    let sent = source.sent.fetch_add(bytes, Ordering::Relaxed) + bytes;
                    if sent > source.most { Err(source.breaks(Broken::TooLarge)) } else { Ok(frame) }
                }
                Err(how) => Err(source.breaks(how)),
            })
        })
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Streaming(streaming) => streaming.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Streaming(streaming) => {
                streaming.open.as_ref().is_some_and(|open| open.body.is_end_stream())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Streaming(streaming) => match &streaming.open {
                Some(open) => open.body.size_hint(),
                None => streaming.size,
            },
        }
    }
}

/// The body of an answer on its way to a client.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The gateway's own words.
    Own(Full<Bytes>, Option<Box<Finish>>),
    /// What a back end says, as it comes.
    Passed(Box<Passed>),
}

/// What a back end says.
#[derive(Debug)]
pub(crate) struct Passed {
    body: Timed,
    finish: Finish,
}

impl Answer {
    pub(crate) fn passed(body: Incoming, patience: Duration, mut finish: Finish) -> Self {
        let body = Timed::new(body, patience);
        // Nobody asks for what is not there.
        if body.is_over() {
            finish.ended();
        }
        Self::Passed(Box::new(Passed { body, finish }))
    }

    /// Notes that there is no client any more to take it.
    pub(crate) fn abandon(&mut self) {
        match self {
            Self::Own(_, None) => {}
            Self::Own(_, Some(finish)) => finish.abandoned(),
            Self::Passed(passed) => passed.finish.abandoned(),
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Own(body, _) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Passed(passed) => {
                let Passed { body, finish } = &mut **passed;
                body.poll_frame(cx).map(|frame| {
                    match &frame {
                        Some(Ok(frame)) => {
                            finish.passed(frame.data_ref().map_or(0, |data| data.remaining() as u64));
                        }
                        Some(Err(how)) => finish.broke(*how),
                        None => finish.ended(),
                    }
                    // Whoever knows that nothing more comes does not ask for it.
                    if body.is_over() {
                        finish.ended();
                    }
                    frame
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body, _) => body.is_end_stream(),
            Self::Passed(passed) => passed.body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body, _) => body.size_hint(),
            Self::Passed(passed) => passed.body.body.size_hint(),
        }
    }
}
