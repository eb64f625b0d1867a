//! `GET /v1/whoami`

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::Door;
use crate::caller::Caller;
use crate::reply::{self, Reply};

/// Who asks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhoamiBody {
    /// The name of the token, or one that no token can have: `local`, `network` and the like.
    name: String,
    /// `read`, or `write`, which may change things.
    role: String,
    /// Whether tokens are known here.
    tokens: bool,
}

pub(super) async fn show(State(door): State<Arc<Door>>, Extension(caller): Extension<Caller>) -> Reply {
    let body = WhoamiBody { name: caller.name, role: caller.role.to_string(), tokens: door.tokens };
    reply::json(StatusCode::OK, &body)
}
