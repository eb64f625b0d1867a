//! Strangers, and those in between: whatever they send, nothing is applied and nothing false is believed.

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use tidegate_store::Failure;
use tidegate_store::peers::{Call, NodeId, Reply};

use crate::node::{Node, OURS, PATIENT, THEIRS, caller, take, until, verdict, within};
use crate::raw::{Between, post, post_pieces, send};

const INVALID_ARGUMENT: &str = "3";
const RESOURCE_EXHAUSTED: &str = "8";
const UNIMPLEMENTED: &str = "12";
const UNAUTHENTICATED: &str = "16";

const MAX_BODY: usize = 4 * 1024 * 1024;

/// The message `Sealed` with these bytes, as gRPC frames it.
fn framed(sealed: &[u8]) -> Vec<u8> {
    let mut message = vec![0x0a, u8::try_from(sealed.len()).unwrap()];
    message.extend_from_slice(sealed);
    let mut body = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
    body.extend_from_slice(&message);
    body
}

#[tokio::test]
async fn garbage_is_refused() {
    let node = Node::start().await;
    for body in [&b""[..], b"\0\0\0\0", b"garbage", &[1, 0, 0, 0, 0], &[0, 255, 255, 255, 255]] {
        assert_eq!(post(node.address, body).await.status, INVALID_ARGUMENT, "{body:?}");
    }
    for sealed in [&b""[..], b"garbage", &[1; 100]] {
        assert_eq!(post(node.address, framed(sealed)).await.status, UNAUTHENTICATED, "{sealed:?}");
    }
    let elsewhere = send(node.address, "/tidegate.cluster.v1.Peer/Tell", Full::default().boxed()).await;
    assert_eq!(elsewhere.status, UNIMPLEMENTED);
    assert_eq!((node.figures.unopened(), node.figures.requests()), (3, 0));
    assert_eq!(node.ask(&caller(OURS), Call::Owes).await, Ok(Reply::Owes(7)), "and others are served");
}

#[tokio::test]
async fn what_is_not_http_is_refused_too() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let node = Node::start().await;
    let mut stream = tokio::net::TcpStream::connect(node.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENT, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is ended");
    assert_eq!(node.ask(&caller(OURS), Call::Owes).await, Ok(Reply::Owes(7)));
}

#[tokio::test]
async fn strangers_who_only_connect_do_not_keep_nodes_out() {
    let node = Node::start().await;
    let connect = |_| tokio::net::TcpStream::connect(node.address);
    let strangers: Vec<_> = join_all((0..256).map(connect)).await.into_iter().map(Result::unwrap).collect();
    let caller = caller(OURS);
    until(async || node.ask(&caller, Call::Owes).await == Ok(Reply::Owes(7))).await;
    drop(strangers);
}

#[tokio::test]
async fn whoever_has_another_secret_is_a_stranger() {
    let node = Node::start().await;
    let asked = node.ask(&caller(THEIRS), Call::Decide(vec![take(1, 1)])).await;
    assert_eq!(asked, Err(Failure::Credentials));
    assert_eq!(node.left(&take(1, 0)).await, 1_000_000);
    assert_eq!((node.figures.unopened(), node.figures.calls()), (1, 0));
}

#[tokio::test]
async fn a_call_for_another_node_is_not_answered() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let call = Call::Decide(vec![take(1, 1)]);
    let asked = caller.call(NodeId(43), node.address, call, within(PATIENT)).await;
    assert_eq!(asked, Err(Failure::Credentials));
    assert_eq!(node.left(&take(1, 0)).await, 1_000_000);
}

#[tokio::test]
async fn what_was_caught_on_its_way_works_once() {
    let (node, between) = (Node::start().await, Between::start(None).await);
    let caller = caller(OURS);
    drop(caller.call(node.id, between.address, Call::Decide(vec![take(1, 1)]), within(PATIENT)));
    let caught = between.call().await;
    let mut spoilt = caught.to_vec();
    *spoilt.last_mut().unwrap() ^= 1;
    assert_eq!(post(node.address, spoilt).await.status, UNAUTHENTICATED);
    assert_eq!(node.left(&take(1, 0)).await, 1_000_000);
    assert_eq!(post(node.address, caught.clone()).await.status, "0", "late, but the real one");
    assert_eq!(node.left(&take(1, 0)).await, 999_999);
    let again = join_all((0..10).map(|_| post(node.address, caught.clone()))).await;
    assert!(again.iter().all(|came| came.status == UNAUTHENTICATED), "{again:?}");
    assert_eq!(node.left(&take(1, 0)).await, 999_999);
    assert_eq!(node.figures.unopened(), 11);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let node = Node::start().await;
    assert_eq!(
        post(node.address, vec![0; MAX_BODY]).await.status,
        INVALID_ARGUMENT,
        "large enough to be read"
    );
    assert_eq!(post(node.address, vec![0; MAX_BODY + 1]).await.status, RESOURCE_EXHAUSTED);
    let piece = Bytes::from(vec![0; MAX_BODY / 16]);
    assert_eq!(post_pieces(node.address, piece.clone(), 16).await.status, INVALID_ARGUMENT);
    assert_eq!(post_pieces(node.address, piece, 17).await.status, RESOURCE_EXHAUSTED);
    assert_eq!(node.ask(&caller(OURS), Call::Owes).await, Ok(Reply::Owes(7)));
}

#[tokio::test]
async fn a_reply_to_another_call_is_not_believed() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let between = Between::start(Some(node.address)).await;
    let ask = |call| caller.call(node.id, between.address, call, within(PATIENT));
    assert_eq!(verdict(ask(Call::Decide(vec![take(1, 1)])).await), (true, 999_999), "passed on as it is");
    // A real reply that nobody has seen yet, to a call that was caught before.
    let earlier = Between::start(None).await;
    drop(caller.call(node.id, earlier.address, Call::Decide(vec![take(2, 1)]), within(PATIENT)));
    let reply = post(node.address, earlier.call().await).await;
    assert_eq!(reply.status, "0");
    between.answers.lock().unwrap().push_back(reply.body);
    assert_eq!(ask(Call::Decide(vec![take(3, 1)])).await, Err(Failure::NotAStore));
    assert_eq!(node.left(&take(3, 0)).await, 1_000_000);
}

#[tokio::test]
async fn garbage_for_a_reply_is_not_believed() {
    let between = Between::start(None).await;
    let caller = caller(OURS);
    for answer in [Bytes::new(), Bytes::from_static(b"garbage"), framed(&[1; 100]).into()] {
        between.answers.lock().unwrap().push_back(answer);
        let asked = caller.call(NodeId(42), between.address, Call::Owes, within(PATIENT)).await;
        assert_eq!(asked, Err(Failure::NotAStore));
    }
}
