//! Asking a running server: one request, one answer.

use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tidegate_core::Span;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::runtime::block_on;

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// How to reach a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Connect {
    /// What to send as `Authorization: Bearer …`, if the server asks for it
    #[arg(long, value_name = "TOKEN", env = "TIDEGATE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,

    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub(crate) timeout: Span,
}

/// Where a server is: `http://127.0.0.1:8080`, or without the `http://`.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    authority: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("https://") {
            return Err("only http:// is spoken; put a proxy that speaks https in between".to_owned());
        }
        match authority(text.strip_prefix("http://").unwrap_or(text)) {
            Some(authority) => Ok(Self { authority: authority.to_owned() }),
            None => Err("write it as http://HOST:PORT".to_owned()),
        }
    }
}

/// The host and port that are all there is behind a scheme; `None` if there is anything else.
pub(crate) fn authority(text: &str) -> Option<&str> {
    let text = text.trim_end_matches('/');
    let read = text.parse::<Uri>().ok().and_then(|uri| uri.into_parts().authority)?;
    (read.as_str() == text && !text.contains('@')).then_some(text)
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

/// What a server said.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Connect {
    /// How long to wait for one answer.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.timeout.as_millis())
    }

    /// Asks for something; `flag` is how the user says where the server is.
    pub(crate) fn get(&self, to: &Address, path: &str, flag: &str) -> Result<Answer, Failure> {
        self.call(Method::GET, (to, path), Vec::new(), flag)
    }

    /// Posts a JSON body; `flag` is how the user says where the server is.
    pub(crate) fn post(
        &self,
        to: &Address,
        path: &str,
        body: Vec<u8>,
        flag: &str,
    ) -> Result<Answer, Failure> {
        self.call(Method::POST, (to, path), body, flag)
    }

    /// Sends a request with a JSON body, which may be empty; `flag` is how the user says where the server is.
    pub(crate) fn call(
        &self,
        method: Method,
        (to, path): (&Address, &str),
        body: Vec<u8>,
        flag: &str,
    ) -> Result<Answer, Failure> {
        self.send(to, flag, self.request(method, to, path, body))
    }

    fn send(
        &self,
        to: &Address,
        flag: &str,
        request: Result<Request<Full<Bytes>>, String>,
    ) -> Result<Answer, Failure> {
        let asked = async { tokio::time::timeout(self.patience(), ask(to, request?)).await.ok().transpose() };
        let reason = match block_on(asked)? {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => format!("no answer within {}", self.timeout),
            Err(error) => error,
        };
        Err(Self::cannot_ask(to, &reason, flag))
    }

    /// That nobody answers there, and what to do about it.
    pub(crate) fn cannot_ask(to: &Address, why: &str, flag: &str) -> Failure {
        Failure::Failed(format!(
            "cannot ask {to}: {why}\nStart a server with `tidegate serve`, or say where it is with {flag} URL."
        ))
    }

    /// A request as a server wants it.
    pub(crate) fn request(
        &self,
        method: Method,
        to: &Address,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &to.authority)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(Full::new(body.into())).map_err(|error| format!("the request cannot be sent: {error}"))
    }
}

/// Sends a request and reads the answer to its end.
pub(crate) async fn ask(to: &Address, request: Request<Full<Bytes>>) -> Result<Answer, String> {
    let opened = open(to, request).await?;
    let status = opened.response.status();
    let body = Limited::new(opened.response.into_body(), MAX_ANSWER_BYTES).collect().await;
    Ok(Answer { status, body: body.map_err(|error| error.to_string())?.to_bytes() })
}

/// An answer that may still be coming, and what its connection lives by.
pub(crate) struct Opened {
    pub(crate) response: Response<Incoming>,
    _sender: http1::SendRequest<Full<Bytes>>,
    _driver: AbortOnDrop,
}

/// A task that ends with what it is for.
struct AbortOnDrop(JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a request over a connection of its own and waits for the head of the answer.
pub(crate) async fn open(to: &Address, request: Request<Full<Bytes>>) -> Result<Opened, String> {
    let target = if has_port(&to.authority) { to.authority.clone() } else { format!("{}:80", to.authority) };
    let stream = TcpStream::connect(target).await.map_err(|error| error.to_string())?;
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|error| error.to_string())?;
    let driver = AbortOnDrop(tokio::spawn(connection));
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    Ok(Opened { response, _sender: sender, _driver: driver })
}

/// Whether a port follows the host, which may be an IPv6 address in brackets.
fn has_port(authority: &str) -> bool {
    authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_ceremony() {
        for (text, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("localhost:8080", "http://localhost:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("limiter", "http://limiter"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in ["", "https://a", "http://", "a b", "http://a/b", "u@h:1", "ftp://x"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert!(has_port("[::1]:80") && has_port("a:1") && !has_port("[::1]") && !has_port("a"));
    }
}
