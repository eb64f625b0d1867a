//! Bodies pass piece by piece, in both directions.

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate_testkit::{Pieces, Scripted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{Client, Told, answer, next, request, says, with_body};
use crate::support::{DEADLINE, Setup};

/// A back end that tells the test what comes, as it comes: whether a length was said, the pieces, and the end, which is good or bad.
fn telling() -> (Scripted, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    let backend = Scripted::http(move |request: Request<Incoming>| {
        let tell = tell.clone();
        async move {
            let length = request.headers().contains_key("content-length");
            tell.send(if length { "with length" } else { "without" }.to_owned()).ok();
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else {
                    tell.send("broken".to_owned()).ok();
                    break;
                };
                let data = frame.into_data().unwrap_or_default();
                tell.send(String::from_utf8_lossy(&data).into_owned()).ok();
            }
            tell.send("end".to_owned()).ok();
            says("thanks")
        }
    });
    (backend, told)
}

async fn heard(told: &mut mpsc::UnboundedReceiver<String>) -> String {
    timeout(DEADLINE, told.recv()).await.expect("something comes in time").unwrap()
}

#[tokio::test]
async fn a_request_passes_piece_by_piece() {
    for length in [None, Some(6)] {
        let (backend, mut told) = telling();
        let gateway = Setup::to(&[backend.address()]).start().await;
        for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
            let (feeder, body) = length.map_or_else(Pieces::fed, Pieces::fed_with_length);
            let asking = tokio::spawn(async move { client.ask(with_body("POST", "/up", body)).await });
            feeder.give("one").await;
            assert_eq!(heard(&mut told).await, if length.is_some() { "with length" } else { "without" });
            // The second is only sent when the first has arrived.
            assert_eq!(heard(&mut told).await, "one");
            feeder.give("two").await;
            assert_eq!(heard(&mut told).await, "two");
            drop(feeder);
            assert_eq!(heard(&mut told).await, "end");
            assert_eq!(asking.await.unwrap().body, "thanks");
        }
    }
}

#[tokio::test]
async fn an_answer_passes_piece_by_piece() {
    for length in [None, Some(6)] {
        let feeders = std::sync::Arc::new(Mutex::new(Vec::new()));
        let kept = feeders.clone();
        let backend = Scripted::http(move |_| {
            let (feeder, body) = length.map_or_else(Pieces::fed, Pieces::fed_with_length);
            kept.lock().push(feeder);
            async { answer(200, body) }
        });
        let gateway = Setup::to(&[backend.address()]).start().await;
        for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
            let answer = client.send(request("GET", "/down")).await.unwrap();
            assert_eq!(answer.headers().contains_key("content-length"), length.is_some());
            let (feeder, mut body) = (feeders.lock().pop().unwrap(), answer.into_body());
            feeder.give("one").await;
            assert_eq!(next(&mut body).await.as_deref(), Some("one"));
            feeder.give("two").await;
            assert_eq!(next(&mut body).await.as_deref(), Some("two"));
            drop(feeder);
            assert_eq!(next(&mut body).await, None);
        }
    }
}

/// A back end may answer before it has heard all, and go on listening: a conversation.
#[tokio::test]
async fn both_directions_at_once() {
    let backend = Scripted::http(|request: Request<Incoming>| async {
        let (feeder, body) = Pieces::fed();
        let mut heard = request.into_body();
        tokio::spawn(async move {
            while let Some(Ok(frame)) = heard.frame().await {
                if let Ok(data) = frame.into_data() {
                    feeder.give(data).await;
                }
            }
        });
        answer(200, body)
    });
    let routes = format!(
        "upstreams: {{two: {{servers: 'http://{}', protocol: http2}}}}\nroutes: [{{upstream: two}}]\n",
        backend.address()
    );
    for setup in [Setup::to(&[backend.address()]), Setup::by(&routes)] {
        let gateway = setup.start().await;
        for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
            let (feeder, body) = Pieces::fed();
            let mut heard = client.send(with_body("POST", "/talk", body)).await.unwrap().into_body();
            for word in ["how", "are", "you"] {
                feeder.give(word).await;
                assert_eq!(next(&mut heard).await.as_deref(), Some(word));
            }
            drop(feeder);
            assert_eq!(next(&mut heard).await, None);
        }
    }
}

