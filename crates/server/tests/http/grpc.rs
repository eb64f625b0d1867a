//! `grpc.health.v1`, spoken by hand: two tiny messages do not need a generated client.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_server::{Config, RulesFeed};
use tokio::net::TcpStream;

use crate::client::{DEADLINE, config, start, start_with};

const RULES: &str = "rules: []";

/// A frame around `HealthCheckResponse { status }`.
const SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 1];
const NOT_SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 2];

type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

async fn connect(address: SocketAddr) -> Sender {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn call(
    sender: &mut Sender,
    address: SocketAddr,
    method: &str,
    service: &str,
) -> (HeaderMap, Incoming) {
    let mut message = vec![0, 0, 0, 0, 0];
    if !service.is_empty() {
        message.extend([10, u8::try_from(service.len()).unwrap()]);
        message.extend(service.as_bytes());
        message[4] = u8::try_from(message.len() - 5).unwrap();
    }
    let request = Request::post(format!("http://{address}/grpc.health.v1.Health/{method}"))
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(message)))
        .unwrap();
    let response = tokio::time::timeout(DEADLINE, sender.send_request(request)).await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    let (parts, body) = response.into_parts();
    (parts.headers, body)
}

fn status(headers: &HeaderMap) -> Option<&str> {
    headers.get("grpc-status").map(|status| status.to_str().unwrap())
}

#[tokio::test]
async fn the_process_is_serving() {
    let server = start(RULES).await;
    let address = server.addresses.grpc;
    let mut sender = connect(address).await;
    let (_, body) = call(&mut sender, address, "Check", "").await;
    let body = body.collect().await.unwrap();
    assert_eq!(status(body.trailers().unwrap()), Some("0"));
    assert_eq!(body.to_bytes(), SERVING);

    let (headers, _) = call(&mut sender, address, "Check", "unknown").await;
    assert_eq!(status(&headers), Some("5"), "not found");
    let (headers, _) = call(&mut sender, address, "Nonsense", "").await;
    assert_eq!(status(&headers), Some("12"), "unimplemented");
}

#[tokio::test]
async fn watchers_hear_of_the_end_and_do_not_delay_it() {
    let config = Config { grace: Duration::from_millis(50), ..config() };
    let mut server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let mut sender = connect(server.addresses.grpc).await;
    let (_, mut watch) = call(&mut sender, server.addresses.grpc, "Watch", "").await;
    let mut next = async || {
        let frame = tokio::time::timeout(DEADLINE, watch.frame()).await.expect("in time");
        frame.and_then(|frame| frame.unwrap().into_data().ok())
    };
    assert_eq!(next().await.unwrap(), SERVING);
    server.stop();
    assert_eq!(next().await.unwrap(), NOT_SERVING);
    assert_eq!(next().await, None, "the watch ends");
    assert!(server.stopped().await.is_ok());
}
