//! A client that hangs up does not get around what its request is charged.

use std::time::{Duration, Instant};

use http::Request;
use hyper::body::Incoming;
use tidegate_testkit::{Pieces, Redis, Scripted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::{Client, answer, request, until};
use crate::store::{on, usable};
use crate::support::{DEADLINE, Running, Setup};

const LIMIT: usize = 5;

const RULES: &str = "
rules:
  - {rule_id: failed_log_ins, identifier_type: ip_address, algorithm: fixed_window, limit: 5, window: 52w,
     charge: {statuses: [401, 403]}, match: {path_pattern: /login}}
";

/// Longer than [`EXPIRING`] says that a hold lasts.
const EXPIRED: Duration = Duration::from_millis(1_100);

const EXPIRING: &str = "
rules:
  - {rule_id: failed_log_ins, identifier_type: ip_address, algorithm: fixed_window, limit: 5, window: 52w,
     charge: {statuses: [401, 403], within: 1s}, match: {path_pattern: /login}}
";

/// Returns a back end that does not answer before it is told with which status.
fn gated() -> (Scripted, watch::Sender<Option<u16>>) {
    let (open, gate) = watch::channel(None);
    let backend = Scripted::http(move |_: Request<Incoming>| {
        let mut gate = gate.clone();
        async move {
            let status = gate.wait_for(Option::is_some).await.ok().and_then(|status| *status);
            answer(status.unwrap_or(500), Pieces::none())
        }
    });
    (backend, open)
}

fn routes(backend: &Scripted, response_timeout: &str) -> String {
    format!(
        "routes: [{{upstream: 'http://{}', response_timeout: {response_timeout}, retries: 0}}]\n",
        backend.address()
    )
}

async fn log_in(gateway: &Running) -> u16 {
    gateway.ask(request("POST", "/login")).await.status
}

/// Sends a log-in and hangs up as soon as that has reached the back end. Returns whether it did; if not, it was answered.
async fn hang_up(gateway: &Running, backend: &Scripted) -> bool {
    let asked = backend.asked();
    let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
    stream
        .write_all(b"POST /login HTTP/1.1\r\nhost: api.example\r\ncontent-length: 0\r\n\r\n")
        .await
        .unwrap();
    let forwarded = reached(backend, asked, &stream).await;
    leave(stream).await;
    forwarded
}

/// Hangs up, and returns once the other side has noticed.
pub(crate) async fn leave(mut stream: TcpStream) {
    stream.shutdown().await.ok();
    timeout(DEADLINE, stream.read_to_end(&mut Vec::new())).await.expect("it is noticed").ok();
}

async fn reached(backend: &Scripted, asked: usize, stream: &TcpStream) -> bool {
    until("it is forwarded or answered", async || {
        let forwarded = backend.asked() > asked;
        (forwarded || stream.try_read(&mut [0]).is_ok()).then_some(forwarded)
    })
    .await
}

/// Does the same by resetting a stream of an HTTP/2 connection.
async fn reset(client: &Client, backend: &Scripted) -> bool {
    let Client::Two(send) = client else { unreachable!("only HTTP/2 resets streams") };
    let (asked, mut send) = (backend.asked(), send.clone());
    let asking = tokio::spawn(async move { send.send_request(request("POST", "/login")).await.map(drop) });
    let forwarded = until("it is forwarded or answered", async || {
        let forwarded = backend.asked() > asked;
        (forwarded || asking.is_finished()).then_some(forwarded)
    })
    .await;
    asking.abort();
    forwarded
}

async fn hang_up_often(gateway: &Running, backend: &Scripted) {
    for _ in 0..4 * LIMIT {
        hang_up(gateway, backend).await;
    }
    assert_eq!(backend.asked(), LIMIT);
}

async fn refuses_from_now_on(gateway: &Running) {
    for _ in 0..10 {
        assert_eq!(log_in(gateway).await, 429);
    }
}

#[tokio::test]
async fn every_guess_that_was_forwarded_counts() {
    let (backend, open) = gated();
    let gateway = Setup::to(&[backend.address()]).rules(RULES).start().await;
    hang_up_often(&gateway, &backend).await;
    open.send(Some(401)).unwrap();
    refuses_from_now_on(&gateway).await;
}

#[tokio::test]
async fn every_stream_that_was_reset_counts() {
    let (backend, open) = gated();
    let gateway = Setup::to(&[backend.address()]).rules(RULES).start().await;
    let client = Client::http2(gateway.at.listen).await;
    for _ in 0..4 * LIMIT {
        reset(&client, &backend).await;
    }
    assert_eq!(backend.asked(), LIMIT);
    open.send(Some(401)).unwrap();
    refuses_from_now_on(&gateway).await;
}

#[tokio::test]
async fn in_redis_too() {
    let (redis, (backend, open)) = (Redis::start(), gated());
    let gateway = Setup::to(&[backend.address()]).rules(RULES).node(on(&redis)).start().await;
    usable(&gateway, "/login").await;
    hang_up_often(&gateway, &backend).await;
    open.send(Some(401)).unwrap();
    refuses_from_now_on(&gateway).await;
}

#[tokio::test]
async fn a_response_that_costs_nothing_gives_back_what_was_held() {
    let (backend, open) = gated();
    let gateway = Setup::to(&[backend.address()]).rules(RULES).start().await;
    hang_up_often(&gateway, &backend).await;
    assert_eq!(log_in(&gateway).await, 429);
    open.send(Some(200)).unwrap();
    until("it is given back", async || (log_in(&gateway).await == 200).then_some(())).await;
}

#[tokio::test]
async fn without_a_response_what_was_held_is_charged() {
    let (backend, open) = gated();
    let gateway = Setup::by(&routes(&backend, "100ms")).rules(EXPIRING).start().await;
    hang_up_often(&gateway, &backend).await;
    let held = Instant::now();
    until("none is waited for any more", async || {
        let late = gateway.metric("tidegate_gateway_upstream_failures_total{kind=\"timeout\"}").await;
        (late == Some(5.0)).then_some(())
    })
    .await;
    until("nothing could still be held", async || (held.elapsed() > EXPIRED).then_some(())).await;
    open.send(Some(200)).unwrap();
    refuses_from_now_on(&gateway).await;
}

/// Whoever delays the response, by sending slowly, does not outlast what is held.
#[tokio::test]
async fn a_hold_is_charged_before_it_expires() {
    let (backend, open) = gated();
    let gateway = Setup::to(&[backend.address()]).rules(EXPIRING).start().await;
    let mut slow = Vec::new();
    for _ in 0..LIMIT {
        let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
        let head = "POST /login HTTP/1.1\r\nhost: api.example\r\ncontent-length: 10\r\n\r\nuser=";
        let asked = backend.asked();
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(reached(&backend, asked, &stream).await);
        slow.push(stream);
    }
    let held = Instant::now();
    until("nothing could still be held", async || (held.elapsed() > EXPIRED).then_some(())).await;
    open.send(Some(200)).unwrap();
    refuses_from_now_on(&gateway).await;
}

/// Neither those that were hung up on nor those that are still waited for.
#[tokio::test]
async fn the_end_of_a_gateway_gives_nothing_back() {
    let (redis, (backend, open)) = (Redis::start(), gated());
    let start = async || {
        let setup = Setup::to(&[backend.address()]).rules(EXPIRING).node(on(&redis));
        let gateway = setup.node(|node| node.drain = Duration::from_millis(10)).start().await;
        usable(&gateway, "/login").await;
        gateway
    };
    let gateway = start().await;
    assert!(hang_up(&gateway, &backend).await && hang_up(&gateway, &backend).await);
    let client = Client::http2(gateway.at.listen).await;
    assert!(reset(&client, &backend).await);
    let at = gateway.at.listen;
    for _ in 0..2 {
        let asked = backend.asked();
        tokio::spawn(async move { Client::http1(at).await.send(request("POST", "/login")).await.map(drop) });
        until("it is under way", async || (backend.asked() > asked).then_some(())).await;
    }
    let held = Instant::now();
    assert!(gateway.stop().await.is_err(), "some were not finished");
    until("nothing could still be held", async || (held.elapsed() > EXPIRED).then_some(())).await;
    open.send(Some(200)).unwrap();
    refuses_from_now_on(&start().await).await;
}

#[tokio::test]
async fn what_goes_on_keeps_its_connections_place() {
    let (backend, open) = gated();
    let setup = Setup::to(&[backend.address()])
        .rules(RULES)
        .node(|config| config.connections_per_address = 3)
        .gateway(|config| config.identity.trusted_proxies = Vec::new());
    let gateway = setup.start().await;
    for _ in 0..3 {
        assert!(hang_up(&gateway, &backend).await);
    }
    for _ in 0..5 {
        assert!(!hang_up(&gateway, &backend).await, "there is no room for another connection");
    }
    assert_eq!(backend.asked(), 3);
    open.send(Some(200)).unwrap();
    until("there is room again", async || hang_up(&gateway, &backend).await.then_some(())).await;
}

#[tokio::test]
async fn what_goes_on_keeps_its_streams_place() {
    let (backend, open) = gated();
    let gateway =
        Setup::to(&[backend.address()]).rules(RULES).gateway(|config| config.max_streams = 2).start().await;
    let mut client = Client::http2(gateway.at.listen).await;
    for _ in 0..2 {
        assert!(reset(&client, &backend).await);
    }
    for _ in 0..2 * LIMIT {
        let told = client.ask(request("POST", "/login")).await;
        assert_eq!((told.status, &told.json()["error"]), (503, &"too_many_abandoned".into()));
        assert_eq!(told.header("retry-after"), Some("1"));
    }
    assert_eq!(backend.asked(), 2);
    open.send(Some(200)).unwrap();
    until("there is room again", async || {
        (client.ask(request("POST", "/login")).await.status == 200).then_some(())
    })
    .await;
}
