//! Reads server-sent events.

use std::io::Write as _;
use std::net::SocketAddr;

use flate2::write::GzDecoder;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Ask, DEADLINE};

/// Events as they come.
pub(crate) struct Stream {
    body: Incoming,
    unpacking: Option<GzDecoder<Vec<u8>>>,
    read: String,
}

impl Stream {
    /// Begins to read them.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::ask(address, Ask::get("/v1/events")).await.unwrap()
    }

    /// The same with a request of one's own; or what is answered instead.
    pub(crate) async fn ask(address: SocketAddr, ask: Ask) -> Result<Self, StatusCode> {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let response = timeout(DEADLINE, sender.send_request(ask.request(address))).await.unwrap().unwrap();
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let packed = response.headers().get("content-encoding").is_some_and(|coding| coding == "gzip");
        let unpacking = packed.then(|| GzDecoder::new(Vec::new()));
        Ok(Self { body: response.into_body(), unpacking, read: String::new() })
    }

    /// Whether they come in gzip.
    pub(crate) fn is_packed(&self) -> bool {
        self.unpacking.is_some()
    }

    /// The next event and its data; nothing if there are no more.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.read = rest;
                if event.starts_with(':') {
                    continue;
                }
                let (name, data) = event.split_once('\n').unwrap();
                let name = name.strip_prefix("event: ").unwrap().to_owned();
                let data = data.strip_prefix("data: ").unwrap();
                return Some((name, serde_json::from_str(data).unwrap()));
            }
            let frame = timeout(DEADLINE, self.body.frame()).await.expect("something comes")?;
            let Ok(frame) = frame else { return None };
            let mut bytes = frame.into_data().unwrap().to_vec();
            if let Some(unpacking) = &mut self.unpacking {
                unpacking.write_all(&bytes).unwrap();
                unpacking.flush().unwrap();
                bytes = std::mem::take(unpacking.get_mut());
            }
            self.read.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The next event of that name of which something is so.
    pub(crate) async fn until(&mut self, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let find = async {
            loop {
                let (event, data) = self.next().await.expect("more events");
                if event == name && is_so(&data) {
                    return data;
                }
                if event == name {
                    last = data;
                }
            }
        };
        let found = timeout(DEADLINE, find).await;
        found.unwrap_or_else(|_| panic!("no such {name} in time; the last one is {last}"))
    }
}
