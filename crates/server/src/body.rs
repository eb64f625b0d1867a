//! Reading the body of a request, in bounded time and space.

use std::fmt::Display;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::reply::Wrong;
use crate::wait::now_or_never;

/// How long a client may take to send a body.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a body of at most `limit` bytes. One that has arrived in one piece costs neither copy nor timer.
pub(crate) async fn read<B>(mut body: B, limit: usize) -> Result<Bytes, Wrong>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let first = match now_or_never(piece(&mut body)).await {
        Some(first) => first?.unwrap_or_default(),
        None => Bytes::new(),
    };
    if body.is_end_stream() && first.len() <= limit {
        return Ok(first);
    }
    // Apart, so that the usual case need not carry what it does not use.
    Box::pin(async move {
        let rest = collect(BytesMut::from(first), body, limit);
        tokio::time::timeout(PATIENCE, rest).await.unwrap_or_else(|_| Err(too_slow()))
    })
    .await
}

async fn collect<B>(mut whole: BytesMut, mut body: B, limit: usize) -> Result<Bytes, Wrong>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    while whole.len() <= limit {
        match piece(&mut body).await? {
            Some(piece) => whole.extend_from_slice(&piece),
            None => return Ok(whole.freeze()),
        }
    }
    Err(too_large(limit))
}

/// The next piece of data; trailers are passed over.
async fn piece<B>(body: &mut B) -> Result<Option<Bytes>, Wrong>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Wrong::new(StatusCode::BAD_REQUEST, "incomplete_body", format!("the body broke off: {error}"))
        })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn too_large(limit: usize) -> Wrong {
    let message = format!("the body is larger than {} KiB; send less at a time", limit / 1024);
    Wrong::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).about("body")
}

fn too_slow() -> Wrong {
    let message = format!("the body did not arrive within {} s", PATIENCE.as_secs());
    Wrong::new(StatusCode::REQUEST_TIMEOUT, "timeout", message).about("body")
}
