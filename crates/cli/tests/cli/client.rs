//! `tidegate check` and `tidegate explain`, with and without a server.

use std::net::TcpListener;

use crate::support::{Said, Server, fixture, run};

fn check(server: &Server, args: &[&str]) -> Said {
    run(["check", "--server", &server.http].iter().chain(args))
}

fn explain(server: &Server, args: &[&str]) -> Said {
    run(["explain", "--admin", &server.admin].iter().chain(args))
}

#[test]
fn a_check_counts_and_its_exit_code_says_whether() {
    let server = Server::start(&[]);
    let login = ["--ip", "203.0.113.7", "--method", "POST", "/auth/login"];
    let said = check(&server, &login);
    assert_eq!((said.code, said.out.as_str()), (0, "allowed by login_attempt_ip: 4 left (limit 5)\n"));
    for left in (0..4).rev() {
        let said = check(&server, &[&["--json"], &login[..]].concat());
        assert_eq!((said.code, said.json()["remaining"].as_u64()), (0, Some(left)));
    }
    let said = check(&server, &login);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out.starts_with("refused by login_attempt_ip: 0 left (limit 5); try again in "),
        "{}",
        said.out
    );
    let said = check(&server, &[&["--json"], &login[..]].concat());
    assert_eq!((said.code, said.json()["allowed"].as_bool()), (1, Some(false)));
    assert_eq!(check(&server, &["/static/logo.png"]).out, "allowed: no rule applies\n");
}

#[test]
fn everything_about_a_request_can_be_said() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    let text = "tiers: {gold: {limit: 7, window: 1h}, tin: {limit: 1, window: 1h}}\nrules:\n  \
        - {rule_id: all, identifier_type: [tenant_id, user_id, api_key, 'header:x-a', 'attribute:b'], \
           on_missing_identity: skip, tiered: true, match: {methods: [PUT], ip_subnet: 192.0.2.0/24, \
           required_headers: {x-a: '1'}, required_attributes: {b: '2=3'}}}\n  \
        - {rule_id: watch, identifier_type: global, limit: 0, window: 1s, shadow: true}\n";
    std::fs::write(&rules, text).unwrap();
    let server = Server::start(&["--rules", rules.to_str().unwrap()]);
    let args = [
        "--tenant",
        "acme",
        "--user",
        "alice",
        "--tier",
        "gold",
        "--method",
        "PUT",
        "--ip",
        "192.0.2.1",
        "--api-key",
        "k",
        "--header",
        "x-a=1",
        "--attribute",
        "b=2=3",
        "--cost",
        "3",
        "--request-id",
        "r-1",
        "/x",
    ];
    let said = check(&server, &[&["--json"], &args[..]].concat());
    let decision = said.json();
    assert_eq!((decision["rule_id"].as_str(), decision["remaining"].as_u64()), (Some("all"), Some(4)));
    let repeated = check(&server, &args);
    assert_eq!(repeated.code, 0, "{repeated:?}");
    assert!(repeated.out.starts_with("allowed by all: 4 left (limit 7)\n\n"), "{}", repeated.out);
    assert!(repeated.out.contains("would refuse (shadow)"), "{}", repeated.out);
}

#[test]
fn an_explanation_consumes_nothing() {
    let server = Server::start(&[]);
    let args = ["--user", "alice", "--method", "GET", "/orders/7"];
    for _ in 0..3 {
        let said = explain(&server, &args);
        assert_eq!(said.code, 0, "{said:?}");
        let row = said.out.lines().find(|line| line.trim_start().starts_with("api_user_get_orders")).unwrap();
        assert!(row.contains(" alice ") && row.contains(" 50 "), "{row}");
    }
    assert_eq!(check(&server, &[&["--json"], &args[..]].concat()).json()["remaining"], 49);
    let explained = explain(&server, &[&["--json"], &args[..]].concat()).json();
    assert_eq!(explained["rules"][0]["identity"], "alice");
    assert_eq!(explain(&server, &["/static/logo.png"]).out, "would be allowed: no rule applies\n");
}

#[test]
fn a_file_can_be_asked_without_a_server() {
    let rules = fixture("login.yaml");
    let args = [
        "explain",
        "--rules",
        rules.to_str().unwrap(),
        "--ip",
        "2001:db8::1",
        "--method",
        "POST",
        "/auth/login",
    ];
    let said = run(args);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with("would be allowed by login_attempt_ip: "), "{}", said.out);
    assert!(said.out.contains("2001:db8::"), "{}", said.out);
    let explained = run(args.iter().chain(&["--json"])).json();
    assert_eq!(explained["rules"][0]["rule_id"], "login_attempt_ip");
    run(["explain", "--rules", "/nowhere.yaml", "/x"])
        .complains(1, &["/nowhere.yaml", "cannot read the file"]);
    run(["explain", "--rules", "a.yaml", "--admin", "b:1", "/x"]).complains(2, &["cannot be used with"]);
}

#[test]
fn a_server_that_is_not_there_is_said_with_how_to_start_it() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let said = run(["check", "--server", &format!("http://{free}"), "/x"]);
    said.complains(1, &["cannot ask http://", &free, "Start a server with `tidegate serve`", "--server URL"]);
    run(["explain", "--admin", &free, "/x"]).complains(1, &["tidegate serve", "--admin URL"]);
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let said = run(["check", "--server", &address, "--timeout", "50ms", "/x"]);
    said.complains(1, &["no answer within 50ms"]);
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let server = Server::start(&[]);
    check(&server, &["--ip", "300.1.1.1", "/x"]).complains(2, &["--ip", "300.1.1.1"]);
    check(&server, &["--cost", "-1", "/x"]).complains(2, &["--cost"]);
    check(&server, &["--header", "a", "/x"]).complains(2, &["NAME=VALUE"]);
    check(&server, &[]).complains(2, &["<RESOURCE>"]);
    check(&server, &[""]).complains(2, &["`resource` is empty"]);
    check(&server, &["--user", "a\nb", "/x"]).complains(2, &["`user` contains the control character"]);
    check(&server, &["--server", "https://example.com", "/x"])
        .complains(2, &["cannot be used multiple times"]);
    run(["check", "--server", "https://example.com", "/x"]).complains(2, &["only http:// is spoken"]);
    explain(&server, &["/%zz"]).complains(2, &["%"]);
}
