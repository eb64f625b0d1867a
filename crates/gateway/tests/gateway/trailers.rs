//! What comes after a body.

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tidegate_testkit::{Pieces, Scripted};

use crate::client::{Client, with_body, with_headers};
use crate::support::Setup;

/// Sends back what came after a request, after its answer.
fn backend() -> Scripted {
    Scripted::http(|request: Request<Incoming>| async {
        let collected = request.into_body().collect().await.unwrap();
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let (feeder, body) = Pieces::fed();
        let bytes = collected.to_bytes();
        tokio::spawn(async move {
            feeder.give(bytes).await;
            feeder.end_with(trailers).await;
        });
        Response::builder().header("trailer", "checksum").body(body).unwrap()
    })
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let backend = backend();
    let routes = |protocol: &str| {
        let servers = format!("{{servers: 'http://{}', protocol: {protocol}}}", backend.address());
        format!("upstreams: {{it: {servers}}}\nroutes: [{{upstream: it}}]\n")
    };
    for protocol in ["http1", "http2"] {
        let gateway = Setup::by(&routes(protocol)).start().await;
        for mut client in [Client::http1(gateway.at.listen).await, Client::http2(gateway.at.listen).await] {
            let (feeder, body) = Pieces::fed();
            let ask =
                with_headers(with_body("POST", "/", body), &[("trailer", "checksum"), ("te", "trailers")]);
            let asking = tokio::spawn(async move { client.ask(ask).await });
            feeder.give("words").await;
            feeder
                .end_with(HeaderMap::from_iter([("checksum".parse().unwrap(), HeaderValue::from(7))]))
                .await;
            let told = asking.await.unwrap();
            assert_eq!((told.status, told.body.as_str()), (200, "words"), "{protocol}");
            assert_eq!(told.trailers.get("checksum").unwrap(), "7", "{protocol}");
        }
    }
}
