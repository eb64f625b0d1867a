//! `POST /v1/check/batch`

use http::StatusCode;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tidegate::Checked;
use tidegate_wire::{CheckBody, ErrorBody};
use tracing::Span;

use super::check::describe;
use crate::body;
use crate::node::{Node, refused};
use crate::reply::{self, Reply, Wrong};

/// The largest body of a batch.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The most items of a batch.
pub(crate) const MAX_ITEMS: usize = 1_000;

/// As many decisions as there are items, in their order; items are independent of each other, mistakes included.
pub(super) async fn answer(node: &Node, body: Incoming, span: Option<Box<Span>>) -> Result<Reply, Wrong> {
    let bytes = body::read(body, MAX_BYTES).await?;
    let items: Vec<&RawValue> = serde_json::from_slice(&bytes).map_err(|error| {
        ErrorBody::new("invalid_request", format!("the body is not a JSON array of requests: {error}"))
    })?;
    if items.len() > MAX_ITEMS {
        let message =
            format!("a batch has at most {MAX_ITEMS} items, this one has {}; split it", items.len());
        return Err(ErrorBody::field("items", message).into());
    }
    if let Some(span) = &span {
        span.record("tidegate.items", items.len());
    }
    let mut answers = Vec::with_capacity(items.len() * 256 + 2);
    answers.push(b'[');
    if node.may_wait() {
        ask(node, &items).await.iter().for_each(|answer| add(node, answer, &mut answers));
    } else {
        items.iter().for_each(|item| add(node, &decide(node, item), &mut answers));
    }
    answers.push(b']');
    Ok(reply::text(StatusCode::OK, "application/json", answers))
}

fn decide(node: &Node, item: &RawValue) -> Result<Checked, ErrorBody> {
    node.decide(&read(item)?.request()).map_err(refused)
}

fn read(item: &RawValue) -> Result<CheckBody<'_>, ErrorBody> {
    CheckBody::parse(item.get().as_bytes())?.in_batch()
}

/// Asks about all items at once.
async fn ask(node: &Node, items: &[&RawValue]) -> Vec<Result<Checked, ErrorBody>> {
    let bodies: Vec<_> = items.iter().map(|item| read(item)).collect();
    let requests: Vec<_> = bodies.iter().flatten().map(CheckBody::request).collect();
    let mut decided = node.ask_all(&requests).await.into_iter();
    let answer = |body: &Result<_, ErrorBody>| match body {
        Ok(_) => decided.next(),
        Err(error) => Some(Err(error.clone())),
    };
    bodies.iter().filter_map(answer).collect()
}

fn add(node: &Node, answer: &Result<Checked, ErrorBody>, answers: &mut Vec<u8>) {
    if answers.len() > 1 {
        answers.push(b',');
    }
    match answer {
        Ok(checked) => answers.extend(reply::to_json(&describe(node, checked))),
        // Texts and numbers, into memory: that cannot fail.
        Err(error) => serde_json::to_writer(answers, error).unwrap_or_default(),
    }
}
