//! WebSocket through the gateway.

use futures_util::{SinkExt, StreamExt};
use tidegate_testkit::Scripted;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, accept_async, client_async, connect_async};

use crate::client::until;
use crate::support::{DEADLINE, Running, Setup};

const OPEN: &str = "tidegate_gateway_tunnels";

/// Says everything again; ends when it hears `bye`.
fn echo() -> Scripted {
    Scripted::bytes(|stream: TcpStream| async move {
        let Ok(mut socket) = accept_async(stream).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            if message == Message::text("bye") {
                let why = CloseFrame { code: CloseCode::Normal, reason: "as you wish".into() };
                socket.close(Some(why)).await.ok();
            } else if message.is_text() || message.is_binary() {
                socket.send(message).await.ok();
            }
        }
    })
}

async fn connect(gateway: &Running) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
    let (socket, answer) = connect_async(format!("ws://{}/chat", gateway.at.listen)).await.unwrap();
    assert_eq!(answer.status(), 101);
    assert!(answer.headers().contains_key("x-ratelimit-remaining"), "{answer:?}");
    socket
}

async fn next(socket: &mut WebSocketStream<MaybeTlsStream<TcpStream>>) -> Option<Message> {
    timeout(DEADLINE, socket.next()).await.expect("something comes in time").and_then(Result::ok)
}

async fn open(gateway: &Running, expected: f64) {
    until("as many are open", async || (gateway.metric(OPEN).await? == expected).then_some(())).await;
}

#[tokio::test]
async fn messages_pass_both_ways_until_either_side_closes() {
    let backend = echo();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let mut ours = connect(&gateway).await;
    let mut theirs = connect(&gateway).await;
    open(&gateway, 2.0).await;
    let large = Message::binary(vec![7; 300_000]);
    for message in [Message::text("hello"), large, Message::text("")] {
        for socket in [&mut ours, &mut theirs] {
            socket.send(message.clone()).await.unwrap();
            assert_eq!(next(socket).await.as_ref(), Some(&message));
        }
    }
    // The client ends one, the back end the other.
    ours.close(None).await.unwrap();
    while next(&mut ours).await.is_some() {}
    drop(ours);
    open(&gateway, 1.0).await;
    theirs.send(Message::text("bye")).await.unwrap();
    let Some(Message::Close(Some(why))) = next(&mut theirs).await else { panic!("no reason was given") };
    assert_eq!(why.reason.as_str(), "as you wish");
    while next(&mut theirs).await.is_some() {}
    drop(theirs);
    open(&gateway, 0.0).await;
}

#[tokio::test]
async fn who_just_hangs_up_is_gone_at_the_other_end() {
    let backend = echo();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let socket = connect(&gateway).await;
    open(&gateway, 1.0).await;
    drop(socket);
    open(&gateway, 0.0).await;
    let mut socket = connect(&gateway).await;
    drop(backend);
    assert!(next(&mut socket).await.is_none());
    drop(socket);
    open(&gateway, 0.0).await;
}

#[tokio::test]
async fn too_many_are_refused_before_they_are_sockets() {
    let backend = echo();
    let rules = "rules:\n  - {rule_id: one, identifier_type: ip_address, limit: 1, window: 1h, algorithm: fixed_window}\n";
    let gateway = Setup::to(&[backend.address()]).rules(rules).start().await;
    let _first = connect(&gateway).await;
    let stream = TcpStream::connect(gateway.at.listen).await.unwrap();
    let refused = client_async("ws://api.example/chat", stream).await.unwrap_err();
    let tokio_tungstenite::tungstenite::Error::Http(answer) = refused else { panic!("{refused}") };
    assert_eq!(answer.status(), 429);
    assert_eq!(backend.asked(), 1);
}

#[tokio::test]
async fn a_silent_one_is_closed() {
    let backend = echo();
    let routes = format!(
        "upstreams: {{it: {{servers: 'http://{}', idle_timeout: 1s}}}}\nroutes: [{{upstream: it}}]\n",
        backend.address()
    );
    let gateway = Setup::by(&routes).start().await;
    let mut socket = connect(&gateway).await;
    // For longer than it may be silent.
    for _ in 0..8 {
        socket.send(Message::text("still here")).await.unwrap();
        assert_eq!(next(&mut socket).await, Some(Message::text("still here")));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert!(next(&mut socket).await.is_none(), "nothing was said, so nothing came but the end");
    open(&gateway, 0.0).await;
}

#[tokio::test]
async fn the_end_of_the_gateway_is_theirs() {
    let backend = echo();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let mut socket = connect(&gateway).await;
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(next(&mut socket).await, Some(Message::text("hello")));
    gateway.stop().await.unwrap();
    assert!(next(&mut socket).await.is_none());
}
