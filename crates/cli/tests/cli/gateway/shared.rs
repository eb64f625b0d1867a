//! Several gateways, one limit.

use std::process::{Command, Stdio};

use tempfile::TempDir;
use tidegate_testkit::{Redis, ReverseProxy};

use super::Gateway;
use crate::support::{ask, wait_for};

const GATEWAYS: usize = 3;

/// A thousand an hour; but no hour ends while this runs.
const RULES: &str = "rules:\n  - {rule_id: thousand, identifier_type: ip_address, limit: 1000, window: 52w, algorithm: fixed_window}\n";

/// How many answers had such a status, as h2load tells it.
fn count(told: &str, class: &str) -> u64 {
    let line =
        told.lines().find(|line| line.starts_with("status codes:")).unwrap_or_else(|| panic!("{told}"));
    let part =
        line.trim_start_matches("status codes:").split(',').find(|part| part.ends_with(class)).unwrap();
    part.split_whitespace().next().unwrap().parse().unwrap()
}

/// Ten thousand requests, of which the back end's own log has as many as are allowed.
#[test]
fn the_back_end_sees_exactly_what_is_allowed() {
    let nginx = ReverseProxy::nginx(|place| {
        format!(
            "events {{}} pid nginx.pid; http {{ client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; \
             uwsgi_temp_path d; scgi_temp_path e; access_log access.log; keepalive_requests 100000; \
             server {{ listen {}; location / {{ return 200 \"well\"; }} }} }}",
            place.listener
        )
    });
    let (redis, folder) = (Redis::start(), TempDir::new().unwrap());
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, RULES).unwrap();
    let upstream = format!("http://{}", nginx.address());
    let (store, rules) = (redis.url(), rules.display().to_string());
    let args = [
        "--upstream",
        &upstream,
        "--rules",
        &rules,
        "--store",
        &store,
        "--nodes",
        "3",
        "--store-timeout",
        "20s",
    ];
    let gateways: Vec<Gateway> = (0..GATEWAYS).map(|_| Gateway::start(&args)).collect();
    for gateway in &gateways {
        wait_for("the store decides", || {
            let (_, told) = ask(&gateway.admin, "POST", "/v1/explain", r#"{"resource":"/"}"#);
            told.contains(r#""status":"enforced""#).then_some(())
        });
    }
    // Half of the clients speak HTTP/1.1, the others HTTP/2.
    let plan = gateways
        .iter()
        .flat_map(|gateway| [(gateway, "--h1"), (gateway, "-m16")])
        .zip(["1670", "1666", "1666", "1666", "1666", "1666"]);
    let loads: Vec<_> = plan
        .map(|((gateway, version), requests)| {
            let url = format!("http://{}/", gateway.listen);
            let args = ["-n", requests, "-c", "4", "-t", "1", version, &url];
            Command::new("h2load").args(args).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let told: Vec<String> = loads
        .into_iter()
        .map(|load| String::from_utf8(load.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    let total = |class: &str| -> u64 { told.iter().map(|told| count(told, class)).sum() };
    assert_eq!((total("2xx"), total("4xx"), total("5xx")), (1_000, 9_000, 0), "{told:#?}");
    let log = std::fs::read_to_string(nginx.folder().join("access.log")).unwrap();
    assert_eq!(log.lines().count(), 1_000);
}
