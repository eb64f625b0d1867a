//! Unary calls: one message in, one message out, a status at the end.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body as AnyBody;
use bytes::{Buf, Bytes};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::body;
use crate::reply::Wrong;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const OK: HeaderValue = HeaderValue::from_static("0");

/// A message follows one byte that says whether it is compressed, and four that say how long it is.
const PREFIX: usize = 5;

/// Room for what is usually appended to a message.
const USUAL_REST: usize = 64;

/// The body of a call that can be answered.
pub(crate) fn open(request: Request<Incoming>) -> Result<Incoming, Status> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST || !is_grpc(&parts.headers) {
        let message = "this is gRPC; send POST with content-type application/grpc";
        return Err(Status::new(Code::Internal, message));
    }
    if parts.headers.get(ENCODING).is_some_and(|encoding| encoding != IDENTITY) {
        let mut status = Status::unimplemented("compressed messages are not read; send them as they are");
        status.metadata_mut().insert(ACCEPT_ENCODING, MetadataValue::from_static("identity"));
        return Err(status);
    }
    Ok(body)
}

/// The one message of a call, of at most `limit` bytes.
pub(crate) async fn read(body: Incoming, limit: usize) -> Result<Bytes, Status> {
    message(body::read(body, limit + PREFIX).await.map_err(|wrong| status(&wrong))?)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    content_type.strip_prefix(b"application/grpc").is_some_and(|rest| {
        matches!(rest, [] | [b';', ..]) || rest == b"+proto" || rest.starts_with(b"+proto;")
    })
}

/// The message in a body that has exactly one.
fn message(mut bytes: Bytes) -> Result<Bytes, Status> {
    if bytes.len() < PREFIX {
        return Err(Status::internal("the call has no message; send one"));
    }
    if bytes.get_u8() != 0 {
        return Err(Status::internal("the message is compressed and does not say how; send it as it is"));
    }
    let length = bytes.get_u32() as usize;
    if length != bytes.len() {
        let message = format!("the message should have {length} bytes and has {}", bytes.len());
        return Err(Status::internal(message));
    }
    Ok(bytes)
}

/// An answer with `message`.
pub(crate) fn reply(message: &impl Message) -> Response<GrpcBody> {
    reply_and(message, |_| {})
}

/// An answer with `message`, to which `more` appends what else is part of it.
pub(crate) fn reply_and(message: &impl Message, more: impl FnOnce(&mut Vec<u8>)) -> Response<GrpcBody> {
    let mut bytes = Vec::with_capacity(PREFIX + message.encoded_len() + USUAL_REST);
    bytes.extend_from_slice(&[0; PREFIX]);
    message.encode_raw(&mut bytes);
    more(&mut bytes);
    let Ok(size) = u32::try_from(bytes.len() - PREFIX) else {
        return refuse(Status::resource_exhausted("the answer is too large"));
    };
    bytes[1..PREFIX].copy_from_slice(&size.to_be_bytes());
    let mut response = Response::new(GrpcBody::Message(bytes.into()));
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

/// An answer that is only a status.
pub(crate) fn refuse(status: Status) -> Response<GrpcBody> {
    status.into_http().map(GrpcBody::Other)
}

/// What was wrong with a request, in gRPC's words.
pub(crate) fn status(wrong: &Wrong) -> Status {
    let code = match wrong.status() {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::PAYLOAD_TOO_LARGE => Code::ResourceExhausted,
        StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        _ => Code::InvalidArgument,
    };
    Status::new(code, wrong.message())
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum GrpcBody {
    /// A message, then that all is well.
    Message(Bytes),
    /// That all is well.
    Well,
    /// Nothing more.
    End,
    /// Whatever somebody else makes of it.
    Other(AnyBody),
}

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Self::Other(body) = &mut *self {
            return Pin::new(body).poll_frame(cx);
        }
        let (frame, next) = match std::mem::replace(&mut *self, Self::End) {
            Self::Message(bytes) => (Frame::data(bytes), Self::Well),
            Self::Well => (Frame::trailers(HeaderMap::from_iter([(STATUS, OK)])), Self::End),
            Self::End | Self::Other(_) => return Poll::Ready(None),
        };
        *self = next;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(_) | Self::Well => false,
            Self::End => true,
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Other(body) => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_whole_message() {
        let read = |bytes: &'static [u8]| message(Bytes::from_static(bytes)).map_err(|status| status.code());
        assert_eq!(read(&[0, 0, 0, 0, 0]), Ok(Bytes::new()));
        assert_eq!(read(&[0, 0, 0, 0, 2, 8, 1]), Ok(Bytes::from_static(&[8, 1])));
        for bad in [
            &[][..],
            &[0, 0, 0, 0],
            &[0, 0, 0, 0, 2, 8],
            &[0, 0, 0, 0, 1, 8, 1],
            &[1, 0, 0, 0, 0],
            &[0, 255, 255, 255, 255],
        ] {
            assert_eq!(
                message(Bytes::copy_from_slice(bad)).map_err(|status| status.code()),
                Err(Code::Internal),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn content_types() {
        let is = |text: &'static str| {
            is_grpc(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(text))]))
        };
        assert!(is("application/grpc") && is("application/grpc+proto") && is("application/grpc;a=b"));
        assert!(!is("application/grpc-web") && !is("application/json") && !is("application/grpc+json"));
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
