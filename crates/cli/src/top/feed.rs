//! What a server says as it happens, for as long as somebody looks: lost connections are made again.

use std::time::Duration;

use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::model::Link;
use super::sse::{MAX_BYTES, Message, Parser};
use super::text::Text;
use super::wire::Fleet;
use crate::client::{self, Address, Connect, Opened};
use crate::failure::Failure;

/// The first wait before another try, and the longest.
const WAITS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// A server says something each second; one that is silent for so long is not there any more.
const SILENCE: Duration = Duration::from_secs(10);

/// How often all nodes are asked.
const FLEET_EVERY: Duration = Duration::from_secs(2);

/// How long the reason of a refusal may take, when the refusal is there.
const REASON_WITHIN: Duration = Duration::from_secs(1);

/// As much of a refusal as is read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// What there is to know.
pub(super) enum News {
    Link(Link),
    Message(Message),
    Fleet(Result<Fleet, Text>),
}

/// Where it comes from.
pub(super) struct Feed<'a> {
    pub(super) connect: &'a Connect,
    pub(super) server: &'a Address,
}

/// Why nothing more comes.
enum Ended {
    /// Another try may do.
    Lost(String),
    /// The server does not want to tell; asking again changes nothing.
    Refused(Failure),
}

impl Feed<'_> {
    /// Passes on what the server says, until it says that it does not want to.
    pub(super) async fn follow(&self, news: &mpsc::Sender<News>) -> Failure {
        let [first, longest] = WAITS;
        let mut wait = first;
        loop {
            let mut heard = false;
            let why = match self.listen(news, &mut heard).await {
                Ended::Refused(failure) => return failure,
                Ended::Lost(why) => Text::new(&why),
            };
            if heard {
                wait = first;
            }
            // Whoever no longer listens ends this, too.
            let _ = news.send(News::Link(Link::Lost(why, wait))).await;
            sleep(wait).await;
            wait = (wait * 2).min(longest);
        }
    }

    /// Asks for all nodes again and again while somebody wants to see them.
    pub(super) async fn follow_fleet(&self, news: &mpsc::Sender<News>, mut wanted: watch::Receiver<bool>) {
        while wanted.wait_for(|wanted| *wanted).await.is_ok() {
            let answer = self.fleet().await.map_err(|why| Text::new(&why));
            let _ = news.send(News::Fleet(answer)).await;
            sleep(FLEET_EVERY).await;
        }
        std::future::pending::<()>().await;
    }

    async fn listen(&self, news: &mpsc::Sender<News>, heard: &mut bool) -> Ended {
        let opened = match timeout(self.connect.patience(), self.open()).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(why)) => return Ended::Lost(why),
            Err(_) => return Ended::Lost(format!("no answer within {}", self.connect.timeout)),
        };
        if let Some(ended) = unfit(&opened.response) {
            return ended(self.refusal(opened.response).await);
        }
        let (mut body, mut parser) = (opened.response.into_body(), Parser::new(MAX_BYTES));
        loop {
            let frame = match timeout(SILENCE, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Ended::Lost(error.to_string()),
                Ok(None) => return Ended::Lost("it has ended the connection".to_owned()),
                Err(_) => return Ended::Lost("it has gone silent".to_owned()),
            };
            let Ok(bytes) = frame.into_data() else { continue };
            let Ok(messages) = parser.push(&bytes) else {
                return Ended::Lost(format!("it sends more than {} MiB at once", MAX_BYTES >> 20));
            };
            for message in messages {
                if !std::mem::replace(heard, true) {
                    let _ = news.send(News::Link(Link::Live)).await;
                }
                let _ = news.send(News::Message(message)).await;
            }
        }
    }

    async fn open(&self) -> Result<Opened, String> {
        let mut request = self.connect.request(Method::GET, self.server, "/v1/events", Vec::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        client::open(self.server, request).await
    }

    /// Why the server does not tell, and what to do about it.
    async fn refusal(&self, response: Response<Incoming>) -> String {
        let status = response.status();
        if matches!(status, StatusCode::OK | StatusCode::NOT_FOUND) {
            return format!(
                "{} is no admin listener of a Tidegate that tells what happens\n\
                 Say where it is with --admin URL; servers older than this command cannot be watched.",
                self.server
            );
        }
        let body = Limited::new(response.into_body(), MAX_REFUSAL_BYTES).collect();
        let body = timeout(REASON_WITHIN, body).await.ok().and_then(Result::ok);
        let said = said(status, &body.map(Collected::to_bytes).unwrap_or_default());
        let server = self.server;
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                format!("{server} says: {said}\nGive a token with --token TOKEN or in TIDEGATE_TOKEN.")
            }
            _ => format!("{server} says: {said}"),
        }
    }

    async fn fleet(&self) -> Result<Fleet, String> {
        let request = self.connect.request(Method::GET, self.server, "/v1/fleet", Vec::new())?;
        let asked = timeout(self.connect.patience(), client::ask(self.server, request)).await;
        let answer = asked.map_err(|_| format!("no answer within {}", self.connect.timeout))??;
        if !answer.status.is_success() {
            return Err(said(answer.status, &answer.body));
        }
        serde_json::from_slice(&answer.body).map_err(|error| format!("the answer cannot be read: {error}"))
    }
}

/// What to make of the reason, if an answer is not what was asked for.
fn unfit(response: &Response<Incoming>) -> Option<fn(String) -> Ended> {
    let status = response.status();
    let is_stream = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
    match status {
        StatusCode::OK if is_stream => None,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Some(Ended::Lost),
        _ if status.is_server_error() => Some(Ended::Lost),
        _ => Some(|why| Ended::Refused(Failure::Failed(why))),
    }
}

/// What a server says about what it does not do.
fn said(status: StatusCode, body: &[u8]) -> String {
    let told: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = told["message"].as_str().map(|message| Text::new(message).to_string());
    message.unwrap_or_else(|| status.to_string())
}
