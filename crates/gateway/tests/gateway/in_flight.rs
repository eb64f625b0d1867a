//! Rules that limit how many requests of a client are in flight.

use futures_util::{SinkExt, StreamExt};
use http::Request;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate_testkit::{Pieces, Scripted};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_tungstenite::{accept_async, connect_async};

use crate::client::{Client, Told, answer, request, says, until};
use crate::hanging_up::leave;
use crate::overload::{gated, occupy};
use crate::support::{Running, Setup};

/// Longer than any test lasts: slots come back because they are given back.
fn rules(limit: u32) -> String {
    format!(
        "rules: [{{rule_id: at_once, identifier_type: ip_address, algorithm: in_flight, limit: {limit}, hold_for: 1h}}]\n"
    )
}

async fn gateway(upstream: &Scripted, limit: u32) -> Running {
    Setup::to(&[upstream.address()]).rules(&rules(limit)).start().await
}

/// Returns when a request is served again.
async fn served_again(gateway: &Running) {
    until("a slot is free", async || (gateway.get("/").await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_until_others_are_over() {
    let (upstream, open) = gated();
    let gateway = gateway(&upstream, 2).await;
    let first = [occupy(&gateway, &upstream, "a").await, occupy(&gateway, &upstream, "b").await];
    let refused = gateway.get("/").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{refused:?}");
    assert_eq!(refused.json()["message"], "You have 2 requests in flight. Limit is 2 at once.");
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    open.send(true).unwrap();
    for task in first {
        assert_eq!(task.await.unwrap().status, 200);
    }
    served_again(&gateway).await;
    assert_eq!(upstream.asked(), 3);
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_response_is_over() {
    let (feeder, body) = Pieces::fed();
    let body = Mutex::new(Some(body));
    let upstream = Scripted::http(move |_: Request<Incoming>| {
        let pieces = body.lock().take().unwrap_or_else(Pieces::none);
        async move { answer(200, pieces) }
    });
    let gateway = gateway(&upstream, 1).await;
    let mut client = Client::http1(gateway.at.listen).await;
    let head = client.send(request("GET", "/")).await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(gateway.get("/").await.status, 429);
    drop(feeder);
    Told::of(head).await.unwrap();
    served_again(&gateway).await;
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_response_gives_its_slot_back() {
    let (feeder, body) = Pieces::fed();
    let body = Mutex::new(Some(body));
    let upstream = Scripted::http(move |_: Request<Incoming>| {
        let pieces = body.lock().take().unwrap_or_else(Pieces::none);
        async move { answer(200, pieces) }
    });
    let gateway = gateway(&upstream, 1).await;
    let mut client = Client::http1(gateway.at.listen).await;
    let head = client.send(request("GET", "/")).await.unwrap();
    assert_eq!(gateway.get("/").await.status, 429);
    drop((head, client));
    served_again(&gateway).await;
    drop(feeder);
}

/// A server still works for a request whose client has gone: hanging up makes no room for another.
#[tokio::test]
async fn a_client_that_leaves_before_the_response_keeps_its_slot() {
    let (upstream, open) = gated();
    let gateway = gateway(&upstream, 1).await;
    let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: api.example\r\n\r\n").await.unwrap();
    until("it is forwarded", async || (upstream.asked() == 1).then_some(())).await;
    leave(stream).await;
    for _ in 0..5 {
        assert_eq!(gateway.get("/").await.status, 429);
    }
    assert_eq!(upstream.asked(), 1);
    open.send(true).unwrap();
    served_again(&gateway).await;
}

#[tokio::test]
async fn a_tunnel_keeps_its_slot_until_it_closes() {
    let upstream = Scripted::bytes(|stream: TcpStream| async move {
        let Ok(mut socket) = accept_async(stream).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            socket.send(message).await.ok();
        }
    });
    let gateway = gateway(&upstream, 1).await;
    let url = format!("ws://{}/", gateway.at.listen);
    let (mut socket, upgraded) = connect_async(&url).await.unwrap();
    assert_eq!(upgraded.status(), 101);
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("hello"));
    assert!(connect_async(&url).await.is_err(), "another is refused");
    drop(socket);
    until("another is admitted", async || connect_async(&url).await.ok().map(drop)).await;
}

#[tokio::test]
async fn requests_without_a_response_of_a_server_give_their_slots_back() {
    let upstream = Scripted::http(|_| async { says("served") });
    let gone = upstream.address();
    drop(upstream);
    let gateway = Setup::to(&[gone]).rules(&rules(1)).start().await;
    for _ in 0..4 {
        let failed = gateway.get("/").await.status;
        assert!([502, 503].contains(&failed), "{failed}");
    }
}

#[tokio::test]
async fn responses_without_a_body_give_their_slots_back() {
    let upstream = Scripted::http(|_| async { answer(204, Pieces::none()) });
    let gateway = gateway(&upstream, 1).await;
    for method in ["GET", "HEAD", "DELETE", "GET"] {
        assert_eq!(gateway.ask(request(method, "/")).await.status, 204, "{method}");
    }
}
