//! The end of a gateway: what was accepted is answered.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_testkit::{Pieces, Scripted};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::Gateway;
use crate::support::{ask, begin, wait_for};

const GENEROUS: &str =
    "rules:\n  - {rule_id: all, identifier_type: ip_address, limit: 100000000, window: 1m}\n";

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    /// An answer that was begun and not finished.
    broken: AtomicU64,
    /// Not a word came back.
    unheard: AtomicU64,
}

enum Send {
    One(http1::SendRequest<Pieces>),
    Two(http2::SendRequest<Pieces>),
}

impl Send {
    async fn connect(to: SocketAddr, two: bool) -> Option<Self> {
        let stream = TokioIo::new(TcpStream::connect(to).await.ok()?);
        Some(if two {
            let (send, connection) = http2::handshake(TokioExecutor::new(), stream).await.ok()?;
            tokio::spawn(connection);
            Self::Two(send)
        } else {
            let (send, connection) = http1::handshake(stream).await.ok()?;
            tokio::spawn(connection);
            Self::One(send)
        })
    }

    async fn send(&mut self, to: SocketAddr) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(send) => {
                send.ready().await?;
                let request = Request::builder().uri("/").header("host", to.to_string());
                send.send_request(request.body(Pieces::none()).unwrap()).await
            }
            Self::Two(send) => {
                send.ready().await?;
                let request = Request::builder().uri(format!("http://{to}/"));
                send.send_request(request.body(Pieces::none()).unwrap()).await
            }
        }
    }
}

/// Asks until nobody takes connections any more.
async fn client(to: SocketAddr, two: bool, tally: Arc<Tally>) {
    while let Some(mut connection) = Send::connect(to, two).await {
        while let Ok(answer) = connection.send(to).await {
            assert_eq!(answer.status(), 200);
            let whole = answer.into_body().collect().await.is_ok_and(|body| body.to_bytes().len() == 1_000);
            let count = if whole { &tally.answered } else { &tally.broken };
            count.fetch_add(1, Ordering::SeqCst);
        }
        tally.unheard.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn every_request_that_was_accepted_is_answered() {
    let backend = Scripted::http(|_| async {
        // Some are always under way.
        tokio::time::sleep(Duration::from_millis(2)).await;
        Response::new(Pieces::whole(vec![b'x'; 1_000]))
    });
    let folder = tempfile::TempDir::new().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, GENEROUS).unwrap();
    let upstream = format!("http://{}", backend.address());
    let rules = rules.to_str().unwrap();
    let mut gateway = Gateway::start(&["--upstream", &upstream, "--rules", rules, "--grace", "300ms"]);
    let to: SocketAddr = gateway.listen.parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tally = Arc::new(Tally::default());
    let clients: Vec<_> =
        (0..8).map(|number| runtime.spawn(client(to, number % 2 == 0, Arc::clone(&tally)))).collect();
    let answered = || tally.answered.load(Ordering::SeqCst);
    wait_for("some load", || (answered() > 200).then_some(()));
    gateway.signal("TERM");
    wait_for("it is unready", || (ask(&gateway.admin, "GET", "/readyz", "").0 == 503).then_some(()));
    let when_unready = answered();
    wait_for("requests after that", || (answered() > when_unready + 8).then_some(()));
    runtime.block_on(async {
        for client in clients {
            client.await.unwrap();
        }
    });
    assert_eq!(gateway.wait(), 0, "{}", gateway.log());
    assert_eq!(tally.broken.load(Ordering::SeqCst), 0);
    // Whoever heard nothing was not listened to either.
    assert_eq!(backend.asked() as u64, answered());
}

#[test]
fn a_slow_answer_is_waited_for() {
    let (finish, finishing) = watch::channel(false);
    let backend = Scripted::http(move |_| {
        let mut finishing = finishing.clone();
        async move {
            let (feeder, body) = Pieces::fed();
            tokio::spawn(async move {
                feeder.give("begun").await;
                finishing.wait_for(|finish| *finish).await.ok();
                feeder.give("ended").await;
            });
            Response::new(body)
        }
    });
    let mut gateway =
        Gateway::start(&["--upstream", &format!("http://{}", backend.address()), "--grace", "10ms"]);
    let mut slow = BufReader::new(begin(&gateway.listen, "GET", "/", 0));
    let mut line = String::new();
    while !line.contains("begun") {
        assert_ne!(slow.read_line(&mut line).unwrap(), 0, "{line}");
    }
    gateway.signal("TERM");
    // From here on the gateway is there for nobody but those who were before.
    wait_for("nobody else is let in", || std::net::TcpStream::connect(&gateway.listen).err());
    finish.send_replace(true);
    let mut rest = String::new();
    slow.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("ended") && rest.ends_with("0\r\n\r\n"), "{rest}");
    assert_eq!(gateway.wait(), 0, "{}", gateway.log());
}
