//! Answers that their clients got whole, and others.

use http::Request;
use hyper::body::Incoming;
use tidegate_testkit::{Pieces, Scripted};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{Log, says_so};
use crate::client::{Client, answer, head_of, next, request, says, until};
use crate::hanging_up::leave;
use crate::support::Setup;

#[tokio::test]
async fn clients_that_go_away() {
    let backend = Scripted::http(|request: Request<Incoming>| async move {
        if request.uri().path() == "/silent" {
            std::future::pending::<()>().await;
        }
        let (feeder, body) = Pieces::fed();
        tokio::spawn(async move {
            if request.uri().path() == "/endless" {
                while feeder.give(vec![b'x'; 10_000]).await {}
            }
            feeder.unwanted().await;
        });
        answer(200, body)
    });
    let mut log = Log::new();
    let gateway = log.of(Setup::to(&[backend.address()])).start().await;
    // In the middle of the answer, and between its head and its body.
    for path in ["/endless", "/head"] {
        for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
            let mut answer = client.send(request("GET", path)).await.unwrap();
            if path == "/endless" {
                next(answer.body_mut()).await;
            }
            drop((answer, client));
            let expected = serde_json::json!({"path": path, "status": 200, "error": "client_gone"});
            says_so(&log.next().await, &expected);
        }
    }
    // Before there is anything to answer with.
    for two in [false, true] {
        let at = gateway.at.listen;
        let asked = backend.asked();
        let asking = tokio::spawn(async move {
            let mut client = if two { Client::http2(at).await } else { Client::http1(at).await };
            client.send(request("GET", "/silent")).await.map(drop)
        });
        until("it is under way", async || (backend.asked() > asked).then_some(())).await;
        asking.abort();
        let upstream = format!("http://{}", backend.address());
        says_so(
            &log.next().await,
            &serde_json::json!({
                "path": "/silent", "status": 499, "error": "client_gone", "decision": "allowed", "upstream": upstream,
            }),
        );
    }
}

/// What goes on for the sake of a charge is logged when it has ended, as if it had ended with its client.
#[tokio::test]
async fn clients_that_go_away_while_something_is_held() {
    let rules = "rules:\n  - {rule_id: failures, identifier_type: ip_address, limit: 9, window: 52w, algorithm: fixed_window, \
                 charge: {statuses: 5xx}}\n";
    let (open, gate) = watch::channel(false);
    let backend = Scripted::http(move |_: Request<Incoming>| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.unwrap();
            says("too late")
        }
    });
    let mut log = Log::new();
    let gateway = log.of(Setup::to(&[backend.address()]).rules(rules)).start().await;
    let mut client = TcpStream::connect(gateway.at.listen).await.unwrap();
    client.write_all(b"GET /silent HTTP/1.1\r\nhost: api.example\r\n\r\n").await.unwrap();
    until("it is under way", async || (backend.asked() == 1).then_some(())).await;
    leave(client).await;
    open.send(true).unwrap();
    says_so(
        &log.next().await,
        &serde_json::json!({"path": "/silent", "status": 499, "error": "client_gone", "attempts": 1, "bytes_out": 0}),
    );
}

/// Whatever an answer's end looks like, whoever has all of it is not gone.
#[tokio::test]
async fn clients_that_get_all() {
    let backend = Scripted::http(|request: Request<Incoming>| async move {
        match request.uri().path() {
            "/none" => answer(204, Pieces::none()),
            "/unchanged" => answer(304, Pieces::none()),
            "/empty" => answer(200, Pieces::none()),
            "/words" => says("words"),
            path => {
                let (feeder, body) = match path {
                    "/length" => Pieces::fed_with_length(5),
                    "/empty/pieces" => return answer(200, Pieces::fed().1),
                    _ => Pieces::fed(),
                };
                tokio::spawn(async move { feeder.give("words").await });
                answer(200, body)
            }
        }
    });
    for protocol in ["http1", "http2"] {
        let routes = format!(
            "upstreams: {{it: {{servers: 'http://{}', protocol: {protocol}}}}}\nroutes: [{{upstream: it}}]\n",
            backend.address()
        );
        let mut log = Log::new();
        let gateway = log.of(Setup::by(&routes)).start().await;
        for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
            for path in ["/none", "/unchanged", "/empty", "/words", "/length", "/pieces", "/empty/pieces"] {
                for method in ["GET", "HEAD"] {
                    let told = client.ask(request(method, path)).await;
                    let expected = serde_json::json!({
                        "method": method, "path": path, "status": told.status, "bytes_out": told.body.len(), "error": null,
                    });
                    says_so(&log.next().await, &expected);
                }
            }
        }
    }
}

#[tokio::test]
async fn tunnels_when_they_end() {
    let unasked = Scripted::bytes(|mut stream: TcpStream| async move {
        head_of(&mut stream).await;
        let switched =
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello";
        stream.write_all(switched).await.ok();
    });
    let mut log = Log::new();
    let gateway = log.of(Setup::to(&[unasked.address()])).start().await;
    let asked = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let text = gateway.raw(asked.as_bytes()).await;
    assert!(text.starts_with("HTTP/1.1 101") && text.ends_with("hello"), "{text}");
    says_so(&log.next().await, &serde_json::json!({"status": 101, "bytes_out": 5, "error": null}));
    assert_eq!(gateway.get("/").await.status, 502, "nobody asked for that");
    says_so(&log.next().await, &serde_json::json!({"status": 502, "error": "bad_gateway"}));
}
