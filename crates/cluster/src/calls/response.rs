//! What comes back over the network for a request, and what it means if it is no reply.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tidegate_store::Failure;

use super::grpc::{MAX_BODY, Status};

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Refused {
    /// The node says so.
    Status(Status),
    /// What answers does not speak as nodes do.
    Foreign,
    /// The connection is gone.
    Lost,
}

impl From<hyper::Error> for Refused {
    fn from(_: hyper::Error) -> Self {
        Self::Lost
    }
}

impl Refused {
    /// Whether the node itself said so.
    pub(super) const fn is_answer(&self) -> bool {
        matches!(self, Self::Status(_))
    }

    /// What it comes to for those who asked.
    pub(super) const fn failure(&self) -> Failure {
        match self {
            Self::Status(Status::Unauthenticated) => Failure::Credentials,
            Self::Status(Status::ResourceExhausted) => Failure::NotReady,
            Self::Status(Status::DeadlineExceeded) => Failure::Deadline,
            Self::Status(Status::Unimplemented) | Self::Foreign => Failure::NotAStore,
            Self::Status(Status::InvalidArgument | Status::Other) => Failure::Other,
            Self::Lost => Failure::Connection,
        }
    }
}

/// The body of a response, if all is well.
pub(super) async fn read(response: Response<Incoming>) -> Result<Bytes, Refused> {
    if response.status() != StatusCode::OK {
        return Err(Refused::Foreign);
    }
    if let Some(Err(status)) = Status::of(response.headers()) {
        return Err(Refused::Status(status));
    }
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
    let body =
        body.map_err(|error| if error.is::<hyper::Error>() { Refused::Lost } else { Refused::Foreign })?;
    match body.trailers().and_then(Status::of) {
        Some(Ok(())) => Ok(body.to_bytes()),
        Some(Err(status)) => Err(Refused::Status(status)),
        None => Err(Refused::Foreign),
    }
}
