//! Requests that keep coming until they are told to end.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use crate::support::{PATIENCE, Server};

/// Clients, each with a connection of its own.
pub(super) struct Traffic {
    done: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// A few users, so many requests a second to each of `nodes`.
    pub(super) fn steady(nodes: &[&Server], a_second: u32) -> Self {
        let mut traffic = Self::none();
        for node in nodes {
            let body = |turn: u64| json!({"user": format!("user-{}", turn % 7), "resource": "/"}).to_string();
            traffic.add(&node.http, "/v1/check", Duration::from_secs(1) / a_second, body);
        }
        traffic
    }

    /// Batches of 20 of the same check, so many a second.
    pub(super) fn batches(node: &Server, check: &str, a_second: u32) -> Self {
        let mut traffic = Self::none();
        let batch = format!("[{}]", vec![check; 20].join(","));
        traffic.add(&node.http, "/v1/check/batch", Duration::from_secs(1) / a_second, move |_| batch.clone());
        traffic
    }

    pub(super) fn none() -> Self {
        Self { done: Arc::default(), answered: Arc::default(), clients: Vec::new() }
    }

    /// Another client, with a pause after each answer.
    pub(super) fn add(
        &mut self,
        to: &str,
        path: &'static str,
        pause: Duration,
        body: impl Fn(u64) -> String + Send + 'static,
    ) {
        let (to, done, answered) = (to.to_owned(), Arc::clone(&self.done), Arc::clone(&self.answered));
        self.clients.push(thread::spawn(move || {
            let stream = TcpStream::connect(&to).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            for turn in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                ask(&stream, &mut reader, path, &body(turn));
                answered.fetch_add(1, Ordering::Relaxed);
                thread::sleep(pause);
            }
        }));
    }

    /// How many requests were answered, which all were.
    pub(super) fn end(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request was answered");
        }
        self.answered.load(Ordering::Relaxed)
    }
}

/// One request over a connection that stays.
fn ask(mut to: &TcpStream, from: &mut impl BufRead, path: &str, body: &str) {
    let length = body.len();
    let request = format!("POST {path} HTTP/1.1\r\nhost: node\r\ncontent-length: {length}\r\n\r\n{body}");
    to.write_all(request.as_bytes()).unwrap();
    let (mut line, mut length) = (String::new(), 0);
    from.read_line(&mut line).unwrap();
    // The other is the answer of rules that deny without the store.
    assert!(["HTTP/1.1 200", "HTTP/1.1 503"].iter().any(|start| line.starts_with(start)), "{line}");
    while line != "\r\n" {
        line.clear();
        from.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    from.read_exact(&mut vec![0; length]).unwrap();
}
