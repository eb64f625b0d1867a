//! A client that sends any bytes it likes.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::support::DEADLINE;

/// A connection, and what came by it that nobody has looked at.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    got: Vec<u8>,
}

/// An answer in HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Its head, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Wire {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), got: Vec::new() }
    }

    /// From one of the many addresses that the loopback interface has.
    pub(crate) async fn from(ip: &str, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(ip.parse::<IpAddr>().unwrap(), 0)).unwrap();
        Self { stream: socket.connect(to).await.unwrap(), got: Vec::new() }
    }

    /// Sends bytes; the other side may have hung up.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let sent = timeout(DEADLINE, self.stream.write_all(bytes.as_ref())).await;
        sent.expect("the other side takes what is sent, or hangs up").is_ok()
    }

    /// Whether more came; not if that was the end.
    async fn more(&mut self) -> bool {
        let read = timeout(DEADLINE, self.stream.read_buf(&mut self.got)).await;
        matches!(read.expect("the other side says something, or hangs up"), Ok(1..))
    }

    /// The next answer, whole; `None` if the connection ends before.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some((answer, length)) = read(&self.got) {
                self.got.drain(..length);
                if answer.status >= 200 || answer.status == 101 {
                    return Some(answer);
                }
            } else if !self.more().await {
                return None;
            }
        }
    }

    /// All that comes until the end, which must come.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.got)
    }

    /// Sends a request and gives its answer.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Option<Answer> {
        self.send(request).await;
        self.answer().await
    }
}

/// One request on a connection of its own.
pub(crate) async fn ask(to: SocketAddr, request: impl AsRef<[u8]>) -> Option<Answer> {
    Wire::to(to).await.ask(request).await
}

/// A plain request.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: api.example\r\n\r\n")
}

/// A plain request still works for everybody else.
pub(crate) async fn assert_serves(to: SocketAddr) {
    let answer = ask(to, get("/fine")).await.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Reads an answer, with its length, if all of it is there.
fn read(bytes: &[u8]) -> Option<(Answer, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status: u16 = head.get(9..12).and_then(|status| status.parse().ok()).expect("a status");
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    let rest = &bytes[end..];
    let (body, length) = if field("transfer-encoding") == Some("chunked") {
        unchunked(rest)?
    } else {
        let length = field("content-length").map_or(0, |length| length.parse().expect("a length"));
        (rest.get(..length)?.to_vec(), length)
    };
    let body = String::from_utf8_lossy(&body).into_owned();
    Some((Answer { status, head, body }, end + length))
}

fn unchunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).ok()?;
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        at += line + 2;
        body.extend_from_slice(bytes.get(at..at + size)?);
        at += size + 2;
        if bytes.len() < at {
            return None;
        }
        if size == 0 {
            return Some((body, at));
        }
    }
}
