//! `POST /v1/explain`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};
use tidegate_wire::{CheckBody, ExplanationBody};

use super::Door;
use crate::body;
use crate::data::MAX_CHECK_BYTES;
use crate::reply::{self, Reply, Wrong};

/// Which rules apply to a request, who it is to them and what they would say. Consumes nothing.
pub(super) async fn explain(State(door): State<Arc<Door>>, request: Request<Body>) -> Reply {
    answer(&door, request).await.unwrap_or_else(Reply::from)
}

async fn answer(door: &Door, request: Request<Body>) -> Result<Reply, Wrong> {
    let bytes = body::read(request.into_body(), MAX_CHECK_BYTES).await?;
    let body = CheckBody::parse(&bytes)?;
    let (checked, identities) = door.node.explain(&body.request()).await?;
    let mode = door.node.health.mode();
    Ok(reply::json(StatusCode::OK, &ExplanationBody::explain(&checked, checked.rules(), mode, identities)))
}
