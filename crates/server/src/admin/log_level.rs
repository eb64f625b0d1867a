//! `GET|PUT /v1/log-level`

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Door;
use crate::body;
use crate::caller::Caller;
use crate::log_level::{LogControl, LogLevel};
use crate::reply::{self, Reply, Wrong};

/// The largest body: a level has few letters.
const MAX_BYTES: usize = 1024;

/// How much is logged.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogLevelBody {
    /// `error`, `warn`, `info` or `debug`.
    level: LogLevel,
}

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    match control(&door) {
        Ok(log) => reply::json(StatusCode::OK, &LogLevelBody { level: log.level() }),
        Err(wrong) => wrong.into(),
    }
}

pub(super) async fn put(
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Reply {
    change(&door, &caller, request).await.unwrap_or_else(Reply::from)
}

async fn change(door: &Door, caller: &Caller, request: Request<Body>) -> Result<Reply, Wrong> {
    let log = control(door)?;
    let bytes = body::read(request.into_body(), MAX_BYTES).await?;
    let body: LogLevelBody = serde_json::from_slice(&bytes).map_err(|error| {
        let message =
            format!("the body must be {{\"level\": \"error\", \"warn\", \"info\" or \"debug\"}}: {error}");
        Wrong::new(StatusCode::BAD_REQUEST, "bad_request", message).about("level")
    })?;
    let from = log.level();
    let say = || tracing::info!(by = caller.name, from = from.name(), to = body.level.name(), "log level");
    // Before it becomes quieter, and after it has become louder: whichever of the two can be seen.
    say();
    if !log.set(body.level) {
        let message = "the log does not let itself be changed any more";
        return Err(Wrong::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message));
    }
    if matches!(from, LogLevel::Error | LogLevel::Warn) {
        say();
    }
    Ok(reply::json(StatusCode::OK, &body))
}

fn control(door: &Door) -> Result<&dyn LogControl, Wrong> {
    door.node.log.as_ref().map(|log| &*log.0).ok_or_else(|| {
        let message =
            "the program that this server is part of keeps its log to itself; change the level there";
        Wrong::new(StatusCode::NOT_FOUND, "no_log_control", message)
    })
}
