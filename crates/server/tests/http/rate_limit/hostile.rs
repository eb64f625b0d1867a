//! What nobody who means well would send.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use proptest::prelude::*;
use prost::Message;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::RateLimitRequest;
use tokio::net::TcpStream;
use tonic::Code;

use super::client::{Client, ask, told};
use super::serve;
use crate::client::{DEADLINE, config};

const RULES: &str = "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 5}}
";

const CALL: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Some bytes, and then the end or nothing more ever.
struct Bytewise {
    bytes: Option<Bytes>,
    ends: bool,
}

impl Body for Bytewise {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Bytewise> {
    let stream = TcpStream::connect(address).await.unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(
    address: SocketAddr,
    path: &str,
    content_type: &str,
    bytes: Vec<u8>,
    ends: bool,
) -> Request<Bytewise> {
    Request::post(format!("http://{address}{path}"))
        .version(Version::HTTP_2)
        .header("content-type", content_type)
        .header("te", "trailers")
        .body(Bytewise { bytes: Some(bytes.into()), ends })
        .unwrap()
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

fn grpc_status(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|status| Code::from_bytes(status.as_bytes()))
}

/// The status of an answer, wherever it is.
async fn outcome(response: Response<Incoming>) -> Option<Code> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.ok()?;
    grpc_status(&parts.headers).or_else(|| grpc_status(body.trailers()?))
}

#[tokio::test]
async fn messages_that_are_none() {
    let (server, client) = serve(config(), RULES).await;
    let address = server.addresses.grpc;
    let message = ask("d", 0, &["a=1"]).encode_to_vec();
    let mut sender = connect(address).await;
    let grpc = "application/grpc";
    for (path, content_type, bytes, code) in [
        (CALL, grpc, framed(&message), Code::Ok),
        (CALL, grpc, Vec::new(), Code::Internal),
        (CALL, grpc, framed(&message)[..9].to_vec(), Code::Internal),
        (CALL, grpc, [framed(&message), framed(&message)].concat(), Code::Internal),
        (CALL, grpc, framed(&[255; 40]), Code::InvalidArgument),
        (CALL, grpc, framed(&vec![0; 300 * 1024]), Code::ResourceExhausted),
        (CALL, "application/json", framed(&message), Code::Internal),
        (
            "/envoy.service.ratelimit.v3.RateLimitService/Nonsense",
            grpc,
            framed(&message),
            Code::Unimplemented,
        ),
        ("/x", grpc, framed(&message), Code::Unimplemented),
    ] {
        let length = bytes.len();
        let asked = request(address, path, content_type, bytes, true);
        let response = tokio::time::timeout(DEADLINE, sender.send_request(asked)).await.unwrap().unwrap();
        assert_eq!(outcome(response).await, Some(code), "{path} {content_type} {length} bytes");
    }
    let mut compressed = request(address, CALL, grpc, framed(&message), true);
    compressed.headers_mut().insert("grpc-encoding", "gzip".parse().unwrap());
    let response = sender.send_request(compressed).await.unwrap();
    assert_eq!(response.headers()["grpc-accept-encoding"], "identity");
    assert_eq!(outcome(response).await, Some(Code::Unimplemented));
    let left = client.ask(ask("d", 0, &["a=1 +0"])).await.unwrap();
    assert_eq!(told(&left).1, ["OK 4 of 5 per YEAR"], "none of that was counted");
}

#[tokio::test]
async fn too_much_of_everything() {
    let (_server, client) = serve(config(), RULES).await;
    let many = vec!["a=1"; 10_000];
    let status = client.ask(ask("d", 0, &many)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("at most 256 descriptors, this one has 10000"), "{status}");
    let deep = vec!["a=1"; 65].join(", ");
    assert_eq!(client.ask(ask("d", 0, &[&deep])).await.unwrap_err().code(), Code::InvalidArgument);
    let long = format!("a={}", "x".repeat(100_000));
    assert_eq!(told(&client.ask(ask("d", 0, &[&long])).await.unwrap()).1, ["OK 4 of 5 per YEAR"]);
    let twice = client.ask(ask("d", 3, &["a=1", "a=1"])).await.unwrap();
    assert_eq!(told(&twice).0, "OVER_LIMIT", "a counter named twice pays twice");
    assert_eq!(told(&client.ask(ask("d", 5, &["a=1"])).await.unwrap()).0, "OK");
}

/// A header that is no text must not be a way past the limits.
#[tokio::test]
async fn values_that_are_no_text_are_counted_all_the_same() {
    let (server, _client) = serve(config(), RULES).await;
    let address = server.addresses.grpc;
    let mut sender = connect(address).await;
    let message = ask("d", 5, &["a=??"]).encode_to_vec();
    let position = message.windows(2).position(|pair| pair == b"??").unwrap();
    let mut message = message;
    message[position..position + 2].copy_from_slice(&[0xC3, 0x28]);
    let mut codes = Vec::new();
    for _ in 0..2 {
        let asked = request(address, CALL, "application/grpc", framed(&message), true);
        let body = sender.send_request(asked).await.unwrap().collect().await.unwrap().to_bytes();
        let answer = tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::RateLimitResponse::decode(
            body.slice(5..),
        );
        codes.push(told(&answer.unwrap()).0);
    }
    assert_eq!(codes, ["OK", "OVER_LIMIT"]);
}

/// Others are answered while somebody holds up as many calls as a connection may have, and resets as fast as it can.
#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_notice() {
    let (server, client) = serve(config(), RULES).await;
    let address = server.addresses.grpc;
    let mut half_open = connect(address).await;
    let waiting: Vec<_> = (0..500)
        .map(|_| {
            tokio::spawn(half_open.send_request(request(address, CALL, "application/grpc", vec![0], false)))
        })
        .collect();
    let resets = tokio::spawn(async move {
        let mut resets = 0;
        for _ in 0..20 {
            let mut sender = connect(address).await;
            for _ in 0..500 {
                let asked = request(address, CALL, "application/grpc", vec![0], false);
                let Ok(()) = sender.ready().await else { break };
                let pending = tokio::spawn(sender.send_request(asked));
                tokio::task::yield_now().await;
                pending.abort();
                resets += 1;
            }
        }
        resets
    });
    for _ in 0..200 {
        let answer = tokio::time::timeout(DEADLINE, client.ask(ask("d", 0, &["a=1 +0"]))).await.unwrap();
        assert_eq!(told(&answer.unwrap()).1, ["OK 5 of 5 per YEAR"]);
    }
    assert!(resets.await.unwrap() > 500);
    let fresh = Client::connect(address).await;
    assert!(fresh.ask(ask("d", 0, &["a=1"])).await.is_ok());
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Any bytes at all, and messages with a few bytes changed.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let message = ask("d", 3, &["a=1, b=2 +7", "c=ü @5/HOUR", "=x -1"]).encode_to_vec();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let changed = changes.prop_map(move |changes| {
        let mut message = message.clone();
        for (place, byte) in changes {
            let place = place.index(message.len());
            message[place] = byte;
        }
        message
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), changed]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Whatever the bytes, there is an answer or an error, and what is read is what others would read.
    #[test]
    fn any_bytes_can_be_read(bytes in bytes()) {
        use tidegate_wire::grpc::rate_limit::RateLimitAsked;
        let ours = RateLimitAsked::read(Bytes::from(bytes.clone()));
        let theirs = RateLimitRequest::decode(bytes.as_slice());
        // Only texts that are none make a difference.
        prop_assert!(ours.is_ok() || theirs.is_err());
        if let Ok(asked) = ours {
            let read = asked.asked();
            if let (Ok((domain, descriptors)), Ok(theirs)) = (read, theirs) {
                prop_assert_eq!(domain, theirs.domain);
                prop_assert_eq!(descriptors.len(), theirs.descriptors.len());
            }
        }
    }
}
