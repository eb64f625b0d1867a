//! Something that tells what a test wants it to.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

/// What a node that is not well tells at once.
pub(super) const TOLD: &str = concat!(
    "event: history\ndata: {\"points\": [{\"at\": 1, \"decisions\": {\"allowed\": 5.0}}]}\n\n",
    "event: tick\ndata: {\"point\": {\"at\": 2, \"decisions\": {\"allowed\": 10.0, \"refused\": 2.0}}, ",
    "\"state\": {\"name\": \"node-a\", \"uptime_seconds\": 61, \"mode\": \"degraded\", \"reasons\": [\"a shard is down\"], ",
    "\"rules\": {\"version\": 7, \"count\": 12}, \"totals\": {\"allowed\": 1234, \"refused\": 56}, ",
    "\"hot_keys\": [{\"rule\": \"per_user\", \"identity\": \"bob\\u001b[2J\", \"rate_per_second\": 9, \"hot\": true}]}}\n\n",
    "event: insight\ndata: {}\n\n: so far\n\n",
    "event: journal\ndata: {\"entries\": [{\"at\": \"2026-03-01T12:00:07Z\", \"severity\": \"info\", \"title\": \"rules changed\"}]}\n\n",
);

/// How a node answers those who have no token.
pub(super) const REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: 42\r\n\r\n\
                                  {\"message\": \"the token is missing \\u001b\"}";

/// Answers one connection after the other, each with the next of its answers; all but the first when it is told to.
pub(super) struct Node {
    pub(super) address: String,
    next: mpsc::Sender<()>,
}

impl Node {
    /// Tells `events`, each over a connection of its own; the last one stays open, the others end at once.
    pub(super) fn start<const N: usize>(events: [&'static str; N]) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        Self::answering(events.map(|events| format!("{head}{events}")).to_vec())
    }

    /// Answers with `answers` as they are.
    pub(super) fn refusing<const N: usize>(answers: [&'static str; N]) -> Self {
        Self::answering(answers.map(str::to_owned).to_vec())
    }

    fn answering(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (next, told) = mpsc::channel();
        next.send(()).unwrap();
        thread::spawn(move || {
            let last = answers.len() - 1;
            for (index, answer) in answers.into_iter().enumerate() {
                let mut stream = listener.accept().unwrap().0;
                assert!(asked(&stream).starts_with("GET /v1/events "));
                if told.recv().is_err() {
                    return;
                }
                // Whoever has read enough may be gone.
                let _ = stream.write_all(answer.as_bytes());
                if index == last {
                    // Until the other side goes.
                    let _ = BufReader::new(stream).read_line(&mut String::new());
                }
            }
        });
        Self { address, next }
    }

    /// Lets it answer the next connection.
    pub(super) fn go_on(&self) {
        self.next.send(()).unwrap();
    }
}

/// The first line of a request, all of which is read.
fn asked(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    first
}
