//! What a request costs is often known when it is answered.

use http::{Request, Response};
use hyper::body::Incoming;
use tidegate_testkit::{Pieces, Port, Redis, Scripted};
use tokio::net::TcpStream;

use crate::client::{head_of, request, until, with_headers};
use crate::store::{on, usable};
use crate::support::{Running, Setup};

const RULES: &str = "
rules:
  - {rule_id: failed_log_ins, identifier_type: ip_address, algorithm: fixed_window, limit: 5, window: 52w,
     charge: {statuses: [401, 403]}, match: {path_pattern: /login, methods: POST}}
  - {rule_id: tokens, identifier_type: ip_address, algorithm: fixed_window, limit: 1000, window: 52w, cost: 500,
     charge: {header: X-Tokens-Used, statuses: 2xx}, match: {path_pattern: /chat}}
  - {rule_id: lost, identifier_type: ip_address, algorithm: fixed_window, limit: 2, window: 52w,
     charge: {statuses: 200-599}, match: {path_pattern: /lost}}
";

/// Answers with the status and the tokens that it is asked for.
pub(crate) fn backend() -> Scripted {
    Scripted::http(|request: Request<Incoming>| async move {
        let asked = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut response =
            Response::builder().status(asked("want-status").map_or(200, |status| status.parse().unwrap()));
        if let Some(tokens) = asked("want-tokens") {
            response = response.header("x-tokens-used", tokens);
        }
        response.body(Pieces::none()).unwrap()
    })
}

async fn log_in(gateway: &Running, outcome: &str) -> u16 {
    gateway.ask(with_headers(request("POST", "/login"), &[("want-status", outcome)])).await.status
}

async fn chat(gateway: &Running, status: &str, tokens: Option<&str>) -> (u16, String) {
    let mut headers = vec![("want-status", status)];
    headers.extend(tokens.map(|tokens| ("want-tokens", tokens)));
    let told = gateway.ask(with_headers(request("GET", "/chat"), &headers)).await;
    (told.status, told.header("x-ratelimit-remaining").unwrap_or_default().to_owned())
}

/// What is told while a request is under way has its hold taken off; what was settled shows with the next one, which may
/// come before that when the store is elsewhere.
async fn chat_finds(gateway: &Running, left: u64) {
    until("it is settled", async || {
        // Asks for nothing: its answer gives everything back.
        let (_, remaining) = chat(gateway, "500", None).await;
        (remaining.parse::<u64>().ok()? + 500 == left).then_some(())
    })
    .await;
}

/// Asks until there is room for what is held: the last request may not be settled yet, and what is refused costs nothing.
async fn chat_passes(gateway: &Running, tokens: &str) {
    until("there is room", async || (chat(gateway, "200", Some(tokens)).await.0 == 200).then_some(())).await;
}

async fn only_failures_count(gateway: &Running) {
    for outcome in ["401", "200", "302", "403", "200", "500", "401", "200", "401"] {
        // Successes that are not settled yet hold some of the limit.
        until("there is room", async || {
            (log_in(gateway, outcome).await.to_string() == outcome).then_some(())
        })
        .await;
    }
    // Four have failed, and each success costs nothing, once that is settled.
    until("successes are settled", async || (log_in(gateway, "200").await == 200).then_some(())).await;
    until("the last failure", async || (log_in(gateway, "401").await == 401).then_some(())).await;
    until("there were five", async || (log_in(gateway, "200").await == 429).then_some(())).await;
    for _ in 0..10 {
        assert_eq!(log_in(gateway, "200").await, 429, "for good");
    }
}

async fn tokens_count(gateway: &Running) {
    assert_eq!(chat(gateway, "200", Some("120")).await, (200, "500".to_owned()), "500 until it is known");
    chat_finds(gateway, 880).await;
    chat_passes(gateway, "0").await;
    chat_finds(gateway, 880).await;
    // More than was held.
    chat_passes(gateway, "700").await;
    until("there is too little left", async || {
        (chat(gateway, "200", Some("0")).await.0 == 429).then_some(())
    })
    .await;
}

#[tokio::test]
async fn in_memory() {
    let backend = backend();
    let gateway = Setup::to(&[backend.address()]).rules(RULES).start().await;
    only_failures_count(&gateway).await;
    tokens_count(&gateway).await;
}

#[tokio::test]
async fn in_redis() {
    let (redis, backend) = (Redis::start(), backend());
    let gateway = Setup::to(&[backend.address()]).rules(RULES).node(on(&redis)).start().await;
    usable(&gateway, "/chat").await;
    only_failures_count(&gateway).await;
    tokens_count(&gateway).await;
}

/// Whatever a server was sent, it may have done.
#[tokio::test]
async fn what_is_held_for_a_lost_answer_is_charged() {
    let dies = Scripted::bytes(|mut stream: TcpStream| async move {
        head_of(&mut stream).await;
    });
    let redis = Redis::start();
    for shared in [false, true] {
        let mut setup = Setup::to(&[dies.address()]).rules(RULES);
        if shared {
            setup = setup.node(on(&redis));
        }
        let gateway = setup.start().await;
        usable(&gateway, "/lost").await;
        let asked = dies.asked();
        for _ in 0..2 {
            assert_eq!(gateway.ask(request("POST", "/lost")).await.status, 502);
        }
        for _ in 0..10 {
            assert_eq!(gateway.ask(request("POST", "/lost")).await.status, 429);
        }
        assert_eq!(dies.asked(), asked + 2);
    }
}

#[tokio::test]
async fn what_is_held_for_a_request_that_no_server_was_sent_is_given_back() {
    let nobody = Port::claim();
    let redis = Redis::start();
    for shared in [false, true] {
        let mut setup = Setup::to(&[nobody.address()]).rules(RULES);
        if shared {
            setup = setup.node(on(&redis));
        }
        let gateway = setup.start().await;
        usable(&gateway, "/lost").await;
        for _ in 0..10 {
            until("the last one is given back", async || {
                let told = gateway.ask(request("POST", "/lost")).await;
                assert!(told.status == 502 || told.status == 429, "{told:?}");
                (told.status == 502).then_some(())
            })
            .await;
        }
    }
}
