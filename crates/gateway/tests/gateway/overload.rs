//! Limits on requests in flight at an upstream.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::Request;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tempfile::TempDir;
use tidegate_gateway::{AccessLogTarget, GatewayConfig};
use tidegate_testkit::{Pieces, Scripted};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_tungstenite::{accept_async, connect_async};

use crate::client::{Client, Told, answer, request, says, until, with_headers};
use crate::hanging_up::leave;
use crate::reload::{following, put};
use crate::support::{GENEROUS, Running, Setup};

const IN_FLIGHT: &str = "tidegate_in_flight{upstream=\"api\"}";

fn routes(upstream: &Scripted, concurrency: &str) -> String {
    format!(
        "upstreams: {{api: {{servers: 'http://{}', concurrency: {concurrency}, response_timeout: 30s}}}}\n\
         routes: [{{upstream: api, retries: 0}}]\n",
        upstream.address()
    )
}

/// An upstream that responds to nothing before it is opened.
pub(crate) fn gated() -> (Scripted, watch::Sender<bool>) {
    let (open, gate) = watch::channel(false);
    let upstream = Scripted::http(move |_: Request<Incoming>| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.ok();
            says("served")
        }
    });
    (upstream, open)
}

/// Sends a request that reaches the upstream and stays there.
pub(crate) async fn occupy(gateway: &Running, upstream: &Scripted, user: &'static str) -> JoinHandle<Told> {
    let (at, before) = (gateway.at.listen, upstream.asked());
    let task = tokio::spawn(async move { ask_as(at, user).await });
    until("it is forwarded or answered", async || {
        (upstream.asked() > before || task.is_finished()).then_some(())
    })
    .await;
    if task.is_finished() {
        panic!("answered instead of forwarded: {:?}", task.await);
    }
    task
}

async fn ask_as(at: std::net::SocketAddr, user: &str) -> Told {
    Client::http1(at).await.ask(with_headers(request("GET", "/"), &[("x-user-id", user)])).await
}

async fn in_flight(gateway: &Running, expected: f64) {
    until("as many are in flight", async || (gateway.metric(IN_FLIGHT).await? == expected).then_some(()))
        .await;
}

#[tokio::test]
async fn requests_beyond_the_limit_are_shed_and_count_for_no_rule() {
    let (upstream, open) = gated();
    let rules =
        "rules: [{rule_id: few, identifier_type: global, algorithm: fixed_window, limit: 4, window: 52w}]\n";
    let log = TempDir::new().unwrap();
    let path = log.path().join("access.jsonl");
    let gateway = Setup::by(&routes(&upstream, "{limit: 2, headroom: {}}"))
        .rules(rules)
        .gateway(|config| config.access_log = Some(AccessLogTarget::File(path.clone())))
        .start()
        .await;
    let first = [occupy(&gateway, &upstream, "a").await, occupy(&gateway, &upstream, "b").await];
    in_flight(&gateway, 2.0).await;
    let mut retries = Vec::new();
    for _ in 0..6 {
        let shed = gateway.get("/").await;
        assert_eq!((shed.status, shed.json()["error"].as_str()), (503, Some("overloaded")), "{shed:?}");
        assert_eq!(shed.header("retry-after").unwrap(), shed.json()["retry_after"].to_string());
        retries.push(shed.json()["retry_after"].as_u64().unwrap());
    }
    retries.sort_unstable();
    assert_eq!(retries, [1, 1, 2, 2, 3, 3], "clients do not all come back at once");
    assert_eq!(gateway.metric("tidegate_shed_total{tier=\"other\",reason=\"in_flight\"}").await, Some(6.0));
    assert_eq!(gateway.metric("tidegate_in_flight_limit{upstream=\"api\"}").await, Some(2.0));
    open.send(true).unwrap();
    for task in first {
        assert_eq!(task.await.unwrap().status, 200);
    }
    in_flight(&gateway, 0.0).await;
    let third = gateway.get("/").await;
    assert_eq!((third.status, third.header("x-ratelimit-remaining")), (200, Some("1")), "the third of four");
    let status = gateway.admin("/v1/status").await.json();
    let concurrency = &status["gateway"]["upstreams"][0]["concurrency"];
    assert_eq!((&concurrency["limit"], &concurrency["in_flight"]), (&2.into(), &0.into()));
    assert_eq!(concurrency["shed"]["other"], 6);
    let logged = async || {
        let lines = std::fs::read_to_string(&path).ok()?;
        ["\"decision\":\"shed\"", "\"error\":\"overloaded\""]
            .iter()
            .all(|it| lines.matches(it).count() == 6)
            .then_some(())
    };
    until("they are in the access log", logged).await;
}

