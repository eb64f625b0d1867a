//! One line for each request, whatever becomes of it.

mod ends;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tidegate_gateway::AccessLogTarget;
use tidegate_testkit::{Backend, Pieces, Port, Scripted};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Client, Told, answer, request, says, until, with_body, with_headers};
use crate::support::{Running, Setup};

struct Log {
    folder: TempDir,
    seen: usize,
}

impl Log {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), seen: 0 }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("access.log")
    }

    fn of(&self, setup: Setup) -> Setup {
        setup.gateway(|gateway| gateway.access_log = Some(AccessLogTarget::File(self.path())))
    }

    /// The next line, and no other.
    async fn next(&mut self) -> Value {
        let seen = self.seen;
        let mut lines = until("there is another line", async || {
            Some(lines(&self.path())).filter(|lines| lines.len() > seen)
        })
        .await;
        assert_eq!(lines.len(), seen + 1, "{lines:?}");
        self.seen += 1;
        lines.pop().unwrap()
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Fails unless the line says all this.
fn says_so(line: &Value, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(line.get(name).unwrap_or(&Value::Null), value, "{name} of {line}");
    }
}

const THREE: &str = "rules:\n  - {rule_id: three, identifier_type: ip_address, limit: 3, window: 1h, algorithm: fixed_window}\n";

#[tokio::test]
async fn what_was_allowed_and_what_was_not() {
    let backend = Backend::start();
    let mut log = Log::new();
    let gateway = log.of(Setup::to(&[backend.address()]).rules(THREE)).start().await;
    let upstream = format!("http://{}", backend.address());
    let told = gateway.ask(with_body("POST", "/orders/7?secret=1", Pieces::whole("words"))).await;
    let line = log.next().await;
    says_so(
        &line,
        &serde_json::json!({
            "client": "127.0.0.1", "method": "POST", "host": "api.example", "path": "/orders/7", "protocol": "HTTP/1.1",
            "status": 200, "decision": "allowed", "rule": "three", "upstream": upstream, "attempts": 1,
            "bytes_in": 5, "bytes_out": told.body.len(), "error": null,
        }),
    );
    assert!(line["time"].as_str().unwrap().starts_with("20") && line["upstream_ms"].is_number(), "{line}");
    assert!(!line.to_string().contains("secret"), "{line}");
    Client::http2(gateway.at.listen).await.ask(request("HEAD", "/")).await;
    says_so(
        &log.next().await,
        &serde_json::json!({
            "method": "HEAD", "host": "api.example", "protocol": "HTTP/2", "status": 200, "bytes_out": 0, "error": null,
        }),
    );
    gateway.get("/").await;
    log.next().await;
    let told = gateway.get("/").await;
    says_so(
        &log.next().await,
        &serde_json::json!({
            "status": 429, "decision": "refused", "rule": "three", "upstream": null, "attempts": 0,
            "bytes_out": told.body.len(), "upstream_ms": null, "error": null,
        }),
    );
}

