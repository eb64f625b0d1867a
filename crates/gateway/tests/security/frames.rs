//! HTTP/2 by hand: no library sends what is tried here.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::DEADLINE;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;

/// A setting: how much may be sent on a stream before more is asked for.
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame that came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With the status, if it is one of those that have a number in HPACK, and the body.
    Answered(Option<u16>, String),
    Reset,
    /// The connection ended.
    Gone,
}

/// A connection.
pub(crate) struct Duplex {
    pub(crate) stream: TcpStream,
    got: Vec<u8>,
}

impl Duplex {
    /// Connects, with settings of the client's.
    pub(crate) async fn to(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut duplex = Self { stream: TcpStream::connect(address).await.unwrap(), got: Vec::new() };
        let mut payload = Vec::new();
        for (id, value) in settings {
            payload.extend(id.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat();
        assert!(duplex.send(&hello).await);
        duplex
    }

    /// Sends bytes; the other side may have hung up.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        let sent = timeout(DEADLINE, self.stream.write_all(bytes)).await;
        sent.expect("the other side takes what is sent, or hangs up").is_ok()
    }

    /// The next frame; `None` if the connection ends. What has to be acknowledged is.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.take() {
                match (frame.kind, frame.flags & ACK) {
                    (SETTINGS, 0) => drop(self.send(&self::frame(SETTINGS, ACK, 0, &[])).await),
                    (PING, 0) => drop(self.send(&self::frame(PING, ACK, 0, &frame.payload)).await),
                    _ => {}
                }
                return Some(frame);
            }
            let read = timeout(DEADLINE, self.stream.read_buf(&mut self.got)).await;
            if !matches!(read.expect("the other side says something, or hangs up"), Ok(1..)) {
                return None;
            }
        }
    }

    fn take(&mut self) -> Option<Frame> {
        let &[a, b, c, kind, flags, s, t, u, v] = self.got.get(..9)? else { return None };
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = self.got.get(9..end)?.to_vec();
        self.got.drain(..end);
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s & 0x7f, t, u, v]), payload })
    }

    /// What becomes of the request on a stream. Others' frames are not looked at.
    pub(crate) async fn outcome(&mut self, stream: u32) -> Outcome {
        let (mut status, mut body) = (None, Vec::new());
        while let Some(frame) = self.next().await {
            match frame.kind {
                GOAWAY => return Outcome::Gone,
                RST_STREAM if frame.stream == stream => return Outcome::Reset,
                HEADERS if frame.stream == stream => status = indexed_status(&frame.payload),
                DATA if frame.stream == stream => body.extend(&frame.payload),
                _ => continue,
            }
            if frame.flags & END_STREAM != 0 {
                return Outcome::Answered(status, String::from_utf8_lossy(&body).into_owned());
            }
        }
        Outcome::Gone
    }

    /// Reads until the connection ends, which it must.
    pub(crate) async fn ended(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// A frame, as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Headers as HPACK has them that remembers nothing and compresses nothing.
pub(crate) fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// With a prefix of seven bits.
fn integer(out: &mut Vec<u8>, value: usize) {
    if value < 127 {
        out.push(u8::try_from(value).unwrap());
        return;
    }
    out.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        out.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap());
}

/// The fields of a plain request, and more.
pub(crate) fn fields<'f>(
    method: &'f str,
    path: &'f str,
    more: &[(&'f str, &'f [u8])],
) -> Vec<(&'f [u8], &'f [u8])> {
    let usual = [(":method", method), (":scheme", "http"), (":authority", "api.example"), (":path", path)];
    let usual = usual.into_iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    usual.chain(more.iter().map(|(name, value)| (name.as_bytes(), *value))).collect()
}

/// A plain request without a body.
pub(crate) fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields("GET", path, &[])))
}

/// A status that HPACK has a number for, if it comes first.
fn indexed_status(block: &[u8]) -> Option<u16> {
    // A change of the table's size may come before.
    let first = block.iter().find(|byte| **byte & 0xe0 != 0x20)?;
    let statuses = [200, 204, 206, 304, 400, 404, 500];
    usize::from(*first).checked_sub(0x88).and_then(|index| statuses.get(index).copied())
}
