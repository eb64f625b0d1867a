//! Answers of the admin listener to those who read gzip.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::client::{Ask, Running, send, start};
use crate::live::Stream;

const RULES: &str = "rules: [{rule_id: each, identifier_type: user_id, limit: 2, window: 1h}]";

const READS: [(&str, &str); 1] = [("accept-encoding", "br;q=1.0, gzip;q=0.8, *;q=0.1")];

/// What it says, unpacked if need be, and whether it was packed.
async fn ask(server: &Running, path: &str, headers: &[(&str, &str)]) -> (String, bool) {
    let answer = send(server.addresses.admin, Ask::get(path).headers(headers)).await;
    match answer.header("content-encoding") {
        None => (answer.text(), false),
        Some(coding) => {
            assert_eq!((coding, answer.header("vary").is_some()), ("gzip", true));
            let mut text = String::new();
            GzDecoder::new(&*answer.body).read_to_string(&mut text).unwrap();
            (text, true)
        }
    }
}

#[tokio::test]
async fn what_is_long_is_packed_for_those_who_read_it() {
    let server = start(RULES).await;
    for path in ["/openapi.json", "/dashboard/app.js", "/dashboard/vendor-uplot.js"] {
        let (plain, packed) = (ask(&server, path, &[]).await, ask(&server, path, &READS).await);
        assert!(plain.0 == packed.0 && packed.1 && !plain.1, "{path}");
    }
    let (metrics, packed) = ask(&server, "/metrics", &READS).await;
    assert!(packed && metrics.contains("# TYPE tidegate_decisions"), "{metrics}");
    assert!(!ask(&server, "/metrics", &[("accept-encoding", "gzip;q=0")]).await.1);
    assert!(!ask(&server, "/livez", &READS).await.1, "that would make it longer");
}

#[tokio::test]
async fn files_of_both_forms_are_known_again() {
    let server = start(RULES).await;
    for reads in [&[][..], &READS] {
        let ask = || Ask::get("/dashboard/app.js").headers(reads);
        let file = send(server.addresses.admin, ask()).await;
        let tag = file.header("etag").unwrap();
        let again = send(server.addresses.admin, ask().headers(&[("if-none-match", tag)])).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    }
}

#[tokio::test]
async fn events_come_as_they_happen_though_they_are_packed() {
    let server = start(RULES).await;
    let open = || Stream::ask(server.addresses.admin, Ask::get("/v1/events").headers(&READS));
    let mut first = open().await.unwrap();
    assert!(first.is_packed());
    for name in ["history", "tick", "insight", "journal"] {
        assert_eq!(first.next().await.unwrap().0, name);
    }
    // One that begins later is sent the same parts of another stream.
    let mut second = open().await.unwrap();
    second.until("journal", |_| true).await;
    for allowed in 1..=2 {
        server.check(r#"{"user":"alice","resource":"/"}"#).await;
        for events in [&mut first, &mut second] {
            events.until("tick", |tick| tick["state"]["totals"]["allowed"] == allowed).await;
        }
    }
    assert!(!Stream::open(server.addresses.admin).await.is_packed());
}
