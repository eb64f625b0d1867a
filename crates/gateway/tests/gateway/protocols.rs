//! What clients speak, and what back ends do, need not be the same.

use std::process::{Command, Output};

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tidegate_testkit::{Backend, Pieces, ReverseProxy, Scripted};

use crate::client::{Client, Told, with_body, with_headers};
use crate::support::{Running, Setup};

pub(crate) async fn curl(args: &[&str]) -> Output {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let run = move || Command::new("curl").args(["-sS", "--max-time", "20"]).args(args).output().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn routes(backend: std::net::SocketAddr, protocol: &str) -> String {
    format!(
        "upstreams: {{it: {{servers: 'http://{backend}', protocol: {protocol}}}}}\nroutes: [{{upstream: it}}]\n"
    )
}

#[tokio::test]
async fn any_version_to_any_version() {
    let backend = Backend::start();
    for protocol in ["http1", "http2"] {
        let gateway = Setup::by(&routes(backend.address(), protocol)).start().await;
        let url = format!("http://{}/orders?x=1", gateway.at.listen);
        for (option, shown) in [("--http2-prior-knowledge", "2"), ("--http1.1", "1.1"), ("--http1.0", "1.1")]
        {
            let told = curl(&[option, "-w", "\nversion %{http_version}", "-d", "words", &url]).await;
            let text = String::from_utf8(told.stdout).unwrap();
            assert!(
                told.status.success(),
                "{option} to {protocol}: {}",
                String::from_utf8_lossy(&told.stderr)
            );
            let asked = text.lines().next().unwrap();
            assert!(asked.starts_with("POST ") && asked.ends_with("/orders?x=1"), "{text}");
            assert!(text.contains("\ncontent-length: 5\n") && text.contains("\n\nwords\n"), "{text}");
            assert!(text.contains(&format!("x-forwarded-host: {}\n", gateway.at.listen)), "{text}");
            // What is answered to 1.0 is nobody's business but theirs.
            assert!(option == "--http1.0" || text.ends_with(&format!("version {shown}")), "{text}");
        }
    }
}

/// Many at once over one connection.
#[tokio::test]
async fn streams_do_not_wait_for_each_other() {
    let (open, opened) = tokio::sync::watch::channel(false);
    let backend = Scripted::http(move |request: Request<Incoming>| {
        let mut opened = opened.clone();
        async move {
            if request.uri().path() == "/slow" {
                opened.wait_for(|open| *open).await.ok();
            }
            Response::new(Pieces::whole(request.uri().path().to_owned()))
        }
    });
    let gateway = Setup::to(&[backend.address()]).start().await;
    let Client::Two(send) = Client::http2(gateway.at.listen).await else { unreachable!() };
    let ask = |path: &'static str| {
        let mut send = send.clone();
        tokio::spawn(async move {
            Told::of(send.send_request(with_body("GET", path, Pieces::none())).await.unwrap())
                .await
                .unwrap()
                .body
        })
    };
    let slow: Vec<_> = (0..20).map(|_| ask("/slow")).collect();
    assert_eq!(ask("/fast").await.unwrap(), "/fast");
    open.send(true).unwrap();
    for slow in slow {
        assert_eq!(slow.await.unwrap(), "/slow");
    }
}

#[tokio::test]
async fn nginx_is_asked_as_it_expects() {
    let nginx = ReverseProxy::nginx(|place| {
        format!(
            "events {{}} pid nginx.pid; http {{ client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; \
             uwsgi_temp_path d; scgi_temp_path e; access_log off; server {{ listen {}; \
             location / {{ return 200 \"$request $http_host $http_x_forwarded_for $http_x_forwarded_proto\"; }} }} }}",
            place.listener
        )
    });
    let gateway = Setup::to(&[nginx.address()]).start().await;
    for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
        for path in ["/", "/orders%20/7?a=b%20c"] {
            let told = client.get(path).await;
            assert_eq!(told.body, format!("GET {path} HTTP/1.1 api.example 127.0.0.1 http"));
        }
    }
}

/// A call with its outcome after the answer, as gRPC has it.
async fn call(gateway: &Running, path: &str) -> Told {
    let message = [&[0, 0, 0, 0, 3][..], b"ask"].concat();
    let headers = [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "20S")];
    let ask = with_headers(with_body("POST", path, Pieces::whole(message)), &headers);
    Client::http2(gateway.at.listen).await.ask(ask).await
}

#[tokio::test]
async fn calls_keep_their_outcome() {
    let backend = Scripted::http(|request: Request<Incoming>| async {
        assert_eq!(request.version(), http::Version::HTTP_2);
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers()["grpc-timeout"], "20S");
        let response = Response::builder().header("content-type", "application/grpc");
        if request.uri().path() == "/made.up.Service/Refuses" {
            let response = response.header("grpc-status", "9").header("grpc-message", "not now");
            return response.body(Pieces::none()).unwrap();
        }
        let said = request.into_body().collect().await.unwrap().to_bytes();
        let (feeder, body) = Pieces::fed();
        tokio::spawn(async move {
            feeder.give(said).await;
            let outcome = [("grpc-status", "0"), ("grpc-message", "fine")];
            let outcome =
                outcome.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            feeder.end_with(HeaderMap::from_iter(outcome)).await;
        });
        response.body(body).unwrap()
    });
    let rules = "rules:\n  - {rule_id: two, identifier_type: ip_address, limit: 2, window: 1h, algorithm: fixed_window}\n";
    let gateway = Setup::by(&routes(backend.address(), "http2")).rules(rules).start().await;
    let told = call(&gateway, "/made.up.Service/Answers").await;
    assert_eq!((told.status, told.body.as_str()), (200, "\0\0\0\0\u{3}ask"));
    assert_eq!(
        (&told.trailers["grpc-status"], &told.trailers["grpc-message"]),
        (&"0".parse().unwrap(), &"fine".parse().unwrap())
    );
    let told = call(&gateway, "/made.up.Service/Refuses").await;
    assert_eq!(
        (told.status, told.header("grpc-status"), told.header("grpc-message")),
        (200, Some("9"), Some("not now"))
    );
    // What is too much is said where callers look for it.
    let told = call(&gateway, "/made.up.Service/Answers").await;
    assert_eq!((told.status, told.header("grpc-status")), (200, Some("8")));
    assert!(told.header("grpc-message").unwrap().contains("Limit is 2 per hour"), "{told:?}");
    assert!(told.header("retry-after").is_some());
    assert_eq!(backend.asked(), 2);
}
