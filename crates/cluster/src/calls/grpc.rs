//! Unary gRPC by hand, as both sides speak it: one sealed message there, one back, a status at the end.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};
use hyper::body::{Body, Frame};
use prost::Message;

use super::message::Sealed;

/// The only method there is.
pub(super) const PATH: &str = "/tidegate.cluster.v1.Peer/Ask";

/// The same as it is asked for. Nodes are known by their addresses; whatever name is given is nobody's.
pub(super) const URI: &str = "http://node/tidegate.cluster.v1.Peer/Ask";

pub(super) const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The largest body, in either direction.
pub(super) const MAX_BODY: usize = 4 * 1024 * 1024;

/// What a body has besides what is sealed: gRPC's frame, and the field in protobuf.
pub(super) const OVERHEAD: usize = PREFIX + 6;

/// A message follows one byte that says whether it is compressed, and four that say how long it is.
const PREFIX: usize = 5;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Why a call was not answered, in gRPC's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InvalidArgument,
    DeadlineExceeded,
    ResourceExhausted,
    Unimplemented,
    Unauthenticated,
    /// Any that is not used here.
    Other,
}

impl Status {
    const fn code(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::InvalidArgument => "3",
            Self::DeadlineExceeded => "4",
            Self::ResourceExhausted => "8",
            Self::Unimplemented => "12",
            Self::Other => "13",
            Self::Unauthenticated => "16",
        })
    }

    fn read(code: &HeaderValue) -> Result<(), Self> {
        Err(match code.as_bytes() {
            b"0" => return Ok(()),
            b"3" => Self::InvalidArgument,
            b"4" => Self::DeadlineExceeded,
            b"8" => Self::ResourceExhausted,
            b"12" => Self::Unimplemented,
            b"16" => Self::Unauthenticated,
            _ => Self::Other,
        })
    }

    /// What headers or trailers say, if they say anything.
    pub(super) fn of(headers: &HeaderMap) -> Option<Result<(), Self>> {
        headers.get(STATUS).map(Self::read)
    }
}

/// A body with one sealed message.
pub(super) fn frame(sealed: Vec<u8>) -> Bytes {
    let message = Sealed { sealed: sealed.into() };
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX + length);
    bytes.push(0);
    // What is longer than can be said is longer than anybody takes.
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    message.encode_raw(&mut bytes);
    bytes.into()
}

/// The sealed message in a body that has exactly one.
pub(super) fn unframe(mut body: Bytes) -> Option<Bytes> {
    if body.len() < PREFIX || body.get_u8() != 0 || body.get_u32() as usize != body.len() {
        return None;
    }
    Sealed::decode(body).ok().map(|message| message.sealed)
}

/// An answer with one sealed message.
pub(super) fn reply(sealed: Vec<u8>) -> Response<Answer> {
    let mut response = Response::new(Answer::Message(frame(sealed)));
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

/// An answer that is only a status.
pub(super) fn refuse(status: Status, why: &'static str) -> Response<Answer> {
    let mut response = Response::new(Answer::End);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(STATUS, status.code());
    headers.insert(MESSAGE, HeaderValue::from_static(why));
    response
}

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// A message, then that all is well.
    Message(Bytes),
    /// That all is well.
    Well,
    /// Nothing more.
    End,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (frame, next) = match std::mem::replace(&mut *self, Self::End) {
            Self::Message(bytes) => (Frame::data(bytes), Self::Well),
            Self::Well => (Frame::trailers(HeaderMap::from_iter([(STATUS, OK)])), Self::End),
            Self::End => return Poll::Ready(None),
        };
        *self = next;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_whole_message() {
        let body = frame(b"sealed".to_vec());
        assert_eq!(unframe(body.clone()), Some(Bytes::from_static(b"sealed")));
        assert_eq!(body.len(), 6 + PREFIX + 2);
        for bad in [
            &[][..],
            &[0, 0, 0, 0],
            &[0, 0, 0, 0, 2, 10],
            &[0, 0, 0, 0, 1, 10, 0],
            &[1, 0, 0, 0, 2, 10, 0],
            &[0, 255, 255, 255, 255],
            &[0, 0, 0, 0, 1, 255],
        ] {
            assert_eq!(unframe(Bytes::copy_from_slice(bad)), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_asked_for_is_what_there_is() {
        assert_eq!(http::Uri::from_static(URI).path(), PATH);
    }

    #[test]
    fn the_overhead_is_enough_for_the_largest() {
        let largest = MAX_BODY - OVERHEAD;
        assert!(frame(vec![7; largest]).len() <= MAX_BODY);
    }

    #[test]
    fn statuses_are_read_as_they_are_written() {
        for status in [
            Status::InvalidArgument,
            Status::DeadlineExceeded,
            Status::ResourceExhausted,
            Status::Unimplemented,
            Status::Unauthenticated,
            Status::Other,
        ] {
            assert_eq!(Status::of(refuse(status, "no").headers()), Some(Err(status)));
        }
        assert_eq!(Status::of(&HeaderMap::from_iter([(STATUS, OK)])), Some(Ok(())));
        assert_eq!(Status::of(&HeaderMap::new()), None);
    }
}
