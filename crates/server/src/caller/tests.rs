use super::*;
use crate::config::AdminTokens;
use crate::tokens::NamedToken;

const ALICE: &str = "tg_0000000000000000000000000000000000000000000000000000000000000001";
const BOB: &str = "tg_0000000000000000000000000000000000000000000000000000000000000002";
const SHARED_TOKEN: &str = "s3cret";

const IN: &str = "127.0.0.1";
const NEAR: &str = "10.0.0.1";
const FAR: &str = "192.0.2.1";

/// A configuration by what is in it: `named`, `token`, `net` (which [`NEAR`] is in), `deny`.
fn config(parts: &str) -> Config {
    let has = |part: &str| parts.split(' ').any(|each| each == part);
    let line = |name, role, secret| NamedToken::new(name, role, secret).unwrap().to_string();
    let (alice, bob) = (line("alice", Role::Write, ALICE), line("bob", Role::Read, BOB));
    Config {
        admin_tokens: has("named").then(|| AdminTokens::Inline(format!("{alice},{bob}"))),
        token: has("token").then(|| SHARED_TOKEN.to_owned()),
        allowed_networks: has("net").then(|| "10.0.0.0/8".parse().unwrap()).into_iter().collect(),
        admin_local: !has("deny"),
        ..Config::default()
    }
}

/// Who is admitted, as `name role`, or the status of the refusal.
fn admit(parts: &str, peer: &str, authorization: &[&str], method: &str, path: &str) -> String {
    let config = config(parts);
    let access = Access::new(&config).unwrap();
    let gate = Gate::new(&config, &access).unwrap();
    let request = Request::builder().method(method).uri(path);
    let request = authorization.iter().fold(request, |request, value| request.header(AUTHORIZATION, *value));
    match gate.admit(&access, peer.parse().unwrap(), &request.body(()).unwrap()) {
        Ok(Caller { name, role }) => format!("{name} {role}"),
        Err(wrong) => wrong.status().as_u16().to_string(),
    }
}

/// What becomes of callers who send nothing, the shared token, a wrong one, bob's (read) and alice's (write).
fn check(parts: &str, peer: &str, path: &str, expected: [&str; 5]) {
    let sent = [None, Some(SHARED_TOKEN), Some("wrong"), Some(BOB), Some(ALICE)];
    for (token, expected) in sent.iter().zip(expected) {
        let value = token.map(|token| format!("Bearer {token}"));
        let values: Vec<&str> = value.iter().map(String::as_str).collect();
        let caller = admit(parts, peer, &values, "GET", path);
        assert_eq!(caller, expected, "{parts:?} {peer} {token:?} {path}");
    }
}

#[test]
fn who_asks() {
    let table = [
        ("", IN, ["local write"; 5]),
        ("", FAR, ["network read"; 5]),
        ("net", IN, ["local write"; 5]),
        ("net", NEAR, ["network read"; 5]),
        ("net", FAR, ["403"; 5]),
        ("token", IN, ["local write", "token write", "401", "401", "401"]),
        ("token", FAR, ["401", "token write", "401", "401", "401"]),
        ("token net", NEAR, ["401", "token write", "401", "401", "401"]),
        ("token net", FAR, ["403"; 5]),
        ("token deny", IN, ["401", "token write", "401", "401", "401"]),
        ("named", IN, ["local write", "401", "401", "bob read", "alice write"]),
        ("named", FAR, ["401", "401", "401", "bob read", "alice write"]),
        ("named deny", IN, ["401", "401", "401", "bob read", "alice write"]),
        ("named net", NEAR, ["401", "401", "401", "bob read", "alice write"]),
        ("named net", FAR, ["403"; 5]),
        ("named token", IN, ["local write", "401", "401", "bob read", "alice write"]),
        ("named token", FAR, ["401", "401", "401", "bob read", "alice write"]),
        ("named token deny", IN, ["401", "401", "401", "bob read", "alice write"]),
    ];
    for (parts, peer, expected) in table {
        check(parts, peer, "/v1/rules", expected);
    }
}