#[tokio::test]
async fn lower_tiers_leave_headroom_for_higher_ones() {
    let (upstream, open) = gated();
    let rules = "
plans: {PREMIUM: 3, FREE: 1}
users: {alice: PREMIUM}
tenants: {acme: premium}
rules: [{rule_id: all, identifier_type: user_id, base_limit: 1000, window: 1m}]
";
    let document = routes(&upstream, "{limit: 4, headroom: {free: 50%, premium: 100%}}");
    let trusting =
        |config: &mut GatewayConfig| config.identity.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let gateway = Setup::by(&document).rules(rules).gateway(trusting).start().await;
    let mut served = Vec::new();
    for user in ["bob", "mallory"] {
        served.push(occupy(&gateway, &upstream, user).await);
    }
    let shed = ask_as(gateway.at.listen, "bob").await;
    assert_eq!(shed.status, 503, "{shed:?}");
    served.push(occupy(&gateway, &upstream, "alice").await);
    let of_tenant = with_headers(request("GET", "/"), &[("x-user-id", "eve"), ("x-tenant-id", "acme")]);
    let (at, asked) = (gateway.at.listen, upstream.asked());
    served.push(tokio::spawn(async move { Client::http1(at).await.ask(of_tenant).await }));
    until("the tenant's plan counts", async || (upstream.asked() > asked).then_some(())).await;
    assert_eq!(ask_as(gateway.at.listen, "alice").await.status, 503, "the limit is the limit");
    assert_eq!(gateway.metric("tidegate_shed_total{tier=\"free\",reason=\"in_flight\"}").await, Some(1.0));
    assert_eq!(gateway.metric("tidegate_shed_total{tier=\"premium\",reason=\"in_flight\"}").await, Some(1.0));
    open.send(true).unwrap();
    for task in served {
        assert_eq!(task.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn clients_that_leave_free_their_room() {
    let (upstream, open) = gated();
    let gateway = Setup::by(&routes(&upstream, "1")).start().await;
    let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: api.example\r\n\r\n").await.unwrap();
    in_flight(&gateway, 1.0).await;
    assert_eq!(gateway.get("/").await.status, 503);
    leave(stream).await;
    in_flight(&gateway, 0.0).await;
    open.send(true).unwrap();
    assert_eq!(gateway.get("/").await.status, 200);
}

#[tokio::test]
async fn requests_that_time_out_free_their_room() {
    let (upstream, _open) = gated();
    let document = routes(&upstream, "1").replace("30s", "100ms");
    let gateway = Setup::by(&document).start().await;
    for _ in 0..3 {
        assert_eq!(gateway.get("/").await.status, 504);
        in_flight(&gateway, 0.0).await;
    }
}

#[tokio::test]
async fn a_response_is_in_flight_until_its_body_is_over() {
    let (feeder, body) = Pieces::fed();
    let body = Mutex::new(Some(body));
    let upstream = Scripted::http(move |_: Request<Incoming>| {
        let pieces = body.lock().take().unwrap_or_else(Pieces::none);
        async move { answer(200, pieces) }
    });
    let gateway = Setup::by(&routes(&upstream, "1")).start().await;
    let mut client = Client::http1(gateway.at.listen).await;
    let head = client.send(request("GET", "/")).await.unwrap();
    assert_eq!(head.status(), 200);
    in_flight(&gateway, 1.0).await;
    assert_eq!(gateway.get("/").await.status, 503);
    drop(feeder);
    Told::of(head).await.unwrap();
    in_flight(&gateway, 0.0).await;
    assert_eq!(gateway.get("/").await.status, 200);
}

#[tokio::test]
async fn tunnels_take_no_room() {
    let upstream = Scripted::bytes(|stream: TcpStream| async move {
        let Ok(mut socket) = accept_async(stream).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            socket.send(message).await.ok();
        }
    });
    let gateway = Setup::by(&routes(&upstream, "1")).start().await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let (mut socket, answer) = connect_async(format!("ws://{}/", gateway.at.listen)).await.unwrap();
        assert_eq!(answer.status(), 101);
        socket.send(Message::text("hello")).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("hello"));
        sockets.push(socket);
    }
    assert_eq!(gateway.metric(IN_FLIGHT).await, Some(0.0));
}