#[tokio::test]
async fn answers_without_bodies_stay_so() {
    let backend = Scripted::http(|request: Request<Incoming>| async move {
        let response = Response::builder().header("etag", "\"7\"");
        match request.uri().path() {
            "/204" => response.status(204).body(Pieces::none()).unwrap(),
            "/304" => response.status(304).body(Pieces::none()).unwrap(),
            "/0" => response.body(Pieces::none()).unwrap(),
            _ => response.body(Pieces::whole("twelve bytes")).unwrap(),
        }
    });
    let gateway = Setup::to(&[backend.address()]).start().await;
    for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
        for (method, path, status, length) in [
            ("GET", "/204", 204, None),
            ("GET", "/304", 304, None),
            ("GET", "/0", 200, Some("0")),
            ("HEAD", "/12", 200, Some("12")),
            ("HEAD", "/304", 304, None),
        ] {
            let told = client.ask(request(method, path)).await;
            assert_eq!((told.status, told.body.as_str()), (status, ""), "{method} {path}");
            assert_eq!(told.header("content-length"), length, "{method} {path}");
            assert_eq!(told.header("etag"), Some("\"7\""), "{method} {path}");
        }
        assert_eq!(client.get("/12").await.body, "twelve bytes", "the connection is as good as before");
    }
}

/// Who waits for a sign to go on gets it, but only if the request goes on.
#[tokio::test]
async fn a_body_that_waits_is_asked_for() {
    let backend = Scripted::http(|request: Request<Incoming>| async {
        assert!(!request.headers().contains_key("expect"));
        let body = request.into_body().collect().await.unwrap().to_bytes();
        answer(200, Pieces::whole(body))
    });
    let rules = "rules:\n  - {rule_id: one, identifier_type: ip_address, limit: 1, window: 1h, algorithm: fixed_window}\n";
    let gateway = Setup::to(&[backend.address()]).rules(rules).start().await;
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(gateway.at.listen).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut sign = [0; 25];
    stream.read_exact(&mut sign).await.unwrap();
    assert_eq!(&sign[..], b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("hello"), "{text}");
    let text = gateway.raw(head.as_bytes()).await;
    assert!(text.starts_with("HTTP/1.1 429"), "it was not asked for what nobody wants: {text}");
    assert_eq!(backend.asked(), 1);
}

/// The client hears that something is missing; it does not get half an answer as a whole one.
#[tokio::test]
async fn an_answer_that_breaks_off_is_broken_for_the_client_too() {
    for length in [None, Some(100)] {
        let backend = Scripted::http(move |request: Request<Incoming>| async move {
            if request.uri().path() == "/well" {
                return says("well");
            }
            let (feeder, body) = length.map_or_else(Pieces::fed, Pieces::fed_with_length);
            tokio::spawn(async move {
                feeder.give("half of it").await;
                feeder.break_off().await;
            });
            answer(200, body)
        });
        let gateway = Setup::to(&[backend.address()]).start().await;
        for two in [false, true] {
            let mut client = match two {
                false => Client::http1(gateway.at.listen).await,
                true => Client::http2(gateway.at.listen).await,
            };
            // Whether the head still gets out depends on how soon the end is noticed.
            if let Ok(answer) = client.send(request("GET", "/broken")).await
                && answer.status() == 200
            {
                Told::of(answer).await.unwrap_err();
            }
            let mut next = if two { client } else { Client::http1(gateway.at.listen).await };
            assert_eq!(next.get("/well").await.body, "well");
        }
    }
}

/// And so does the back end.
#[tokio::test]
async fn a_request_that_breaks_off_is_broken_for_the_back_end_too() {
    let (backend, mut told) = telling();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for length in [None, Some(100)] {
        let (feeder, body) = length.map_or_else(Pieces::fed, Pieces::fed_with_length);
        let mut client = Client::http1(gateway.at.listen).await;
        let asking = tokio::spawn(async move { client.send(with_body("POST", "/up", body)).await.map(drop) });
        feeder.give("half of it").await;
        heard(&mut told).await;
        assert_eq!(heard(&mut told).await, "half of it");
        feeder.break_off().await;
        assert_eq!(heard(&mut told).await, "broken");
        assert_eq!(heard(&mut told).await, "end");
        drop(asking.await.unwrap());
    }
    assert_eq!(gateway.get("/").await.body, "thanks");
}
