//! Methods that are not forwarded.

use tidegate_testkit::Backend;

use crate::support::Setup;

#[tokio::test]
async fn nothing_is_tunnelled_or_traced() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    for ask in [
        "CONNECT api.example:443 HTTP/1.1\r\nhost: api.example:443\r\nconnection: close\r\n\r\n",
        "TRACE / HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\n\r\n",
    ] {
        let answer = gateway.raw(ask.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }
    assert_eq!(backend.requests(), 0);
}
