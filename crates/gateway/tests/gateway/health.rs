//! Which server of a group gets a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Request;
use hyper::body::Incoming;
use tidegate_testkit::{Backend, Pieces, Port, Scripted};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, answer, head_of, says, until};
use crate::support::Setup;

#[tokio::test]
async fn shares_follow_weights() {
    let servers = [Backend::start(), Backend::start()];
    let routes = format!(
        "upstreams: {{it: {{servers: [{{url: 'http://{}', weight: 3}}, 'http://{}']}}}}\nroutes: [{{upstream: it}}]\n",
        servers[0].address(),
        servers[1].address()
    );
    let gateway = Setup::by(&routes).start().await;
    let mut client = Client::http1(gateway.at.listen).await;
    for _ in 0..40 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!((servers[0].requests(), servers[1].requests()), (30, 10));
}

#[tokio::test]
async fn whoever_is_busy_gets_less() {
    let (open, opened) = watch::channel(false);
    let slow = Scripted::http(move |_| {
        let mut opened = opened.clone();
        async move {
            opened.wait_for(|open| *open).await.ok();
            says("slow")
        }
    });
    let fast = Scripted::http(|_| async { says("fast") });
    let routes = format!(
        "upstreams: {{it: {{servers: ['http://{}', 'http://{}'], balance: least_requests}}}}\nroutes: [{{upstream: it}}]\n",
        slow.address(),
        fast.address()
    );
    let gateway = Setup::by(&routes).start().await;
    let at = gateway.at.listen;
    let mut first: JoinSet<_> =
        (0..2).map(|_| async move { Client::http1(at).await.get("/").await.body }).collect();
    until("one of them is busy", async || (slow.asked() == 1).then_some(())).await;
    // While the other request is under way, both servers are as busy.
    assert_eq!(first.join_next().await.unwrap().unwrap(), "fast");
    let mut client = Client::http1(at).await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.body, "fast");
    }
    open.send(true).unwrap();
    assert_eq!(first.join_next().await.unwrap().unwrap(), "slow");
    assert_eq!(slow.asked(), 1);
}

#[tokio::test]
async fn a_dead_server_is_put_aside() {
    let (dead, good) = (Port::claim(), Backend::start());
    let routes = format!(
        "upstreams: {{it: {{servers: ['http://{}', 'http://{}'], passive: {{failures: 2, for: 1h}}}}}}\nroutes: [{{upstream: it}}]\n",
        dead.address(),
        good.address()
    );
    let gateway = Setup::by(&routes).start().await;
    let mut client = Client::http1(gateway.at.listen).await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!(good.requests(), 20);
    let failures = gateway.metric("tidegate_gateway_upstream_failures_total{kind=\"connect\"}").await;
    assert_eq!(failures, Some(2.0), "it was not asked again");
    let up = gateway.metrics("tidegate_gateway_server_up").await;
    assert!(
        up.iter().any(|line| line.contains(&dead.address().to_string()) && line.ends_with(" 0")),
        "{up:?}"
    );
    assert!(
        up.iter().any(|line| line.contains(&good.address().to_string()) && line.ends_with(" 1")),
        "{up:?}"
    );
}

/// A server that is put aside is tried again when its time is over, and is back when that goes well.
#[tokio::test]
async fn a_server_that_recovers_is_used_again() {
    let port = Port::claim();
    let good = Backend::start();
    let routes = format!(
        "upstreams: {{it: {{servers: ['http://{}', 'http://{}'], passive: {{failures: 1, for: 50ms}}}}}}\nroutes: [{{upstream: it}}]\n",
        port.address(),
        good.address()
    );
    let gateway = Setup::by(&routes).start().await;
    let mut client = Client::http1(gateway.at.listen).await;
    for _ in 0..4 {
        assert_eq!(client.get("/").await.status, 200);
    }
    let back = Scripted::bytes_at(Some(port.address()), |mut stream: TcpStream| async move {
        head_of(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nback").await.ok();
    });
    until("it is used again", async || (client.get("/").await.body == "back").then_some(())).await;
    assert!(back.asked() >= 1);
}

#[tokio::test]
async fn checks_take_servers_out_and_bring_them_back() {
    let well = Arc::new(AtomicBool::new(true));
    let (seen, checks) = (Arc::clone(&well), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&checks);
    let moody = Scripted::http(move |request: Request<Incoming>| {
        let (well, check) = (seen.load(Ordering::SeqCst), request.uri().path() == "/healthz");
        if check {
            assert_eq!(request.headers()["user-agent"], "tidegate-health");
            counted.fetch_add(1, Ordering::SeqCst);
        }
        async move { answer(if check && !well { 503 } else { 200 }, Pieces::whole("moody")) }
    });
    let steady = Scripted::http(|_| async { says("steady") });
    let routes = format!(
        "upstreams:\n  it:\n    servers: ['http://{}', 'http://{}']\n    \
         health: {{path: /healthz, every: 50ms, timeout: 10s, unhealthy_after: 2, healthy_after: 2}}\nroutes: [{{upstream: it}}]\n",
        moody.address(),
        steady.address()
    );
    let gateway = Setup::by(&routes).start().await;
    let name = format!("tidegate_gateway_server_up{{upstream=\"it\",server=\"http://{}\"}}", moody.address());
    for (is_well, used) in [(true, 5), (false, 0), (true, 5)] {
        well.store(is_well, Ordering::SeqCst);
        let up = if is_well { 1.0 } else { 0.0 };
        until("it is noticed", async || (gateway.metric(&name).await? == up).then_some(())).await;
        let mut client = Client::http1(gateway.at.listen).await;
        let mut moody = 0;
        for _ in 0..10 {
            moody += usize::from(client.get("/").await.body == "moody");
        }
        assert_eq!(moody, used, "{is_well}");
    }
    assert!(checks.load(Ordering::SeqCst) >= 4);
    // Nobody has to know how many there are to see how they are.
    assert!(gateway.admin("/health").await.status == 200);
}
