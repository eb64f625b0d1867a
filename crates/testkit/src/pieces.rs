//! Bodies that come when a test wants them to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// A body that is all there, or that a [`Feeder`] gives piece by piece.
#[derive(Debug)]
pub struct Pieces {
    ready: Option<Bytes>,
    fed: Option<mpsc::Receiver<io::Result<Frame<Bytes>>>>,
    /// How much is to come, if it was said before.
    left: Option<u64>,
}

/// Gives pieces of a body. The body ends when this is dropped.
#[derive(Debug)]
pub struct Feeder(mpsc::Sender<io::Result<Frame<Bytes>>>);

impl Pieces {
    /// A body that is all there.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            left: Some(bytes.len() as u64),
            ready: Some(bytes).filter(|bytes| !bytes.is_empty()),
            fed: None,
        }
    }

    /// No body.
    #[must_use]
    pub fn none() -> Self {
        Self::whole(Bytes::new())
    }

    /// A body of unknown length, which is sent in chunks over HTTP/1.1.
    #[must_use]
    pub fn fed() -> (Feeder, Self) {
        let (give, fed) = mpsc::channel(1);
        (Feeder(give), Self { ready: None, fed: Some(fed), left: None })
    }

    /// A body of which the length is said before.
    #[must_use]
    pub fn fed_with_length(bytes: u64) -> (Feeder, Self) {
        let (feeder, body) = Self::fed();
        (feeder, Self { left: Some(bytes), ..body })
    }
}

impl Feeder {
    /// Gives the next piece, once the one before the last has been taken. False: nobody wants it any more.
    pub async fn give(&self, bytes: impl Into<Bytes>) -> bool {
        self.0.send(Ok(Frame::data(bytes.into()))).await.is_ok()
    }

    /// Ends the body with trailers.
    pub async fn end_with(self, trailers: HeaderMap) -> bool {
        self.0.send(Ok(Frame::trailers(trailers))).await.is_ok()
    }

    /// Breaks it off: its connection is closed, or its stream reset.
    pub async fn break_off(self) {
        self.0.send(Err(io::ErrorKind::ConnectionReset.into())).await.ok();
    }

    /// Returns once nobody wants the body any more.
    pub async fn unwanted(&self) {
        self.0.closed().await;
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(bytes) = self.ready.take() {
            self.left = Some(0);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let Some(fed) = &mut self.fed else { return Poll::Ready(None) };
        let frame = std::task::ready!(fed.poll_recv(cx));
        if let (Some(left), Some(Ok(frame))) = (&mut self.left, &frame) {
            *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_none() && self.fed.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}
