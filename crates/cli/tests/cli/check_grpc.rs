//! `tidegate check --grpc`: as Envoy asks, with and without a server.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use tidegate_testkit::Certificates;

use crate::support::{Said, Server, ask, run, tidegate, wait_for};

const EDGE: [&str; 4] = ["check", "--grpc", "--domain", "edge"];

fn check_at(server: &str, args: &[&str]) -> Said {
    run(EDGE.iter().chain(&["--server", server]).chain(args))
}

fn check(server: &Server, args: &[&str]) -> Said {
    check_at(&server.grpc, args)
}

/// What a line says, however wide its columns are.
fn words(said: &Said, line: usize) -> Vec<&str> {
    said.out.lines().nth(line).unwrap_or_else(|| panic!("{said:?}")).split_whitespace().collect()
}

#[test]
fn every_descriptor_gets_its_answer() {
    let server = Server::start(&[]);
    let said = check(&server, &["--descriptors", "remote_address=203.0.113.7", "--descriptors", r"a=b\,c,d"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(words(&said, 0), ["OK"]);
    assert_eq!(words(&said, 2), ["descriptor", "code", "limit", "remaining", "reset"]);
    assert_eq!(words(&said, 3), ["remote_address=203.0.113.7", "OK", "no", "rule"]);
    assert_eq!(words(&said, 4), [r"a=b\,c,d", "OK", "no", "rule"]);
    assert_eq!(said.out.lines().count(), 5);
}

#[test]
fn json_is_what_the_server_says_in_json() {
    let server = Server::start(&[]);
    let said = check(&server, &["--json", "--hits", "3", "--descriptors", "a=b,c=d", "--descriptors", "e"]);
    let question = r#"{"domain":"edge","hitsAddend":3,"descriptors":[
        {"entries":[{"key":"a","value":"b"},{"key":"c","value":"d"}]},{"entries":[{"key":"e"}]}]}"#;
    let (status, answer) = ask(&server.http, "POST", "/json", question);
    assert_eq!((said.code, said.out.trim(), status), (0, answer.trim(), 200));
    assert_eq!(said.json()["statuses"][1]["code"], "OK");
}

#[test]
fn what_the_server_refuses_is_shown_in_its_words() {
    let server = Server::start(&[]);
    let at = format!("http://{} answers INVALID_ARGUMENT: ", server.grpc);
    check(&server, &["--descriptors", "=x"]).complains(1, &[&at, "an entry has no key; give it one"]);
    run(["check", "--grpc", "--server", &server.grpc, "--domain", "", "--descriptors", "a"])
        .complains(1, &[&at, "the domain is empty"]);
    // Not the listener that speaks gRPC.
    check_at(&server.http, &["--descriptors", "a"]).complains(1, &[&server.http, "--server HOST:PORT"]);
}

#[test]
fn a_server_that_is_not_there_is_said_with_how_to_start_it() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for args in [&["--descriptors", "a"][..], &["--descriptors", "a", "--repeat", "5"]] {
        check_at(&free, args).complains(
            1,
            &[
                &format!("cannot ask http://{free}: "),
                "Start a server with `tidegate serve`",
                "--server HOST:PORT",
            ],
        );
    }
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let args = ["--descriptors", "a", "--timeout", "50ms"];
    check_at(&address, &args).complains(1, &["cannot ask", &address, "no answer within 50ms"]);
    check_at(&format!("https://{address}"), &args).complains(1, &["cannot ask", "no answer within 50ms"]);
    let said = check_at(&address, &[&args[..], &["--repeat", "3", "--rate", "1000/s", "--json"]].concat());
    let summary = said.json();
    assert_eq!((said.code, &summary["requests"], &summary["ok"]), (1, &3.into(), &0.into()));
    assert_eq!(summary["errors"]["DEADLINE_EXCEEDED"]["count"], 3);
    assert!(summary["latency_ms"].is_null(), "{summary}");
}

