//! Who is in the pictures: rules, users, and what they do.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::traffic::Traffic;
use crate::support::{Server, answer, begin_with, run};

const ACCOUNTS: &str = "\
rules:
  # Nobody guesses passwords faster than this.
  - rule_id: login_attempts
    description: Passwords tried from one address
    identifier_type: ip_address
    algorithm: fixed_window
    limit: 5
    window: 1m
    priority: 5
    match: { path_pattern: /auth/login, methods: [POST] }
  - rule_id: password_reset
    description: Mails with a link for a new password
    identifier_type: user_id
    limit: 3
    window: 1h
    priority: 6
    match: { path_pattern: /auth/reset, methods: [POST] }
";

const CATALOGUE: &str = "\
rules:
  # Searching is dear: counted to the request.
  - rule_id: search
    description: Searches of one user
    identifier_type: user_id
    algorithm: sliding_log
    limit: 20 # in any ten seconds
    window: 10s
    priority: 10
    match: { path_pattern: /search }
  - rule_id: exports
    description: Reports, which take minutes each
    identifier_type: tenant_id
    algorithm: token_bucket
    limit: 30
    window: 1m
    burst: 10
    priority: 20
    match: { path_pattern: /reports/**, methods: [POST] }
  - rule_id: checkout
    description: Orders that are paid for
    identifier_type: user_id
    limit: 10
    window: 10s
    priority: 30
    on_store_failure: deny
    match: { path_pattern: /checkout, methods: [POST] }
";

const TIERS: &str = "\
tiers:
  free: { limit: 4, window: 1s }
  basic: { limit: 20, window: 1s }
  premium: { limit: 500, window: 1s, burst: 1000 }
default_tier: free
rules:
  - rule_id: per_user
    description: Everything else, by the user's tier
    identifier_type: user_id
    tiered: true
    priority: 50
    match: { path_pattern: /** }
  - rule_id: per_tenant
    description: All users of a tenant together
    identifier_type: tenant_id
    algorithm: sliding_window
    limit: 60000
    window: 1m
    priority: 60
  - rule_id: address_trial
    description: On trial, to see whom it would hit
    identifier_type: ip_address
    on_missing_identity: skip
    algorithm: sliding_window
    limit: 900
    window: 1m
    priority: 90
    shadow: true
";

/// Writes eight rules in three documents.
pub(super) fn write_rules(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for (name, text) in [("accounts.yaml", ACCOUNTS), ("catalogue.yaml", CATALOGUE), ("tiers.yaml", TIERS)] {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// A token that changes are made with, and its line.
pub(super) fn token() -> (String, String) {
    let made = run(["token", "new", "--name", "on-call", "--role", "write", "--json"]).json();
    (made["token"].as_str().unwrap().to_owned(), made["line"].as_str().unwrap().to_owned())
}

/// Gives a rule a past.
pub(super) fn change_rules(node: &Server, token: &str) {
    let rule = "# Searching is dear: counted to the request.\nrule_id: search\ndescription: Searches of one user\n\
                identifier_type: user_id\nalgorithm: sliding_log\nlimit: LIMIT # in any ten seconds\nwindow: 10s\n\
                priority: 10\nmatch: { path_pattern: /search }\n";
    for (limit, more) in [("30", format!("authorization: Bearer {token}\r\n")), ("25", String::new())] {
        let text = rule.replace("LIMIT", limit);
        let mut stream = begin_with(&node.admin, "PUT", "/v1/rules/search", text.len(), &more);
        stream.write_all(text.as_bytes()).unwrap();
        let (status, said) = answer(stream);
        assert_eq!(status, 200, "{said}");
    }
}

/// Users of six tenants on all nodes, one of whom is far busier than the others.
pub(super) fn traffic(nodes: &[Server]) -> Traffic {
    let mut traffic = Traffic::none();
    for (number, node) in (0u64..).zip(nodes) {
        for client in 0..2 {
            let pause = Duration::from_millis(12 + 5 * number);
            traffic.add(&node.http, "/v1/check", pause, move |turn| one(number * 2 + client, turn));
        }
    }
    let busy = json!({"user": "user-17", "tenant": "tenant-3", "tier": "premium", "method": "GET", "resource": "/items/42"});
    let batch = json!(vec![busy; 20]).to_string();
    traffic.add(&nodes[0].http, "/v1/check/batch", Duration::from_millis(95), move |_| batch.clone());
    traffic
}

/// What a client asks in its next turn: anything, but the same in every run.
fn one(client: u64, turn: u64) -> String {
    let dice = mixed(client << 32 | turn);
    // More come in some seconds than in others, and some users more often.
    let user = if dice % 5 < 2 { dice / 7 % 4 } else { dice / 7 % 40 };
    let tenant = user % 6 + 1;
    let tier = ["free", "basic", "premium"][usize::try_from(user % 3).unwrap()];
    let (method, resource) = match dice / 11 % 20 {
        0 => ("POST", "/auth/login"),
        1 => ("POST", "/checkout"),
        2 => ("POST", "/reports/monthly"),
        3..=7 => ("GET", "/search"),
        8..=13 => ("GET", "/orders/7"),
        _ => ("GET", "/items/42"),
    };
    let ip = format!("203.0.113.{}", user + 1);
    let (user, tenant) = (format!("user-{user}"), format!("tenant-{tenant}"));
    json!({"user": user, "tenant": tenant, "tier": tier, "ip": ip, "method": method, "resource": resource})
        .to_string()
}

/// Numbers without a pattern that one could see.
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
