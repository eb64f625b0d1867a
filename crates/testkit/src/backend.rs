//! What a proxy forwards to.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// An HTTP server (1.1, and 2 without TLS) that answers 200 to everything and tells what it was asked.
///
/// The body of an answer is what arrived: a line `GET /path?query`, one for each header as `name: value` with
/// the name in lower case, an empty one, and the request's body.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    requests: AtomicUsize,
    extra: Mutex<HeaderMap>,
}

impl Backend {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// If it cannot listen.
    #[must_use]
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let serving = Arc::clone(&shared);
        // A runtime of its own, so that tests that block do not hold it up.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
                tell.send(listener.local_addr().expect("it is bound")).ok();
                tokio::select! {
                    () = serve(listener, serving) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().expect("the back end has started");
        Self { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have reached it.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Sends these headers with all answers from now on, and no others that were asked for before.
    ///
    /// # Panics
    /// If one of them is no header.
    pub fn answer_with(&self, headers: &[(&str, &str)]) {
        let pair = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().expect("the name of a header");
            (name, HeaderValue::from_str(value).expect("the value of a header"))
        };
        *self.shared.extra.lock().unwrap_or_else(PoisonError::into_inner) =
            headers.iter().map(pair).collect();
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // An error is about the connection that would have been.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, Arc::clone(&shared)));
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    // A client that goes away is its own business.
    auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await.ok();
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        let mut text = format!("{} {}\n", head.method, head.uri);
        for (name, value) in &head.headers {
            writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes())).ok();
        }
        writeln!(text, "\n{}", String::from_utf8_lossy(&body)).ok();
        let mut response = Response::new(Full::new(text.into()));
        response.headers_mut().extend(self.extra.lock().unwrap_or_else(PoisonError::into_inner).clone());
        response
    }
}