#[test]
fn many_requests_are_summed_up() {
    let server = Server::start(&[]);
    let said = check(&server, &["--descriptors", "a=b", "--repeat", "1200"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with("1,200 requests in "), "{}", said.out);
    assert_eq!(words(&said, 1), ["OK", "1,200", "100.0%"]);
    assert_eq!(words(&said, 2), ["OVER_LIMIT", "0", "0.0%"]);
    assert!(said.out.lines().nth(3).unwrap().starts_with("latency  p50 "), "{}", said.out);
    assert_eq!(said.err, "", "there is no terminal to show progress on");

    let said = check(&server, &["--descriptors", "a=b", "--repeat", "20", "--rate", "500/s", "--json"]);
    let summary = said.json();
    assert_eq!((said.code, &summary["requests"], &summary["ok"]), (0, &20.into(), &20.into()));
    let figure = |name: &str| summary["latency_ms"][name].as_f64().unwrap();
    assert!(
        figure("p50") <= figure("p90") && figure("p90") <= figure("p99") && figure("p99") <= figure("max")
    );
    assert!(summary["seconds"].as_f64().unwrap() >= 0.03, "19 distances of 2 ms: {summary}");

    let said = check(&server, &["--descriptors", "=b", "--repeat", "2"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(words(&said, 3)[..3], ["INVALID_ARGUMENT", "2", "100.0%"]);
    assert!(said.out.contains("an entry has no key"), "{}", said.out);
}

#[test]
#[cfg(unix)]
fn whoever_has_seen_enough_gets_the_summary() {
    let server = Server::start(&[]);
    let mut command = tidegate();
    command.args(EDGE).args(["--server", &server.grpc, "--descriptors", "a=b", "--json"]);
    command.args(["--repeat", "1000000", "--rate", "100/s"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let client = command.spawn().unwrap();
    wait_for("some requests", || {
        let (_, metrics) = server.admin("/metrics");
        let mut decided = metrics.lines().filter(|line| line.starts_with("tidegate_decision_seconds_count"));
        let decided: u64 = decided.next()?.rsplit(' ').next()?.parse().ok()?;
        (decided >= 5).then_some(())
    });
    let kill = std::process::Command::new("kill").args(["-INT", &client.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let said = Said::from(client.wait_with_output().unwrap());
    let summary = said.json();
    assert_eq!((said.code, &summary["wanted"]), (0, &1_000_000.into()), "{said:?}");
    assert_eq!(summary["requests"], summary["ok"]);
    assert!((1..1_000_000).contains(&summary["requests"].as_u64().unwrap()), "{summary}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn servers_that_speak_tls_are_asked_with_the_right_files() {
    let ours = Certificates::generate();
    let (authority, cert, key) = (ours.authority(), ours.server_certificate(), ours.server_key());
    let tls = ["--grpc-tls-cert", text(&cert), "--grpc-tls-key", text(&key)];
    let server = Server::start(&tls);
    let at = format!("https://{}", server.grpc);
    let ask = |more: &[&str]| check_at(&at, &[&["--descriptors", "a"], more].concat());
    let said = ask(&["--ca", text(&authority)]);
    assert_eq!((said.code, words(&said, 0)), (0, vec!["OK"]), "{said:?}");
    let strangers = Certificates::generate();
    ask(&["--ca", text(&strangers.authority())])
        .complains(1, &[&at, "invalid peer certificate", "--ca FILE"]);
    ask(&["--ca", "/nowhere.pem"]).complains(1, &["cannot use /nowhere.pem"]);
    ask(&["--ca", text(&key)]).complains(1, &[text(&key), "there is no CERTIFICATE in it"]);
    check(&server, &["--descriptors", "a"]).complains(1, &["cannot ask http://", &server.grpc]);
    check(&server, &["--descriptors", "a", "--ca", text(&authority)]).complains(2, &["--server https://"]);

    let server = Server::start(&[&tls[..], &["--grpc-tls-client-ca", text(&authority)]].concat());
    let at = format!("https://{}", server.grpc);
    let known = ["--descriptors", "a", "--ca", text(&authority)];
    check_at(&at, &known).complains(1, &["cannot ask", &at, "--cert FILE"]);
    let (cert, key) = (ours.client_certificate(), ours.client_key());
    let said = check_at(&at, &[&known[..], &["--cert", text(&cert), "--key", text(&key)]].concat());
    assert_eq!((said.code, words(&said, 0)), (0, vec!["OK"]), "{said:?}");
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    run(["check", "--grpc"]).complains(2, &["--domain <DOMAIN>", "--descriptors <ENTRIES>"]);
    run(["check", "--grpc", "--descriptors", "a"]).complains(2, &["--domain <DOMAIN>"]);
    run(EDGE).complains(2, &["--descriptors <ENTRIES>"]);
    let asked = |args: &[&str]| run(EDGE.iter().chain(&["--descriptors", "a=b"]).chain(args));
    asked(&["/orders/7"]).complains(2, &["cannot be used with"]);
    asked(&["--user", "alice"]).complains(2, &["'--grpc' cannot be used with"]);
    for repeat in ["0", "-1", "x", "1000001"] {
        asked(&["--repeat", repeat]).complains(2, &["--repeat <N>", repeat]);
    }
    asked(&["--rate", "0/s"]).complains(2, &["--rate <N/s>", "write it as 50/s"]);
    asked(&["--hits", "-1"]).complains(2, &["--hits <N>"]);
    asked(&["--cert", "a.pem"]).complains(2, &["--key <FILE>"]);
    asked(&["--server", "ftp://a"]).complains(2, &["--server <URL>", "https://HOST:PORT"]);
    asked(&["--token", "a\nb"]).complains(2, &["the token cannot be sent"]);
    // What is in the environment is where HTTP is spoken: it is not even read.
    let mut elsewhere = tidegate();
    elsewhere.env("TIDEGATE_SERVER", "ftp://a").args(EDGE).args(["--descriptors", "a", "--token", "a\nb"]);
    Said::from(elsewhere.output().unwrap()).complains(2, &["the token cannot be sent"]);
    for wrong in ["", "a=b,", r"a=\n", r"a\"] {
        let example = "remote_address=203.0.113.7,path=/login";
        asked(&["--descriptors", wrong]).complains(2, &["--descriptors <ENTRIES>", example]);
    }
    for alone in [["--domain", "edge"], ["--descriptors", "a=b"], ["--repeat", "2"], ["--ca", "ca.pem"]] {
        run(["check", "/orders/7"].iter().chain(&alone)).complains(2, &["--grpc"]);
    }
}

#[test]
fn a_limit_is_shown_counted_down_and_exceeded() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("edge.yaml");
    let document = "domain: edge\ndescriptors:\n  - key: remote_address\n    \
        rate_limit: { unit: year, requests_per_unit: 2 }\n";
    std::fs::write(&rules, document).unwrap();
    let server = Server::start(&["--rules", text(&rules)]);
    let address = ["--descriptors", "remote_address=203.0.113.7"];
    for (hits, code, overall, row) in [
        ("1", 0, "OK", "OK 2 per year 1 "),
        ("0", 0, "OK", "OK 2 per year 1 "),
        ("2", 1, "OVER_LIMIT", "OVER_LIMIT 2 per year 1 "),
        ("1", 0, "OK", "OK 2 per year 0 "),
        ("1", 1, "OVER_LIMIT", "OVER_LIMIT 2 per year 0 "),
    ] {
        let said = check(&server, &[&address[..], &["--hits", hits]].concat());
        assert_eq!((said.code, words(&said, 0)), (code, vec![overall]), "{said:?}");
        let status = words(&said, 3)[1..].join(" ");
        assert!(status.starts_with(row) && status.ends_with('s'), "{status}");
    }
    let said = check(&server, &[&address[..], &["--json"]].concat());
    assert_eq!((said.code, &said.json()["overallCode"]), (1, &"OVER_LIMIT".into()));
    assert_eq!(said.json()["statuses"][0]["currentLimit"]["unit"], "YEAR");

    let other = ["--descriptors", "remote_address=203.0.113.8", "--repeat", "5", "--json"];
    let said = check(&server, &other);
    let summary = said.json();
    assert_eq!((said.code, &summary["ok"], &summary["over_limit"]), (1, &2.into(), &3.into()), "{said:?}");
}
