//! A client that writes what no library would.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::client::DEADLINE;

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// The header's value, if it is there. Twice would be a mistake, whatever it says.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "`{name}` is there twice: {self:?}");
        value
    }

    /// Limit, remaining, reset.
    pub(crate) fn figures(&self) -> [Option<&str>; 3] {
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| self.header(name))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn read(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        if head.starts_with("HTTP/1.1 1") {
            return Self::read(body);
        }
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Some(Self { status, headers, body: body.to_owned() })
    }
}

/// The text of a request without a body, with these headers as they are written.
pub(crate) fn get(target: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    request("GET", target, headers, "")
}

/// The text of a request. The connection ends with it unless `headers` say something about it.
pub(crate) fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: api.example\r\n");
    if !headers.iter().any(|(name, _)| *name == "Connection") {
        text.push_str("Connection: close\r\n");
    }
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.extend(["\r\n", body]);
    text.into_bytes()
}

/// Sends a request and reads its answer.
pub(crate) async fn ask(address: SocketAddr, request: &[u8]) -> Answer {
    try_ask(address, request).await.expect("an answer")
}

/// The same for requests that may be too bad for an answer.
pub(crate) async fn try_ask(address: SocketAddr, request: &[u8]) -> Option<Answer> {
    ask_from(Ipv4Addr::LOCALHOST, address, request).await
}

/// The same from another address of this machine, which has many that begin with 127.
pub(crate) async fn ask_from(client: Ipv4Addr, address: SocketAddr, request: &[u8]) -> Option<Answer> {
    let exchange = async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((client, 0).into()).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        // A server that has heard enough answers before the end, and closes.
        stream.write_all(request).await.ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        Answer::read(&String::from_utf8_lossy(&answer))
    };
    timeout(DEADLINE, exchange).await.expect("answered in time")
}
