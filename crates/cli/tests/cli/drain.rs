//! The end: unready first, then what is in flight is finished, then exit 0.
#![cfg(unix)]

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::support::{Server, answer, begin, wait_for};

const REQUEST: &str = r#"{"user":"alice","resource":"/nothing/in/particular"}"#;

fn unready(server: &Server) {
    wait_for("the server to become unready", || (server.admin("/readyz").0 == 503).then_some(()));
}

#[test]
fn a_request_that_has_begun_is_answered() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(&["--grace", "50ms"]);
        let (first, rest) = REQUEST.split_at(9);
        let mut slow = begin(&server.http, "POST", "/v1/check", REQUEST.len());
        slow.write_all(first.as_bytes()).unwrap();
        server.signal(signal);
        unready(&server);
        // No more connections are accepted, and this one is still open.
        wait_for("the listener to close", || std::net::TcpStream::connect(&server.http).err());
        slow.write_all(rest.as_bytes()).unwrap();
        let (status, body) = answer(slow);
        assert_eq!((status, body.contains(r#""allowed":true"#)), (200, true), "{body}");
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

/// Clients that stop when the server says it is unready, as load balancers do, lose nothing.
#[test]
fn nothing_is_lost_under_load() {
    let mut server = Server::start(&["--grace", "3s"]);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(server.check(REQUEST)["allowed"], true);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_for("some load", || (answered.load(Ordering::Relaxed) > 100).then_some(()));
        server.signal("TERM");
        unready(&server);
        let when_unready = answered.load(Ordering::Relaxed);
        wait_for("requests after that", || {
            (answered.load(Ordering::Relaxed) > when_unready + 4).then_some(())
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn whoever_says_it_twice_means_at_once() {
    let mut server = Server::start(&["--grace", "1h"]);
    let mut slow = begin(&server.http, "POST", "/v1/check", REQUEST.len());
    slow.write_all(b"{").unwrap();
    server.signal("TERM");
    unready(&server);
    server.signal("TERM");
    assert_eq!(server.wait(), 1);
    assert!(server.log().contains("told to end twice"), "{}", server.log());
}

#[test]
fn what_does_not_finish_in_time_is_cut_and_said() {
    let mut server = Server::start(&["--grace", "10ms", "--drain", "100ms"]);
    let mut slow = begin(&server.http, "POST", "/v1/check", REQUEST.len());
    slow.write_all(b"{").unwrap();
    server.signal("TERM");
    assert_eq!(server.wait(), 1);
    wait_for("the reason", || server.log().contains("still busy").then_some(()));
    drop(slow);
}
