//! One client with very many connections.

use tidegate_testkit::Backend;

use crate::hostile::{Hostile, Then};
use crate::support::Setup;
use crate::wire::{Wire, get};

#[tokio::test]
async fn nobody_gets_more_connections_than_their_share() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()])
        .node(|config| config.connections_per_address = 3)
        .gateway(|config| config.identity.trusted_proxies = vec!["127.0.0.9/32".parse().unwrap()])
        .start()
        .await;
    let mut mine = Vec::new();
    for _ in 0..3 {
        let mut wire = Wire::to(gateway.at.listen).await;
        assert_eq!(wire.ask(get("/mine")).await.unwrap().status, 200);
        mine.push(wire);
    }
    for _ in 0..5 {
        assert!(Wire::to(gateway.at.listen).await.ask(get("/more")).await.is_none(), "it is hung up on");
    }
    let mut other = Wire::from("127.0.0.2", gateway.at.listen).await;
    assert_eq!(other.ask(get("/other")).await.unwrap().status, 200, "others have their own");
    let mut proxied = Vec::new();
    for _ in 0..20 {
        let mut wire = Wire::from("127.0.0.9", gateway.at.listen).await;
        assert_eq!(wire.ask(get("/proxied")).await.unwrap().status, 200, "a proxy comes with many");
        proxied.push(wire);
    }
    for wire in &mut mine {
        assert_eq!(wire.ask(get("/mine")).await.unwrap().status, 200, "what is there stays");
    }
    drop(mine.pop());
    loop {
        // The gateway learns of it in its own time.
        let answer = Wire::to(gateway.at.listen).await.ask(get("/again")).await;
        if let Some(answer) = answer {
            assert_eq!(answer.status, 200);
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_tunnel_takes_a_connections_place() {
    let switched = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let hostile = Hostile::says(switched, Then::Echo).await;
    let gateway =
        Setup::to(&[hostile.address]).node(|config| config.connections_per_address = 3).start().await;
    let ask = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let mut tunnels = Vec::new();
    for _ in 0..3 {
        let mut wire = Wire::to(gateway.at.listen).await;
        assert_eq!(wire.ask(ask).await.unwrap().status, 101);
        tunnels.push(wire);
    }
    assert!(Wire::to(gateway.at.listen).await.ask(ask).await.is_none(), "there is no place left");
    assert_eq!(hostile.connections(), 3);
}
