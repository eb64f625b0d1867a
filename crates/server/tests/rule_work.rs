//! Work on rules, asked for by the admin API: only so much at once, and none for clients that have left.
//!
//! By itself, because all servers of a process share the turns that this holds up.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use tidegate_server::{Config, RulesFeed, Server};
use tidegate_sources::{FileArchive, FileSource, RULE_WORK, RuleBook};
use tidegate_testkit::wait::HANG_LIMIT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const RULE: &str = "{rule_id: one, identifier_type: global, limit: 5, window: 1s}";

/// Work that takes its turn until it is told to end.
struct Busy {
    end: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Busy {
    async fn start() -> Self {
        let (end, ended) = mpsc::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let work = move || {
                begin.send(()).unwrap();
                ended.recv().unwrap();
            };
            RULE_WORK.run(work).await.unwrap();
        });
        begun.await.unwrap();
        Self { end, task }
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        self.task.await.unwrap();
    }
}

async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANG_LIMIT, wait).await.expect("it does not happen");
}

/// A server with one rule in a file, and its admin listener.
async fn serve(folder: &tempfile::TempDir) -> SocketAddr {
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, format!("- {RULE}\n")).unwrap();
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config { http: anywhere, grpc: anywhere, admin: anywhere, ..Config::default() };
    let book = RuleBook::new(Arc::new(FileArchive::new(&path)));
    let feed = RulesFeed::watch(FileSource::new(&path)).with_book(book);
    let server = Server::bind(config, feed).await.unwrap();
    let admin = server.addresses().admin;
    tokio::spawn(server.run(std::future::pending()));
    admin
}

async fn ask(admin: SocketAddr, what: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request = format!(
        "{what} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(HANG_LIMIT, read).await.unwrap().unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_bounded_and_ends_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let admin = serve(&folder).await;
    until(|| RULE_WORK.waiting() == 0).await;
    let busy = Busy::start().await;

    let asked = [
        ("PUT /v1/rules/one", RULE.replace('5', "6")),
        ("POST /v1/rules/validate", RULE.to_owned()),
        ("GET /v1/documents", String::new()),
        ("GET /v1/documents/rules.yaml", String::new()),
    ];
    for (what, body) in &asked {
        let stream = ask(admin, what, body).await;
        until(|| RULE_WORK.waiting() == 1).await;
        drop(stream);
        until(|| RULE_WORK.waiting() == 0).await;
    }

    let mut waiting = Vec::new();
    for _ in 0..32 {
        waiting.push(ask(admin, "POST /v1/rules/validate", RULE).await);
    }
    until(|| RULE_WORK.waiting() == 32).await;
    for (what, body) in &asked {
        let refused = answer(ask(admin, what, body).await).await;
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\"busy\""), "{what}: {refused}");
    }
    // What needs none of it goes on.
    assert!(answer(ask(admin, "GET /livez", "").await).await.starts_with("HTTP/1.1 200 "));
    assert!(answer(ask(admin, "GET /v1/rules", "").await).await.contains("\"rule_id\":\"one\""));

    busy.end().await;
    for stream in waiting {
        let valid = answer(stream).await;
        assert!(valid.starts_with("HTTP/1.1 200 "), "{valid}");
    }
    let text = std::fs::read_to_string(folder.path().join("rules.yaml")).unwrap();
    assert_eq!(text, format!("- {RULE}\n"), "what was asked for by a client that left was not done");
}
