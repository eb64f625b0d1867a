//! A back end that does what a test says.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::pieces::Pieces;

/// A server on a runtime of its own that answers by a function: requests (HTTP/1.1, and 2 without TLS), or whatever comes
/// over a connection. All of its connections end with it.
#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Answers requests by `answer`, and counts them.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn http<A>(answer: impl Fn(Request<Incoming>) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Response<Pieces>> + Send + 'static,
    {
        let (asked, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let count = Arc::clone(&asked);
        Self::start(None, asked, move |stream| {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            async move {
                let service = service_fn(move |request| {
                    count.fetch_add(1, Ordering::SeqCst);
                    let answering = answer(request);
                    async { Ok::<_, Infallible>(answering.await) }
                });
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http1().half_close(false);
                // A client that goes away is its own business.
                builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await.ok();
            }
        })
    }

    /// Talks by `talk` over each connection, and counts them.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn bytes<T>(talk: impl Fn(TcpStream) -> T + Send + Sync + 'static) -> Self
    where
        T: Future<Output = ()> + Send + 'static,
    {
        Self::bytes_at(None, talk)
    }

    /// The same at an address where somebody was before.
    ///
    /// # Panics
    /// If it cannot listen there.
    pub fn bytes_at<T>(at: Option<SocketAddr>, talk: impl Fn(TcpStream) -> T + Send + Sync + 'static) -> Self
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        Self::start(at, asked, move |stream| {
            count.fetch_add(1, Ordering::SeqCst);
            talk(stream)
        })
    }

    fn start<T>(
        at: Option<SocketAddr>,
        asked: Arc<AtomicUsize>,
        talk: impl Fn(TcpStream) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let at = at.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
        // A runtime of its own, so that tests that block do not hold it up.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let listener = TcpListener::bind(at).await.expect("the address is free");
                tell.send(listener.local_addr().expect("it is bound")).ok();
                let serving = async {
                    loop {
                        // An error is about the connection that would have been.
                        if let Ok((stream, _)) = listener.accept().await {
                            tokio::spawn(talk(stream));
                        }
                    }
                };
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().expect("the back end has started");
        Self { address, asked, stop: Some(stop), thread: Some(thread) }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests, or connections, have reached it.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}
