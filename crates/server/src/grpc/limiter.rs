//! `tidegate.v1.Limiter`

use std::time::{Duration, Instant};

use http::Response;
use hyper::body::Incoming;
use prost::Message;
use tidegate::{Checked, Waited};
use tidegate_wire::CheckBody;
use tidegate_wire::ErrorBody;
use tidegate_wire::grpc::check::{read, respond, respond_after};
use tidegate_wire::grpc::protobuf::tidegate::v1;
use tonic::Status;
use tracing::Span;

use super::unary::{self, GrpcBody};
use crate::data::{MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_CHECK_BYTES};
use crate::node::{Node, refused};
use crate::reply::Wrong;

/// One decision. Not to know is an answer like any other here; its status says so.
pub(super) async fn check(node: &Node, body: Incoming) -> Result<Response<GrpcBody>, Status> {
    let message = unary::read(body, MAX_CHECK_BYTES).await?;
    let message = v1::CheckRequest::decode(message).map_err(|error| no_message(&error))?;
    let body = read(&message).map_err(wrong)?;
    let (checked, waited) = if node.may_wait() || body.wait_ms > 0 {
        let request = body.request();
        let asked = Box::pin(node.ask_or_wait(&request, Instant::now(), body.patience()));
        let Waited { checked, waited } = asked.await.map_err(wrong)?;
        (checked, waited)
    } else {
        (node.decide(&body.request()).map_err(|error| wrong(refused(error)))?, Duration::ZERO)
    };
    Ok(unary::reply(&respond_after(waited, describe(node, &checked))))
}

/// As many decisions as there are items, in their order; items are independent of each other, mistakes included.
pub(super) async fn check_batch(
    node: &Node,
    body: Incoming,
    span: Option<Span>,
) -> Result<Response<GrpcBody>, Status> {
    let message = unary::read(body, MAX_BATCH_BYTES).await?;
    let v1::CheckBatchRequest { requests } =
        v1::CheckBatchRequest::decode(message).map_err(|error| no_message(&error))?;
    if requests.len() > MAX_BATCH_ITEMS {
        let message =
            format!("a batch has at most {MAX_BATCH_ITEMS} items, this one has {}; split it", requests.len());
        return Err(wrong(ErrorBody::field("requests", message)));
    }
    if let Some(span) = &span {
        span.record("tidegate.items", requests.len());
    }
    let bodies: Vec<_> = requests.iter().map(|request| read(request)?.in_batch()).collect();
    let asked: Vec<_> = bodies.iter().flatten().map(CheckBody::request).collect();
    let mut decided = node.ask_all(&asked).await.into_iter();
    let item = |body: &Result<_, ErrorBody>| match body {
        Ok(_) => decided.next(),
        Err(error) => Some(Err(error.clone())),
    };
    let items = bodies.iter().filter_map(item).map(|decided| v1::CheckBatchItem {
        result: Some(match decided {
            Ok(checked) => v1::check_batch_item::Result::Decision(describe(node, &checked)),
            Err(error) => v1::check_batch_item::Result::Error(error.into()),
        }),
    });
    Ok(unary::reply(&v1::CheckBatchResponse { items: items.collect() }))
}

fn describe(node: &Node, checked: &Checked) -> v1::CheckResponse {
    respond(checked, checked.rules(), node.health.mode())
}

fn no_message(error: &prost::DecodeError) -> Status {
    Status::invalid_argument(format!("this is not the message of this call: {error}"))
}

fn wrong(error: ErrorBody) -> Status {
    unary::status(&Wrong::from(error))
}
