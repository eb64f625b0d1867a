//! `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`

use std::time::Instant;

use bytes::Bytes;
use http::Response;
use hyper::body::Incoming;
use tidegate::CheckedDescriptors;
use tidegate_wire::grpc::metadata;
use tidegate_wire::grpc::rate_limit::{RateLimitAsked, respond};
use tonic::Status;

use super::unary::{self, GrpcBody};
use crate::node::Node;
use crate::reply::Wrong;

/// The largest message: proxies send a few hundred bytes.
const MAX_BYTES: usize = 256 * 1024;

pub(super) async fn answer(node: &Node, body: Incoming) -> Result<Response<GrpcBody>, Status> {
    let message = unary::read(body, MAX_BYTES).await?;
    if node.must_wait() {
        // Apart, so that those who need not wait need not carry what waiting takes.
        return Box::pin(ask(node, message)).await;
    }
    let asked = RateLimitAsked::read(message).map_err(wrong)?;
    let (domain, descriptors) = asked.asked().map_err(wrong)?;
    tell(node, &node.decide_descriptors(domain, &descriptors).map_err(|wrong| unary::status(&wrong))?)
}

async fn ask(node: &Node, message: Bytes) -> Result<Response<GrpcBody>, Status> {
    let arrived = Instant::now();
    let asked = RateLimitAsked::read(message).map_err(wrong)?;
    let (domain, descriptors) = asked.asked().map_err(wrong)?;
    let checked = node.ask_descriptors(domain, &descriptors, arrived).await;
    tell(node, &checked.map_err(|wrong| unary::status(&wrong))?)
}

fn wrong(error: impl Into<Wrong>) -> Status {
    unary::status(&error.into())
}

fn tell(node: &Node, checked: &CheckedDescriptors) -> Result<Response<GrpcBody>, Status> {
    if checked.decision.status == tidegate::Status::Unavailable {
        // An error, so that the proxy's own way with failures applies.
        return Err(Status::unavailable("the limits could not be checked: the store cannot be asked"));
    }
    Ok(unary::reply_and(&respond(checked, checked.rules(), node.rls_extras()), |bytes| {
        if node.has_rls_metadata() {
            metadata::append(checked, checked.rules(), bytes);
        }
    }))
}
