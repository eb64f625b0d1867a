//! What travels, seen and sent by somebody in between.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const PATH: &str = "/tidegate.cluster.v1.Peer/Ask";

type AnyBody = BoxBody<Bytes, Infallible>;

/// What came back: the body, and the status wherever it stands.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) body: Bytes,
    pub(crate) status: String,
}

pub(crate) async fn post(address: SocketAddr, body: impl Into<Bytes>) -> Came {
    send(address, PATH, Full::new(body.into()).boxed()).await
}

/// Posts a body whose length nobody says beforehand.
pub(crate) async fn post_pieces(address: SocketAddr, piece: Bytes, count: usize) -> Came {
    let pieces = (0..count).map(move |_| Ok(Frame::data(piece.clone())));
    let body = StreamBody::new(stream::iter(pieces));
    send(address, PATH, BodyExt::boxed(body)).await
}

pub(crate) async fn send(address: SocketAddr, path: &str, body: AnyBody) -> Came {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut requests, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap();
    let response = requests.send_request(request).await.unwrap();
    let status = |headers: &HeaderMap| Some(headers.get("grpc-status")?.to_str().unwrap().to_owned());
    let early = status(response.headers());
    let body = response.into_body().collect().await.unwrap();
    let late = body.trailers().and_then(status);
    Came { status: early.or(late).unwrap_or_default(), body: body.to_bytes() }
}

/// Somebody who takes calls that are for a node, and gives back what it likes.
pub(crate) struct Between {
    pub(crate) address: SocketAddr,
    /// The bodies of all calls.
    pub(crate) calls: Arc<Mutex<Vec<Bytes>>>,
    /// The bodies to answer with, the next first.
    pub(crate) answers: Arc<Mutex<VecDeque<Bytes>>>,
}

impl Between {
    /// Answers with what it is told, or if it is told nothing with what `node` says.
    pub(crate) async fn start(node: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (calls, answers) = (Arc::new(Mutex::default()), Arc::new(Mutex::default()));
        let between = Self { address, calls: Arc::clone(&calls), answers: Arc::clone(&answers) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (calls, answers) = (Arc::clone(&calls), Arc::clone(&answers));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (calls, answers) = (Arc::clone(&calls), Arc::clone(&answers));
                    async move {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        calls.lock().unwrap().push(body.clone());
                        let told = answers.lock().unwrap().pop_front();
                        let answer = match (told, node) {
                            (Some(told), _) => told,
                            (None, Some(node)) => post(node, body).await.body,
                            (None, None) => std::future::pending().await,
                        };
                        Ok::<_, Infallible>(answer_with(answer))
                    }
                });
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        between
    }

    /// The only call that came, once it has.
    pub(crate) async fn call(&self) -> Bytes {
        crate::node::until(async || !self.calls.lock().unwrap().is_empty()).await;
        self.calls.lock().unwrap()[0].clone()
    }
}

fn answer_with(body: Bytes) -> Response<AnyBody> {
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
    let body = Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers))));
    Response::builder().header("content-type", "application/grpc").body(body.boxed()).unwrap()
}
