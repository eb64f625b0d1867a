//! Somebody who is told of alerts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Takes posts, but not the first few.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    to_refuse: AtomicU32,
    refused: AtomicU32,
    taken: Mutex<Vec<Value>>,
}

impl Receiver {
    /// One that fails so many times first.
    pub(crate) async fn start(failures: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { to_refuse: AtomicU32::new(failures), ..State::default() });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, state, task }
    }

    pub(crate) fn refused(&self) -> u32 {
        self.state.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn taken(&self) -> Vec<Value> {
        self.state.taken.lock().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    assert_eq!(request.method(), "POST");
    assert_eq!(request.uri(), "/hook?key=secret");
    assert_eq!(request.headers()["content-type"], "application/json");
    let body = request.into_body().collect().await?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let mut answer = Response::new(Full::default());
    let left = state.to_refuse.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    if left.is_ok() {
        state.refused.fetch_add(1, Ordering::Relaxed);
        *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    } else {
        state.taken.lock().push(body);
    }
    Ok(answer)
}