/// For probes and scrapers, whatever was open without named tokens stays so with them.
#[test]
fn who_watches() {
    let table = [
        ("token", IN, ["local write", "token write", "watcher read", "watcher read", "watcher read"]),
        ("token", FAR, ["401", "token write", "401", "401", "401"]),
        ("token deny", IN, ["watcher read", "token write", "watcher read", "watcher read", "watcher read"]),
        ("token net", NEAR, ["401", "token write", "401", "401", "401"]),
        ("named", IN, ["local write", "watcher read", "watcher read", "bob read", "alice write"]),
        ("named", FAR, ["401", "401", "401", "bob read", "alice write"]),
        ("named deny", IN, ["watcher read", "watcher read", "watcher read", "bob read", "alice write"]),
        ("named net", NEAR, ["watcher read", "watcher read", "watcher read", "bob read", "alice write"]),
        ("named net", FAR, ["403"; 5]),
        ("named token", FAR, ["401", "watcher read", "401", "bob read", "alice write"]),
        (
            "named token net",
            NEAR,
            ["watcher read", "watcher read", "watcher read", "bob read", "alice write"],
        ),
        ("named token net", FAR, ["403"; 5]),
    ];
    for (parts, peer, expected) in table {
        WATCHED.into_iter().for_each(|path| check(parts, peer, path, expected));
    }
}

#[test]
fn only_one_bearer_token_counts() {
    let (alice, bob) = (format!("Bearer {ALICE}"), format!("bearer   {BOB} "));
    for (sent, expected) in [
        (vec![bob.as_str()], "bob read"),
        (vec![alice.as_str(), alice.as_str()], "401"),
        (vec![bob.as_str(), "Basic eDp5"], "401"),
        (vec!["Basic eDp5"], "401"),
        (vec!["Bearer"], "401"),
        (vec![""], "401"),
        (vec![ALICE], "401"),
    ] {
        assert_eq!(admit("named", IN, &sent, "GET", "/v1/rules"), expected, "{sent:?}");
    }
}

#[test]
fn changes_need_the_role_write() {
    let (alice, bob) = (format!("Bearer {ALICE}"), format!("Bearer {BOB}"));
    for (method, path, bob_gets) in [
        ("GET", "/v1/rules", "bob read"),
        ("HEAD", "/v1/rules", "bob read"),
        ("POST", "/v1/explain", "bob read"),
        ("POST", "/v1/rules/validate", "bob read"),
        ("POST", "/v1/rules/validate/", "403"),
        ("PUT", "/v1/rules/validate", "403"),
        ("DELETE", "/v1/explain", "403"),
        ("POST", "/v1/rules", "403"),
        ("PUT", "/v1/rules/a", "403"),
        ("PATCH", "/v1/rules/a", "403"),
        ("DELETE", "/v1/rules/a", "403"),
        ("OPTIONS", "/v1/rules", "403"),
        ("POST", "/health", "403"),
    ] {
        assert_eq!(admit("named", FAR, &[&bob], method, path), bob_gets, "{method} {path}");
        assert_eq!(admit("named", FAR, &[&alice], method, path), "alice write", "{method} {path}");
        assert_eq!(admit("named", IN, &[], method, path), "local write", "{method} {path}");
        let network = bob_gets.replace("bob", "network");
        assert_eq!(admit("net", NEAR, &[], method, path), network, "{method} {path}");
    }
    assert_eq!(admit("named net", NEAR, &[], "POST", "/health"), "401", "watching changes nothing");
}

#[test]
fn somebody_on_this_machine_must_be_able_to_ask() {
    for parts in ["deny", "deny net"] {
        let config = config(parts);
        let gate = Gate::new(&config, &Access::new(&config).unwrap());
        assert!(matches!(gate, Err(StartError::AdminLocal)), "{parts}");
    }
}
