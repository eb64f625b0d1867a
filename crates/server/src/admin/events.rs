//! `GET /v1/events`: the node as it goes on, as server-sent events.
//!
//! Whoever reads too slowly is not told of seconds that are over meanwhile; whoever does not read at all is let go.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, VARY};
use http::{Response, StatusCode};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::Door;
use crate::gzip;
use crate::live::{Event, Live};
use crate::node::Node;
use crate::reply::{Reply, Wrong};

/// The type of the answer.
pub(crate) const CONTENT: &str = "text/event-stream";

/// How long nothing may go out.
const SILENCE: Duration = Duration::from_secs(15);

/// How long a reader may take for one event. A connection on which nothing moves at all ends by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// Large events go out in pieces, so that no connection has to keep one whole.
const PIECE: usize = 16 * 1024;

/// Has proxies pass events on as they come.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) async fn show(State(door): State<Arc<Door>>, asked: HeaderMap) -> Response<Body> {
    let Some(place) = door.node.live.enter() else {
        let message = "too many watch this node already; try again when others have left";
        let wrong = Wrong::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_watchers", message);
        return Reply::from(wrong).map(Body::new);
    };
    let (to, pieces) = mpsc::channel(1);
    let packed = gzip::is_read(&asked);
    let reader = Reader { to, end: door.node.live.ending(), packed };
    tokio::spawn(tell(Arc::clone(&door.node), place, reader));
    let mut response = Response::new(Body::new(Pieces(pieces)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if packed {
        headers.insert(CONTENT_ENCODING, gzip::NAME);
    }
    response
}

/// Tells a reader all there is, until it or the node goes.
async fn tell(node: Arc<Node>, _place: OwnedSemaphorePermit, mut reader: Reader) {
    // Nothing is left to tell to one that has gone.
    let _ = tell_all(&node, &node.live, &mut reader).await;
}

async fn tell_all(node: &Node, live: &Live, reader: &mut Reader) -> Result<(), Gone> {
    let (mut seconds, mut journal) = (live.seconds(), live.journal.changed());
    reader.begin().await?;
    reader.tell(&live.history()).await?;
    reader.tell(&live.tick(node)).await?;
    let mut insight = live.insight(node);
    reader.tell(&insight).await?;
    reader.tell(&live.journal.frame()).await?;
    loop {
        tokio::select! {
            gone = reader.gone() => return Err(gone),
            changed = journal.changed() => {
                changed.map_err(|_| Gone)?;
                reader.tell(&live.journal.frame()).await?;
            }
            changed = seconds.changed() => {
                changed.map_err(|_| Gone)?;
                reader.tell(&live.tick(node)).await?;
                let now = live.insight(node);
                if !now.is(&insight) {
                    insight = now;
                    reader.tell(&insight).await?;
                }
            }
            () = sleep(SILENCE) => reader.tell(&Event::comment()).await?,
        }
    }
}

/// Nobody reads any more, or nobody is to.
struct Gone;

/// Somebody who reads.
struct Reader {
    to: mpsc::Sender<Bytes>,
    end: watch::Receiver<bool>,
    /// Whether it reads gzip.
    packed: bool,
}

impl Reader {
    /// Sends what comes before all events.
    async fn begin(&mut self) -> Result<(), Gone> {
        if self.packed { self.send(gzip::HEAD).await } else { Ok(()) }
    }

    /// Sends an event.
    async fn tell(&mut self, event: &Event) -> Result<(), Gone> {
        self.send(if self.packed { event.packed() } else { event.plain() }).await
    }

    /// Waits until most of it is taken.
    async fn send(&mut self, mut bytes: Bytes) -> Result<(), Gone> {
        let Self { to, end, .. } = self;
        let sent = async {
            while !bytes.is_empty() {
                let piece = bytes.split_to(PIECE.min(bytes.len()));
                to.send(piece).await.map_err(|_| Gone)?;
            }
            Ok(())
        };
        tokio::select! {
            sent = timeout(PATIENCE, sent) => sent.unwrap_or(Err(Gone)),
            _ = end.wait_for(|end| *end) => Err(Gone),
        }
    }

    /// Waits until nobody reads any more, or nobody is to.
    async fn gone(&mut self) -> Gone {
        let Self { to, end, .. } = self;
        tokio::select! {
            () = to.closed() => Gone,
            _ = end.wait_for(|end| *end) => Gone,
        }
    }
}

/// What a reader is sent, as the body of an answer.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn reader() -> (Reader, mpsc::Receiver<Bytes>, watch::Sender<bool>) {
        let ((to, pieces), (ending, end)) = (mpsc::channel(1), watch::channel(false));
        (Reader { to, end, packed: false }, pieces, ending)
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_too_long_for_an_event_is_let_go() {
        let (mut reader, mut pieces, _ending) = reader();
        let start = Instant::now();
        // It takes something now and then, but never enough.
        let trickle = tokio::spawn(async move {
            while pieces.recv().await.is_some() {
                sleep(Duration::from_secs(50)).await;
            }
        });
        assert!(reader.send(Bytes::from(vec![b'x'; 10 * PIECE])).await.is_err());
        assert!(start.elapsed() >= PATIENCE && start.elapsed() < 2 * PATIENCE);
        trickle.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_read_is_let_go_at_the_end() {
        let (mut reader, _pieces, ending) = reader();
        let start = Instant::now();
        ending.send_replace(true);
        assert!(reader.send(Bytes::from(vec![b'x'; 10 * PIECE])).await.is_err());
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(matches!(reader.gone().await, Gone));
    }

    #[tokio::test]
    async fn large_events_go_in_pieces() {
        let (mut reader, mut pieces, _ending) = reader();
        let event: Bytes = (0..=255).cycle().take(5 * PIECE / 2).collect::<Vec<u8>>().into();
        let sent = event.clone();
        let telling = tokio::spawn(async move { reader.send(sent).await.is_ok() });
        let mut read = Vec::new();
        while let Some(piece) = pieces.recv().await {
            assert!(piece.len() <= PIECE);
            read.extend_from_slice(&piece);
        }
        assert!(telling.await.unwrap());
        assert_eq!(read, event);
    }
}
