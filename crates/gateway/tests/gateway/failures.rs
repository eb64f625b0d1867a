//! Back ends that are down, slow, or break off: what clients hear, and what is tried again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tidegate_testkit::{Backend, Pieces, Port, Scripted};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Client, answer, head_of, request, says, with_body};
use crate::support::Setup;

/// Hears a request and hangs up without a word.
fn hangs_up() -> Scripted {
    Scripted::bytes(|mut stream: TcpStream| async move {
        head_of(&mut stream).await;
    })
}

/// In this order, and back to the first only when all were asked; nobody is put aside.
fn in_turn(servers: &[SocketAddr], more: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|server| format!("'http://{server}'")).collect();
    format!(
        "upstreams: {{it: {{servers: [{}], passive: off, response_timeout: 20s}}}}\nroutes: [{{upstream: it{more}}}]\n",
        servers.join(", ")
    )
}

#[tokio::test]
async fn nobody_there() {
    let down = Port::claim();
    let gateway = Setup::to(&[down.address()]).start().await;
    for method in ["GET", "POST"] {
        let told = gateway.ask(request(method, "/")).await;
        assert_eq!((told.status, &told.json()["error"]), (502, &"bad_gateway".into()));
        assert_eq!(told.header("x-ratelimit-limit"), Some("1000000"), "it was counted: {told:?}");
    }
}

#[tokio::test]
async fn nowhere_to_go() {
    let backend = Backend::start();
    let routes = format!(
        "routes: [{{host: api.example, path: /orders/*, methods: GET, upstream: 'http://{}'}}]\n",
        backend.address()
    );
    let gateway = Setup::by(&routes).start().await;
    assert_eq!(gateway.get("/orders/7").await.status, 200);
    for (method, path) in [("GET", "/other"), ("POST", "/orders/7"), ("GET", "/")] {
        let told = gateway.ask(request(method, path)).await;
        assert_eq!((told.status, &told.json()["error"]), (404, &"no_route".into()), "{method} {path}");
    }
    let elsewhere = Request::builder().uri("http://other.example/orders/7").body(Pieces::none()).unwrap();
    assert_eq!(gateway.ask(elsewhere).await.status, 404);
    assert_eq!(backend.requests(), 1);
}

#[tokio::test]
async fn a_back_end_that_never_answers_is_given_up() {
    let silent = Scripted::http(|_| std::future::pending());
    let routes = in_turn(&[silent.address()], ", response_timeout: 100ms");
    let gateway = Setup::by(&routes).start().await;
    for ask in [request("GET", "/"), with_body("POST", "/", Pieces::whole("words"))] {
        let told = gateway.ask(ask).await;
        assert_eq!((told.status, &told.json()["error"]), (504, &"gateway_timeout".into()));
    }
    assert_eq!(silent.asked(), 2, "what may have been done is not done again");
    assert_eq!(gateway.metric("tidegate_gateway_upstream_failures_total{kind=\"timeout\"}").await, Some(2.0));
}

/// As long as its body gets on, a request is not late.
#[tokio::test]
async fn a_slow_upload_is_no_slow_answer() {
    let backend = Scripted::http(|request: Request<Incoming>| async {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        answer(200, Pieces::whole(body))
    });
    let routes = in_turn(&[backend.address()], ", response_timeout: 1s");
    let gateway = Setup::by(&routes).start().await;
    let (feeder, body) = Pieces::fed();
    let mut client = Client::http1(gateway.at.listen).await;
    let asking = tokio::spawn(async move { client.ask(with_body("POST", "/", body)).await });
    let pause = std::time::Duration::from_millis(200);
    for _ in 0..8 {
        assert!(feeder.give("x").await, "it is still wanted");
        tokio::time::sleep(pause).await;
    }
    drop(feeder);
    let told = asking.await.unwrap();
    assert_eq!((told.status, told.body.as_str()), (200, "xxxxxxxx"));
}

/// An answer may take as long as it likes while something comes.
#[tokio::test]
async fn an_answer_that_stops_is_given_up() {
    let backend = Scripted::http(|_| async {
        let (feeder, body) = Pieces::fed();
        tokio::spawn(async move {
            feeder.give("begun").await;
            feeder.unwanted().await;
        });
        answer(200, body)
    });
    let routes = format!(
        "upstreams: {{it: {{servers: 'http://{}', idle_timeout: 100ms}}}}\nroutes: [{{upstream: it}}]\n",
        backend.address()
    );
    let gateway = Setup::by(&routes).start().await;
    let answer = Client::http1(gateway.at.listen).await.send(request("GET", "/")).await.unwrap();
    crate::client::Told::of(answer).await.unwrap_err();
}

#[tokio::test]
async fn what_can_be_done_twice_is_tried_elsewhere() {
    for (method, again) in
        [("GET", true), ("HEAD", true), ("DELETE", true), ("PUT", true), ("POST", false), ("PATCH", false)]
    {
        let (bad, good) = (hangs_up(), Backend::start());
        let gateway = Setup::by(&in_turn(&[bad.address(), good.address()], "")).start().await;
        let told = gateway.ask(request(method, "/")).await;
        assert_eq!(told.status, if again { 200 } else { 502 }, "{method}");
        assert_eq!((bad.asked(), good.requests()), (1, usize::from(again)), "{method}");
        let retries = gateway.metric("tidegate_gateway_retries_total").await;
        assert_eq!(retries, Some(if again { 1.0 } else { 0.0 }), "{method}");
    }
}

