//! Upstreams with a limit on requests in flight.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use tempfile::TempDir;
use tidegate_testkit::{Browser, ConsoleMessage};

use super::SOON;
use crate::gateway::Gateway;
use crate::support::{ask, wait_for};

#[tokio::test]
async fn a_gateway_shows_what_is_in_flight_and_what_it_sheds() {
    // An upstream that takes connections and never responds.
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = TempDir::new().unwrap();
    let routes = folder.path().join("routes.yaml");
    let document = format!(
        "upstreams:\n  api: {{servers: 'http://{0}', concurrency: {{limit: 1, headroom: {{}}}}}}\n  other: {{servers: 'http://{0}'}}\n\
         routes: [{{upstream: api}}, {{path: /other, upstream: other}}]\n",
        upstream.local_addr().unwrap()
    );
    std::fs::write(&routes, document).unwrap();
    let gateway = Gateway::start(&["--routes", routes.to_str().unwrap()]);
    let browser = Browser::start().await;
    browser.goto(&format!("http://{}/#/", gateway.admin)).await;
    let row = "document.querySelector('[data-test=upstream]').innerText";
    browser.wait_until(&format!("/api\\s+0/.test({row}) && {row}.includes('none')"), SOON).await;
    let count = browser.wait_until("document.querySelectorAll('[data-test=upstream]').length", SOON).await;
    assert_eq!(count, 1, "one of the two has a limit");

    let mut client = TcpStream::connect(&gateway.listen).unwrap();
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: api.example\r\n\r\n").unwrap();
    let in_flight = || {
        let metrics = ask(&gateway.admin, "GET", "/metrics", "").1;
        metrics.contains("tidegate_in_flight{upstream=\"api\"} 1\n").then_some(())
    };
    wait_for("the request to be in flight", in_flight);
    let mut shed = TcpStream::connect(&gateway.listen).unwrap();
    shed.write_all(b"GET /shed HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    shed.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    browser.wait_until(&format!("/api\\s+1/.test({row}) && {row}.includes('other 1')"), SOON).await;
    let wrong: Vec<_> = browser.console().await.into_iter().filter(ConsoleMessage::is_error).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
