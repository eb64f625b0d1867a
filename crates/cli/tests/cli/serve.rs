//! `tidegate serve`, from the outside.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Said, Server, ask, fixture, run, tidegate};

/// Runs a line as it would be pasted into a shell.
fn paste(line: &str) -> Value {
    let said: Said = Command::new("sh").args(["-c", line]).output().unwrap().into();
    assert_eq!(said.code, 0, "{line}: {said:?}");
    said.json()
}

#[test]
fn without_arguments_it_applies_examples_and_its_curl_works() {
    let server = Server::start(&[]);
    let out = server.out();
    assert!(out.contains("rules  built-in examples"), "{out}");
    assert!(out.contains("3 rules: login_attempt_ip, api_user_get_orders, tier"), "{out}");
    assert!(out.contains("store  memory, up to 1,000,000 counters"), "{out}");
    assert!(!out.contains('\u{1b}'), "no colours where nobody sees them: {out:?}");
    let decision = paste(&server.curl);
    assert_eq!(decision["allowed"], true);
    assert_eq!(decision["rule_id"], "api_user_get_orders");
    assert_eq!(decision["remaining"], 49);
    assert_eq!(paste(&server.curl)["remaining"], 48);
}

#[test]
fn with_a_rule_file_its_curl_meets_the_first_rule() {
    let rules = fixture("login.yaml");
    let server = Server::start(&["--rules", rules.to_str().unwrap()]);
    assert!(server.out().contains("login.yaml, 2 rules: login_attempt_ip, orders"), "{}", server.out());
    let decision = paste(&server.curl);
    assert_eq!(
        (decision["rule_id"].as_str(), decision["remaining"].as_u64()),
        (Some("login_attempt_ip"), Some(1))
    );
}

#[test]
fn it_is_ready_and_well() {
    let server = Server::start(&[]);
    assert_eq!(server.admin("/readyz").0, 200);
    let (status, health) = server.admin("/health");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!((status, health["status"].as_str()), (200, Some("normal")));
}

#[test]
fn options_reach_the_server() {
    let server = Server::start(&[
        "--headers",
        "x-ratelimit,ietf",
        "--documentation-url",
        "https://example.com/limits",
    ]);
    let body = r#"{"user":"x","resource":"/api/a","cost":100}"#;
    assert_eq!(server.check(body)["retry_after"], Value::Null);
    let (_, metrics) = server.admin("/metrics");
    assert!(metrics.contains("tidegate_decisions_total"), "{metrics}");
    let (status, _) = ask(&server.http, "POST", "/v1/nothing", "");
    assert_eq!(status, 404);
}

#[test]
fn a_log_for_programs_is_nothing_but_json() {
    let mut child = tidegate()
        .args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--log", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    let events = log.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()));
    let listening =
        events.take(9).find(|event| event.as_ref().map_or(true, |event| event["message"] == "listening"));
    child.kill().unwrap();
    let out = child.wait_with_output().unwrap().stdout;
    let event = listening.unwrap().unwrap();
    assert_eq!(event["level"], "INFO");
    assert!(event["curl"].as_str().unwrap().starts_with("curl -s http://127.0.0.1:"), "{event}");
    assert_eq!(out, b"");
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = run(["serve", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--http", &address]);
    said.complains(1, &["error: cannot listen on", &address, "Use --http ADDRESS"]);
    assert_eq!(said.out, "");
}

#[test]
fn what_anybody_could_reach_does_not_start() {
    let said = run(["serve", "--http", "0.0.0.0:0"]);
    said.complains(
        2,
        &["the http listener would be open to everybody", "--token-file FILE", "--allow-networks 10.0.0.0/8"],
    );
    let said = run(["serve", "--http", "0.0.0.0:0", "--token", "a b"]);
    said.complains(2, &["the token is empty or has characters"]);
    let said = run(["serve", "--token", "a", "--token-file", "/nowhere"]);
    said.complains(2, &["give one of them"]);
    run(["serve", "--token-file", "/nowhere"]).complains(1, &["cannot read the token in /nowhere"]);
}

#[test]
fn bad_rules_are_all_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(
        &path,
        "rules:\n  - rule_id: a\n    identifier_type: user_id\n    limt: 5\n    window: 1x\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let said = run(["serve", "--rules", path]);
    said.complains(
        1,
        &[
            "the rules cannot be used",
            "rules.yaml:4:5:",
            "did you mean `limit`?",
            "rules.yaml:5:",
            "|     limt: 5",
        ],
    );
    let said = run(["serve", "--rules", "/nowhere/rules.yaml"]);
    said.complains(
        1,
        &["/nowhere/rules.yaml", "/nowhere/rules.yaml is not there; create it or name another"],
    );
}

/// What is wrong with an URL is said without showing who was to be asked in whose name.
#[test]
fn an_url_that_cannot_be_read_shows_no_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    for (option, url) in [
        ("rules", "etcd://wilma:s3/cret@127.0.0.1:2379/x"),
        ("rules", "postgres://wilma:s3#cret@127.0.0.1"),
        ("store", "redis://wilma:s3/cret@127.0.0.1:6379"),
        ("rules-primary", "postgres://wilma:s3cret@127.0.0.1:0/x"),
    ] {
        std::fs::write(&file, format!("{}: '{url}'\n", option.replace('-', "_"))).unwrap();
        for said in
            [run(["serve", &format!("--{option}"), url]), run(["serve", "--config", file.to_str().unwrap()])]
        {
            assert_eq!(said.code, 2, "{said:?}");
            assert!(["s3", "cret", "wilma"].iter().all(|part| !said.err.contains(part)), "{}", said.err);
        }
    }
}

#[test]
fn what_this_build_does_not_have_is_said() {
    for (option, value, text) in [
        ("--rules", "etcd://127.0.0.1:2379", "the prefix of the keys is missing; write it as etcd://"),
        (
            "--rules",
            "zookeeper://127.0.0.1:2181",
            "the path of the rules is missing; write it as zookeeper://",
        ),
        ("--rules", "postgres://localhost/rules", "write it as postgres://"),
        ("--store", "redis:/127.0.0.1:6379", "there is no `://` in it; write it as redis://127.0.0.1:6379"),
        ("--store", "disk:/tmp", "this is no store; use memory:, redis://127.0.0.1:6379"),
        ("--http", "8080", "write an IP address and a port, such as 127.0.0.1:8080"),
        ("--headers", "mine", "`mine` is not a header style"),
        ("--drain", "soon", "is not a duration"),
        ("--log", "loud", "[possible values: human, json]"),
    ] {
        run(["serve", option, value]).complains(2, &[option, text]);
    }
}
