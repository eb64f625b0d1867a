//! What travels is gRPC, to clients that are not ours as well.

use bytes::{Buf, Bytes};
use http::uri::PathAndQuery;
use prost::Message;
use tidegate_store::peers::Call;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::node::{Node, OURS, PATIENT, caller, take, within};
use crate::raw::{Between, PATH};

/// As the protocol has it.
#[derive(Clone, PartialEq, Message)]
struct Sealed {
    #[prost(bytes = "bytes", tag = "1")]
    sealed: Bytes,
}

async fn ask(node: &Node, path: &'static str, message: Sealed) -> Result<Sealed, Status> {
    let channel = Endpoint::from_shared(format!("http://{}", node.address)).unwrap().connect().await.unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<Sealed, Sealed>::default();
    let reply = grpc.unary(Request::new(message), PathAndQuery::from_static(path), codec).await?;
    Ok(reply.into_inner())
}

#[tokio::test]
async fn another_client_of_the_protocol_is_answered() {
    let (node, between) = (Node::start().await, Between::start(None).await);
    drop(caller(OURS).call(node.id, between.address, Call::Decide(vec![take(1, 1)]), within(PATIENT)));
    let mut caught = between.call().await;
    caught.advance(5);
    let call = Sealed::decode(caught).unwrap();
    assert!(!ask(&node, PATH, call.clone()).await.unwrap().sealed.is_empty());
    assert_eq!(node.left(&take(1, 0)).await, 999_999);
    let code = |answer: Result<Sealed, Status>| answer.map_err(|status| status.code());
    assert_eq!(code(ask(&node, PATH, call.clone()).await), Err(Code::Unauthenticated), "once is enough");
    assert_eq!(code(ask(&node, "/tidegate.cluster.v1.Peer/Tell", call).await), Err(Code::Unimplemented));
}
