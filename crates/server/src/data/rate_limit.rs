//! `POST /json`: the rate limit service, as Envoy's own server offers it over HTTP.

use std::time::Instant;

use http::StatusCode;
use hyper::body::Incoming;
use tidegate::Status;
use tidegate_wire::grpc::rate_limit::respond;
use tidegate_wire::grpc::rate_limit_json::{RateLimitAnswer, RateLimitJson};

use super::MAX_CHECK_BYTES;
use crate::body;
use crate::node::Node;
use crate::reply::{self, Reply, Wrong};

/// 200 or 429 for what is decided, 500 for what cannot be.
pub(super) async fn answer(node: &Node, body: Incoming) -> Result<Reply, Wrong> {
    let bytes = body::read(body, MAX_CHECK_BYTES).await?;
    let arrived = Instant::now();
    let body = RateLimitJson::parse(&bytes)?;
    let (domain, descriptors) = body.asked()?;
    let checked = node.ask_descriptors(domain, &descriptors, arrived).await?;
    let decision = &checked.decision;
    if decision.status == Status::Unavailable {
        let message = "the limits could not be checked: the store cannot be asked";
        return Err(Wrong::new(StatusCode::INTERNAL_SERVER_ERROR, "unavailable", message));
    }
    let response = respond(&checked, checked.rules(), node.rls_extras());
    let status = if decision.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    Ok(reply::json(status, &RateLimitAnswer::new(&response)))
}
