//! `POST /v1/check`

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use tidegate::{Checked, Status, Waited};
use tidegate_wire::{CheckBody, DecisionBody, headers};

use crate::body;
use crate::node::Node;
use crate::reply::{self, Reply, Wrong};

/// The largest body of one request.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// One decision. `headers` lend the answer their memory.
pub(super) async fn answer(node: &Node, headers: HeaderMap, body: Incoming) -> Result<Reply, Wrong> {
    let bytes = body::read(body, MAX_BYTES).await?;
    if !node.may_wait() {
        let body = CheckBody::parse(&bytes)?;
        if body.wait_ms == 0 {
            let checked = node.decide(&body.request())?;
            return Ok(tell(node, headers, &checked, Duration::ZERO));
        }
    }
    // Apart, so that those who need not wait need not carry what waiting takes.
    Box::pin(ask(node, headers, bytes)).await
}

async fn ask(node: &Node, headers: HeaderMap, bytes: Bytes) -> Result<Reply, Wrong> {
    let arrived = Instant::now();
    let body = CheckBody::parse(&bytes)?;
    let Waited { checked, waited } = node.ask_or_wait(&body.request(), arrived, body.patience()).await?;
    Ok(tell(node, headers, &checked, waited))
}

fn tell(node: &Node, mut headers: HeaderMap, checked: &Checked, waited: Duration) -> Reply {
    headers.clear();
    headers::write(checked, checked.rules(), &node.header_styles, &mut headers);
    reply::decision(status(checked), headers, &describe(node, checked).after(waited))
}

/// A refusal is an answer like any other; only not to know is an error.
fn status(checked: &Checked) -> StatusCode {
    match checked.status {
        Status::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    }
}

/// The body that tells a decision.
pub(super) fn describe<'c>(node: &Node, checked: &'c Checked) -> DecisionBody<'c> {
    DecisionBody::new(checked, checked.rules(), node.health.mode())
}