/// A request that waits for its turn is not in flight: others are served meanwhile.
#[tokio::test]
async fn requests_that_wait_for_their_turn_take_no_room() {
    let upstream = Scripted::http(|_| async { says("served") });
    let rules = "rules:
  - {rule_id: slow, identifier_type: global, limit: 1, window: 1m, on_limit: delay, max_delay: 1m, match: {path_pattern: /slow}}
";
    let gateway = Setup::by(&routes(&upstream, "1")).rules(rules).start().await;
    assert_eq!(gateway.get("/slow").await.status, 200);
    let at = gateway.at.listen;
    let waiting = tokio::spawn(async move { Client::http1(at).await.get("/slow").await });
    until("it waits", async || (gateway.metric("tidegate_waiting").await? == 1.0).then_some(())).await;
    assert_eq!(gateway.metric(IN_FLIGHT).await, Some(0.0));
    assert_eq!(gateway.get("/fast").await.status, 200);
    waiting.abort();
}

#[tokio::test]
async fn what_is_in_flight_is_known_after_routes_change() {
    let (upstream, open) = gated();
    let folder = TempDir::new().unwrap();
    put(&folder.path().join("rules.yaml"), GENEROUS);
    let file = folder.path().join("routes.yaml");
    put(&file, &routes(&upstream, "1"));
    let gateway = following(&folder).await;
    let served = occupy(&gateway, &upstream, "a").await;
    put(&file, &routes(&upstream, "1").replace("30s", "31s").replace("retries: 0", "retries: 1, path: /**"));
    until("the new routes are in use", async || {
        let status = gateway.admin("/v1/status").await.json();
        (status["gateway"]["routes"] == 1 && gateway.metric(IN_FLIGHT).await == Some(1.0)).then_some(())
    })
    .await;
    assert_eq!(gateway.get("/").await.status, 503);
    open.send(true).unwrap();
    assert_eq!(served.await.unwrap().status, 200);
    // Another limit begins with nothing in flight.
    put(&file, &routes(&upstream, "7"));
    let limit = async || gateway.metric("tidegate_in_flight_limit{upstream=\"api\"}").await;
    until("the new limit is in use", async || (limit().await? == 7.0).then_some(())).await;
}

#[tokio::test]
async fn an_adaptive_limit_learns_from_responses() {
    let upstream = Scripted::http(|_| async {
        tokio::time::sleep(Duration::from_millis(2)).await;
        says("served")
    });
    let gateway = Setup::by(&routes(&upstream, "adaptive")).start().await;
    let mut client = Client::http1(gateway.at.listen).await;
    let base = async || {
        assert_eq!(client.get("/").await.status, 200);
        let status = gateway.admin("/v1/status").await.json();
        status["gateway"]["upstreams"][0]["concurrency"]["base_latency_ms"].as_f64()
    };
    assert!(until("it has a base latency", base).await >= 1.9);
}
