//! What `tidegate serve` says once it is there.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tidegate_core::RuleSet;
use tidegate_server::Addresses;

use crate::sample;
use crate::settings::Settings;
use crate::store::Store;
use crate::terminal::{FAINT, STRONG, count, number, safe};

/// The most rules that are named.
const NAMED: usize = 8;

/// Says where everything is, and what to try.
pub(crate) fn write(
    out: &mut dyn Write,
    at: Addresses,
    settings: &Settings,
    rules: &RuleSet,
    store: &str,
) -> io::Result<()> {
    writeln!(out, "{STRONG}Tidegate {}{STRONG:#}", env!("CARGO_PKG_VERSION"))?;
    let lines = [
        ("http", format!("http://{}", at.http), "/v1/check, /v1/check/batch, /v1/authorize, /json"),
        ("grpc", at.grpc.to_string(), "Envoy's rate limit service, tidegate.v1, health, reflection"),
        ("admin", format!("http://{}", at.admin), "the dashboard, /health, /metrics, /v1/rules"),
    ];
    let width = lines.iter().map(|(_, place, _)| place.len()).max().unwrap_or_default();
    for (name, place, what) in lines {
        writeln!(out, "  {name:<5}  {STRONG}{place:<width$}{STRONG:#}  {FAINT}{what}{FAINT:#}")?;
    }
    writeln!(out, "  rules  {}", safe(&describe(settings, rules)))?;
    writeln!(out, "  store  {}", safe(store))?;
    writeln!(out, "\nTry it:\n  {}\n", safe(&curl(at.http, settings, rules)))
}

/// Says where counters are, and what keeps them from being used, if anything does.
pub(crate) fn store(settings: &Settings, problem: Option<&str>) -> String {
    match (&settings.store, problem) {
        (Store::Memory, _) => format!("memory, up to {} counters", number(settings.config.max_keys as u64)),
        (shared, Some(problem)) => format!("{shared} NOT CONNECTED: {problem}"),
        (shared, None) => {
            format!("{shared}, shared; a decision waits {:?} for it", settings.config.store_timeout)
        }
    }
}

pub(crate) fn describe(settings: &Settings, rules: &RuleSet) -> String {
    let source = match &settings.rules {
        Some(source) => source.to_string(),
        None => "built-in examples (--rules FILE for your own)".to_owned(),
    };
    let mut names: Vec<&str> = rules.rules().take(NAMED).map(|rule| &*rule.id).collect();
    if rules.len() > NAMED {
        names.push("\u{2026}");
    }
    let colon = if names.is_empty() { "" } else { ": " };
    format!("{source}, {}{colon}{}", count(rules.len() as u64, "rule"), names.join(", "))
}

/// A command that works when it is pasted.
pub(crate) fn curl(http: SocketAddr, settings: &Settings, rules: &RuleSet) -> String {
    let (path, body) = match &settings.rules {
        Some(_) => sample::request(rules),
        None => {
            ("/v1/check", serde_json::json!({ "user": "alice", "method": "GET", "resource": "/orders/7" }))
        }
    };
    let to = reachable(http);
    let token = match &settings.config.token {
        // Callers on this machine need none, but an address of the network does not look like this machine.
        Some(_) if !to.ip().to_canonical().is_loopback() => " -H \"Authorization: Bearer $TIDEGATE_TOKEN\"",
        _ => "",
    };
    format!("curl -s http://{to}{path}{token} -d {}", sample::quoted(&body.to_string()))
}

/// Where to send something to that listens at `bound`, which may be everywhere.
pub(crate) fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}
