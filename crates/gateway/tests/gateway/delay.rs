//! Requests that wait for their turn.

use http::Request;
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::Scripted;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Client, says, until};
use crate::support::Setup;

fn rules(limit: u32, window: &str, delay: &str) -> String {
    format!(
        "rules:\n  - {{rule_id: evenly, identifier_type: global, limit: {limit}, window: {window}, on_limit: delay, max_delay: {delay}}}\n"
    )
}

/// A back end that remembers what it was asked for, in order.
fn remembering() -> (Scripted, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let remembered = Arc::clone(&asked);
    let backend = Scripted::http(move |request: Request<Incoming>| {
        remembered.lock().push(request.uri().path().to_owned());
        async { says("well") }
    });
    (backend, asked)
}

#[tokio::test]
async fn all_are_forwarded_evenly_and_in_order() {
    let (backend, asked) = remembering();
    let gateway = Setup::to(&[backend.address()]).rules(&rules(1, "50ms", "2s")).start().await;
    let start = Instant::now();
    let mut clients = Vec::new();
    for number in 0..16 {
        let at = gateway.at.listen;
        clients.push(tokio::spawn(async move { Client::http1(at).await.get(&format!("/{number}")).await }));
        // Each is in line before the next one comes.
        let waiting = async || {
            let line = gateway.metric("tidegate_waiting").await.unwrap_or_default();
            (asked.lock().len() as f64 + line >= f64::from(number + 1)).then_some(())
        };
        until("it is in line", waiting).await;
    }
    for client in clients {
        let told = client.await.unwrap();
        assert_eq!((told.status, told.body.as_str()), (200, "well"), "{told:?}");
    }
    let expected: Vec<String> = (0..16).map(|number| format!("/{number}")).collect();
    assert_eq!(*asked.lock(), expected);
    // Fifteen had to wait for fifty milliseconds each.
    assert!(start.elapsed() >= Duration::from_millis(700), "{:?}", start.elapsed());
}

#[tokio::test]
async fn who_would_wait_too_long_is_refused_at_once() {
    let (backend, asked) = remembering();
    let gateway = Setup::to(&[backend.address()]).rules(&rules(1, "1h", "2s")).start().await;
    assert_eq!(gateway.get("/first").await.status, 200);
    let told = gateway.get("/second").await;
    assert_eq!(told.status, 429);
    assert_eq!(*asked.lock(), ["/first"]);
}

#[tokio::test]
async fn who_hangs_up_leaves_the_line() {
    let (backend, asked) = remembering();
    let gateway = Setup::to(&[backend.address()]).rules(&rules(1, "3s", "60s")).start().await;
    assert_eq!(gateway.get("/first").await.status, 200);
    let waiting = async |expected: f64| {
        until("as many wait", async || (gateway.metric("tidegate_waiting").await? == expected).then_some(()))
            .await;
    };
    // Three that would have taken nine seconds.
    let mut gone = Vec::new();
    for number in 0..3 {
        let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
        stream.write_all(format!("GET /gone/{number} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
        gone.push(stream);
    }
    waiting(3.0).await;
    gone.clear();
    waiting(0.0).await;
    let told = gateway.get("/last").await;
    assert_eq!(told.status, 200);
    assert_eq!(*asked.lock(), ["/first", "/last"]);
}