#[tokio::test]
async fn what_has_a_body_is_not_tried_again_once_sent() {
    let (bad, good) = (hangs_up(), Backend::start());
    let gateway = Setup::by(&in_turn(&[bad.address(), good.address()], "")).start().await;
    let told = gateway.ask(with_body("PUT", "/", Pieces::whole("words"))).await;
    assert_eq!((told.status, bad.asked(), good.requests()), (502, 1, 0));
}

#[tokio::test]
async fn half_an_answer_is_not_tried_again() {
    let half = Scripted::bytes(|mut stream: TcpStream| async move {
        head_of(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await.ok();
    });
    let good = Backend::start();
    let gateway = Setup::by(&in_turn(&[half.address(), good.address()], "")).start().await;
    let text = gateway.raw(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("content-length: 100") && text.ends_with("half"),
        "{text}"
    );
    assert_eq!(good.requests(), 0);
}

/// Nothing was sent, so anything can be sent again, with all of its body.
#[tokio::test]
async fn what_was_not_sent_goes_to_another_server() {
    let (down, good) = (Port::claim(), Backend::start());
    let gateway = Setup::by(&in_turn(&[down.address(), good.address()], "")).start().await;
    for (method, body) in [("POST", "words"), ("PATCH", "more words"), ("GET", "")] {
        for _ in 0..2 {
            let told = gateway.ask(with_body(method, "/", Pieces::whole(body))).await;
            assert_eq!(told.status, 200, "{method}");
            assert!(told.body.ends_with(&format!("\n\n{body}\n")), "{told:?}");
        }
    }
    assert_eq!(good.requests(), 6);
}

#[tokio::test]
async fn retries_are_as_many_as_the_route_says() {
    let bad = [hangs_up(), hangs_up(), hangs_up()];
    let good = Backend::start();
    let all = [bad[0].address(), bad[1].address(), bad[2].address(), good.address()];
    for (retries, status) in [(0, 502), (2, 502), (3, 200)] {
        let gateway = Setup::by(&in_turn(&all, &format!(", retries: {retries}"))).start().await;
        assert_eq!(gateway.get("/").await.status, status, "{retries}");
    }
}

/// A status is an answer.
#[tokio::test]
async fn errors_of_back_ends_are_passed_on() {
    let bad = Scripted::http(|_| async { answer(503, Pieces::whole("not today")) });
    let good = Backend::start();
    let gateway = Setup::by(&in_turn(&[bad.address(), good.address()], "")).start().await;
    let told = gateway.get("/").await;
    assert_eq!((told.status, told.body.as_str(), good.requests()), (503, "not today", 0));
}

/// Servers close connections that are kept for them whenever they like.
#[tokio::test]
async fn connections_that_the_server_closes_cost_no_request() {
    let backend = Scripted::bytes(|mut stream: TcpStream| async move {
        head_of(&mut stream).await;
        // As if it were kept, and then it is not.
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.ok();
    });
    let gateway = Setup::to(&[backend.address()]).start().await;
    let mut client = Client::http1(gateway.at.listen).await;
    for _ in 0..100 {
        assert_eq!(client.get("/").await.body, "ok");
    }
}

#[tokio::test]
async fn what_is_no_http_is_a_bad_gateway() {
    for nonsense in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    ] {
        let backend = Scripted::bytes(move |mut stream: TcpStream| async move {
            head_of(&mut stream).await;
            stream.write_all(nonsense.as_bytes()).await.ok();
        });
        let gateway = Setup::by(&in_turn(&[backend.address()], "")).start().await;
        assert_eq!(gateway.ask(request("POST", "/")).await.status, 502, "{nonsense}");
    }
}

/// Whoever goes away while it waits for an answer frees the back end.
#[tokio::test]
async fn a_client_that_goes_away_is_gone_for_the_back_end() {
    let gone = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&gone);
    struct Noted(Arc<AtomicBool>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let backend = Scripted::http(move |request: Request<Incoming>| {
        let noted = (request.uri().path() == "/slow").then(|| Noted(Arc::clone(&noted)));
        async move {
            if noted.is_some() {
                std::future::pending::<()>().await;
            }
            drop(noted);
            says("well")
        }
    });
    let gateway = Setup::to(&[backend.address()]).start().await;
    let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    crate::client::until("it is under way", async || (backend.asked() == 1).then_some(())).await;
    drop(stream);
    crate::client::until("the back end hears of it", async || gone.load(Ordering::SeqCst).then_some(()))
        .await;
    assert_eq!(gateway.get("/").await.body, "well");
}

/// The same over HTTP/2.
#[tokio::test]
async fn servers_that_speak_http2_fail_alike() {
    let (down, good) = (Port::claim(), Scripted::http(|_| async { says("well") }));
    let closes = Scripted::bytes(|mut stream: TcpStream| async move {
        // The preface ends like a head.
        head_of(&mut stream).await;
    });
    for (bad, method, status) in [
        (closes.address(), "GET", 200),
        (closes.address(), "POST", 502),
        (down.address(), "GET", 200),
        (down.address(), "POST", 200),
    ] {
        let routes =
            in_turn(&[bad, good.address()], "").replace("passive: off", "passive: off, protocol: http2");
        let gateway = Setup::by(&routes).start().await;
        let told = gateway.ask(request(method, "/")).await;
        assert_eq!(told.status, status, "{method} {bad}: {told:?}");
        assert_eq!(gateway.get("/").await.body, "well", "the next server is fine");
    }
}
