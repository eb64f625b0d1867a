//! Logging more, or less, without starting anew.

use tempfile::TempDir;
use tidegate_testkit::Backend;

use crate::gateway::Gateway;
use crate::support::{Server, answer, ask, begin_with, run, wait_for};

fn put(admin: &str, body: &str) -> (u16, String) {
    ask(admin, "PUT", "/v1/log-level", body)
}

#[test]
fn it_can_be_seen_and_changed() {
    let server = Server::start(&[]);
    assert_eq!(server.admin("/v1/log-level"), (200, r#"{"level":"info"}"#.to_owned()));
    for wrong in ["", "{}", r#"{"level":"loud"}"#, r#"{"level":"debug","for":"1h"}"#] {
        let (status, text) = put(&server.admin, wrong);
        assert!(status == 400 && text.contains("debug"), "{status} {text}");
    }
    let (status, _) = put(&server.admin, &"x".repeat(100_000));
    assert_eq!(status, 413);
    for (level, before) in [("warn", "info"), ("error", "warn"), ("debug", "error"), ("info", "debug")] {
        let body = format!(r#"{{"level":"{level}"}}"#);
        assert_eq!(put(&server.admin, &body), (200, body.clone()));
        assert_eq!(server.admin("/v1/log-level"), (200, body));
        if (level, before) != ("error", "warn") {
            let line = format!("log level by=\"local\" from=\"{before}\" to=\"{level}\"");
            wait_for(&line, || server.log().contains(&line).then_some(()));
        }
    }
}

/// What a gateway says at that level when a back end fails.
#[test]
fn what_helps_to_find_out_why_is_logged_from_then_on() {
    let backend = Backend::start();
    let to = format!("http://{}", backend.address());
    let gateway = Gateway::start(&["--upstream", &to]);
    drop(backend);
    let failed = || ask(&gateway.listen, "GET", "/orders/7", "").0;
    assert_eq!(failed(), 502);
    let said = || gateway.log().matches("a server failed").count();
    assert_eq!(put(&gateway.admin, r#"{"level":"debug"}"#).0, 200);
    wait_for("it to be told", || {
        failed();
        (said() > 0).then_some(())
    });
    assert!(gateway.log().contains("DEBUG"), "{}", gateway.log());
    assert_eq!(put(&gateway.admin, r#"{"level":"info"}"#).0, 200);
    let before = said();
    failed();
    assert_eq!(put(&gateway.admin, r#"{"level":"debug"}"#).0, 200);
    // By now, whatever would have been said in between has been.
    wait_for("the change", || (gateway.log().matches("to=\"debug\"").count() == 2).then_some(()));
    assert_eq!(said(), before, "{}", gateway.log());
}

#[test]
fn whoever_may_only_look_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tokens");
    let new = run(["token", "new", "--name", "looker", "--role", "read", "--append", file.to_str().unwrap()]);
    assert_eq!(new.code, 0, "{new:?}");
    let token = new.out.split_whitespace().find(|word| word.len() >= 32).unwrap().to_owned();
    let server = Server::start(&["--admin-tokens", file.to_str().unwrap(), "--admin-local", "deny"]);
    let body = r#"{"level":"debug"}"#;
    let ask = |method: &str, body: &str| {
        let more = format!("authorization: Bearer {token}\r\n");
        let mut stream = begin_with(&server.admin, method, "/v1/log-level", body.len(), &more);
        std::io::Write::write_all(&mut stream, body.as_bytes()).unwrap();
        answer(stream)
    };
    let (status, text) = ask("PUT", body);
    assert_eq!((status, text.contains("looker")), (403, true), "{text}");
    assert_eq!(ask("GET", ""), (200, r#"{"level":"info"}"#.to_owned()));
}
