//! `POST /v1/check/batch`

use http::StatusCode;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tidegate_wire::{CheckBody, ErrorBody};

use super::check::describe;
use crate::body;
use crate::node::Node;
use crate::reply::{self, Reply, Wrong};

/// The largest body of a batch.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The most items of a batch.
pub(crate) const MAX_ITEMS: usize = 1_000;

/// As many decisions as there are items, in their order; items are independent of each other, mistakes included.
pub(super) async fn answer(node: &Node, body: Incoming) -> Result<Reply, Wrong> {
    let bytes = body::read(body, MAX_BYTES).await?;
    let items: Vec<&RawValue> = serde_json::from_slice(&bytes).map_err(|error| {
        ErrorBody::new("invalid_request", format!("the body is not a JSON array of requests: {error}"))
    })?;
    if items.len() > MAX_ITEMS {
        let message =
            format!("a batch has at most {MAX_ITEMS} items, this one has {}; split it", items.len());
        return Err(ErrorBody::field("items", message).into());
    }
    let mut answers = Vec::with_capacity(items.len() * 256 + 2);
    answers.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            answers.push(b',');
        }
        if let Err(error) = one(node, item.get().as_bytes(), &mut answers) {
            // Texts and numbers, into memory: that cannot fail.
            serde_json::to_writer(&mut answers, &error).ok();
        }
    }
    answers.push(b']');
    Ok(reply::text(StatusCode::OK, "application/json", answers))
}

fn one(node: &Node, item: &[u8], out: &mut Vec<u8>) -> Result<(), ErrorBody> {
    let body = CheckBody::parse(item)?;
    let checked = node.decide(&body.request())?;
    out.extend(reply::to_json(&describe(node, &checked)));
    Ok(())
}
