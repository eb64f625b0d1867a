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
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tidegate_testkit::Certificates;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

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
        Self::start_with(failures, None).await
    }

    /// One behind TLS.
    pub(crate) async fn start_tls(certificates: &Certificates) -> Self {
        let chain = CertificateDer::pem_file_iter(certificates.server_certificate()).unwrap();
        let chain = chain.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(certificates.server_key()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self::start_with(0, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn start_with(failures: u32, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { to_refuse: AtomicU32::new(failures), ..State::default() });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&state), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    match tls {
                        None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            drop(http.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                });
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