#[tokio::test]
async fn what_went_wrong() {
    let (down, good) = (Port::claim(), Backend::start());
    let broken = Scripted::http(|_| async {
        let (feeder, body) = Pieces::fed();
        tokio::spawn(async move {
            feeder.give("half").await;
            feeder.break_off().await;
        });
        answer(200, body)
    });
    let silent = Scripted::http(|_| std::future::pending());
    let routes = format!(
        "upstreams:\n  two: {{servers: ['http://{0}', 'http://{1}']}}\nroutes:\n  - {{path: /down, upstream: 'http://{0}'}}\n  \
         - {{path: /two, upstream: two}}\n  - {{path: /broken, upstream: 'http://{2}'}}\n  \
         - {{path: /silent, upstream: 'http://{3}', response_timeout: 50ms}}\n",
        down.address(),
        good.address(),
        broken.address(),
        silent.address()
    );
    let mut log = Log::new();
    let gateway = log.of(Setup::by(&routes)).start().await;
    for (path, expected) in [
        ("/none", serde_json::json!({"status": 404, "error": "no_route", "decision": null, "route": null})),
        (
            "/down",
            serde_json::json!({"status": 502, "error": "bad_gateway", "decision": "allowed", "attempts": 1}),
        ),
        ("/silent", serde_json::json!({"status": 504, "error": "gateway_timeout", "attempts": 1})),
        (
            "/two",
            serde_json::json!({"status": 200, "attempts": 2, "upstream": format!("http://{}", good.address())}),
        ),
    ] {
        gateway.get(path).await;
        says_so(&log.next().await, &expected);
    }
    if let Ok(answer) = Client::http1(gateway.at.listen).await.send(request("GET", "/broken")).await {
        Told::of(answer).await.unwrap_err();
    }
    says_so(
        &log.next().await,
        &serde_json::json!({"status": 200, "error": "upstream_body_broken", "bytes_out": 4}),
    );
    gateway.raw(b"GET /a%2fb HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    says_so(&log.next().await, &serde_json::json!({"status": 400, "path": "/a%2fb", "decision": null}));
}

#[tokio::test]
async fn who_it_was() {
    let backend = Backend::start();
    let mut log = Log::new();
    let setup = Setup::to(&[backend.address()]).gateway(|gateway| {
        gateway.identity.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        gateway.identity.request_id = Some("x-request-id".parse().unwrap());
    });
    let gateway = log.of(setup).start().await;
    let headers = [
        ("x-forwarded-for", "203.0.113.9"),
        ("x-user-id", "alice"),
        ("x-tenant-id", "acme"),
        ("x-request-id", "r-1"),
    ];
    gateway.ask(with_headers(request("GET", "/"), &headers)).await;
    says_so(
        &log.next().await,
        &serde_json::json!({
            "client": "203.0.113.9", "user": "alice", "tenant": "acme", "request_id": "r-1",
        }),
    );
}

/// What rotates logs renames them and expects a new file.
#[tokio::test]
async fn a_file_that_is_renamed_is_left() {
    let backend = Scripted::http(|_| async { says("well") });
    let log = Log::new();
    let gateway = log.of(Setup::to(&[backend.address()])).start().await;
    gateway.get("/first").await;
    until("it is written", async || (lines(&log.path()).len() == 1).then_some(())).await;
    let old = log.folder.path().join("access.log.1");
    std::fs::rename(log.path(), &old).unwrap();
    let mut sent = 1;
    until("there is a new file", async || {
        gateway.get("/more").await;
        sent += 1;
        log.path().exists().then_some(())
    })
    .await;
    gateway.get("/last").await;
    sent += 1;
    until("no line is lost", async || (lines(&old).len() + lines(&log.path()).len() == sent).then_some(()))
        .await;
    let last = lines(&log.path()).pop().unwrap();
    assert_eq!(last["path"], "/last");
    gateway.stop().await.unwrap();
}

/// Many at once, over connections that last: none is missing, none is there twice.
#[tokio::test]
async fn each_has_one() {
    let backend = Backend::start();
    let log = Log::new();
    let gateway = log.of(Setup::to(&[backend.address()]).rules(THREE)).start().await;
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let at = gateway.at.listen;
            tokio::spawn(async move {
                let mut connection =
                    if client % 2 == 0 { Client::http1(at).await } else { Client::http2(at).await };
                for request in 0..25 {
                    connection.get(&format!("/{client}/{request}")).await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let all =
        until("all are written", async || Some(lines(&log.path())).filter(|lines| lines.len() >= 200)).await;
    let paths: std::collections::BTreeSet<&str> =
        all.iter().map(|line| line["path"].as_str().unwrap()).collect();
    assert_eq!((all.len(), paths.len()), (200, 200));
    let allowed = all.iter().filter(|line| line["decision"] == "allowed" && line["status"] == 200).count();
    let refused = all.iter().filter(|line| line["decision"] == "refused" && line["status"] == 429).count();
    assert_eq!((allowed, refused, backend.requests()), (3, 197, 3));
}

/// A connection that is hung up in the middle of a head is no request.
#[tokio::test]
async fn no_request_no_line() {
    let backend = Backend::start();
    let mut log = Log::new();
    let gateway: Running = log.of(Setup::to(&[backend.address()])).start().await;
    let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    drop(stream);
    gateway.get("/whole").await;
    says_so(&log.next().await, &serde_json::json!({"path": "/whole"}));
}
