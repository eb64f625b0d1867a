//! A back end that answers with any bytes it likes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A back end that answers each request head with what it was told to say.
pub(crate) struct Hostile {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    open: AtomicUsize,
    heads: AtomicUsize,
    repeated: AtomicUsize,
    bytes: Mutex<Vec<u8>>,
}

/// What to do once an answer was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Wait for the next request.
    Listen,
    /// Hang up.
    Close,
    /// Send back whatever comes.
    Echo,
    /// Send this piece, again and again.
    Repeat(&'static [u8]),
    /// Neither read nor write any more.
    Sulk,
}

impl Hostile {
    /// Says `answer` to every request.
    pub(crate) async fn says(answer: impl Into<Vec<u8>>, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, answer) = (Arc::new(Seen::default()), Arc::new(answer.into()));
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&answer), then, Arc::clone(&shared)));
            }
        });
        Self { address, seen, task }
    }

    /// How many connections came.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// How many of them are there now.
    pub(crate) fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    /// How many heads of requests came.
    pub(crate) fn heads(&self) -> usize {
        self.seen.heads.load(Ordering::SeqCst)
    }

    /// How many bytes of what is to be repeated were taken.
    pub(crate) fn repeated(&self) -> usize {
        self.seen.repeated.load(Ordering::SeqCst)
    }

    /// All that came, in lower case.
    pub(crate) fn heard(&self) -> String {
        String::from_utf8_lossy(&self.seen.bytes.lock()).to_ascii_lowercase()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, answer: Arc<Vec<u8>>, then: Then, seen: Arc<Seen>) {
    seen.open.fetch_add(1, Ordering::SeqCst);
    answer_all(&mut stream, &answer, then, &seen).await;
    drop(stream);
    seen.open.fetch_sub(1, Ordering::SeqCst);
}

async fn answer_all(stream: &mut TcpStream, answer: &[u8], then: Then, seen: &Seen) {
    let mut got = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    loop {
        let Ok(read @ 1..) = stream.read(&mut piece).await else { return };
        got.extend_from_slice(&piece[..read]);
        seen.bytes.lock().extend_from_slice(&piece[..read]);
        while let Some(end) = got.windows(4).position(|four| four == b"\r\n\r\n") {
            got.drain(..end + 4);
            seen.heads.fetch_add(1, Ordering::SeqCst);
            if stream.write_all(answer).await.is_err() {
                return;
            }
            match then {
                Then::Listen => continue,
                Then::Close => return,
                Then::Sulk => std::future::pending::<()>().await,
                Then::Repeat(again) => {
                    while stream.write_all(again).await.is_ok() {
                        seen.repeated.fetch_add(again.len(), Ordering::SeqCst);
                    }
                }
                Then::Echo => {
                    while let Ok(read @ 1..) = stream.read(&mut piece).await {
                        if stream.write_all(&piece[..read]).await.is_err() {
                            return;
                        }
                    }
                }
            }
            return;
        }
    }
}
