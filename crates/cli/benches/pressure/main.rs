//! Effect of a flood of free traffic on paying customers.
//!
//! A back end of ten workers that take 20 ms for a request (500 requests/s), clients of three tiers that send whether or not they are
//! answered and give up after a second, and a proxy between them, a process of its own. For 10 s the back end has 80 % of what it can
//! serve to do, half of it for the tier free; then requests of that tier come ten or twenty times as often for 30 s.

#![allow(clippy::panic, reason = "a benchmark")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures of a benchmark are small and positive"
)]

mod backend;
mod clients;
mod report;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use backend::Backend;
use clients::{TIERS, Traffic};
use report::Report;
use tempfile::TempDir;
use tidegate_testkit::{Launch, Process, ReverseProxy, wait};

/// Lengths of the parts, in seconds.
const QUIET: usize = 10;
const SPIKE: usize = 30;
const RECOVERY: usize = 15;

/// Factors by which requests of the tier free are more frequent during the spike.
const SPIKES: [f64; 2] = [10.0, 20.0];

const RULES: &str = "
plans: {PREMIUM: 3, STANDARD: 2, FREE: 1}
rules: [{rule_id: everybody, identifier_type: user_id, base_limit: 100000000, window: 1m}]
";

fn main() {
    let folder = TempDir::new().expect("a folder");
    let backend = Backend::start();
    let capacity = backend::measured_capacity();
    println!(
        "{:<26} {:>6} {:>9} {:>9} {:>9} {:>15} {:>9} {:>9} {:>9} {:>9}",
        "", "spike", "premium", "standard", "free", "p99 premium", "goodput", "varies", "recovers", "shed"
    );
    for times in SPIKES {
        for contestant in [Contestant::Unprotected, Contestant::Adaptive, Contestant::Envoy] {
            let proxy = contestant.start(folder.path(), backend.address());
            let seconds = (QUIET + SPIKE + RECOVERY) as u64;
            let spike = QUIET as f64..(QUIET + SPIKE) as f64;
            let traffic = Traffic { to: proxy.address(), spike, times, length: Duration::from_secs(seconds) };
            Report::of(&traffic.send()).print(contestant.name(), times);
            backend.forget();
        }
    }
    println!(
        "\nserved during the spike, in %; p99 during and before it, in ms; requests served per second, of {capacity:.0} that the back\n\
         end can serve; coefficient of variation of these in %; seconds after the spike until all are served; not served before\n\
         the spike, in %"
    );
}

#[derive(Clone, Copy)]
enum Contestant {
    Unprotected,
    Adaptive,
    Envoy,
}

enum Proxy {
    Gateway(SocketAddr, #[expect(dead_code, reason = "ends with it")] Process),
    Envoy(ReverseProxy),
}

impl Proxy {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Gateway(address, _) => *address,
            Self::Envoy(envoy) => envoy.address(),
        }
    }
}

impl Contestant {
    fn name(self) -> &'static str {
        match self {
            Self::Unprotected => "gateway, no limit",
            Self::Adaptive => "gateway, adaptive",
            Self::Envoy => "Envoy, adaptive_concurrency",
        }
    }

    fn start(self, folder: &Path, backend: SocketAddr) -> Proxy {
        match self {
            Self::Unprotected => gateway(folder, backend, "off"),
            Self::Adaptive => gateway(folder, backend, "adaptive"),
            Self::Envoy => Proxy::Envoy(envoy(backend)),
        }
    }
}

fn gateway(folder: &Path, backend: SocketAddr, concurrency: &str) -> Proxy {
    let [rules, routes, log] = ["rules.yaml", "routes.yaml", "gateway.log"].map(|name| folder.join(name));
    fs::write(&rules, RULES).expect("a file");
    let document = format!(
        "upstreams: {{api: {{servers: 'http://{backend}', concurrency: {concurrency}, max_idle: 10000}}}}\n\
         routes: [{{upstream: api, retries: 0}}]\n"
    );
    fs::write(&routes, document).expect("a file");
    fs::remove_file(&log).ok();
    let mut args = vec!["gateway".to_owned()];
    let fixed =
        ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "json", "--max-streams", "20000"];
    args.extend(fixed.into_iter().chain(["--tier-header", "x-tier"]).map(Into::into));
    args.extend(["--rules".to_owned(), rules.display().to_string()]);
    args.extend(["--routes".to_owned(), routes.display().to_string()]);
    let process = Launch::new(env!("CARGO_BIN_EXE_tidegate"), log).args(args).start();
    let place = || {
        let log = process.log();
        let (_, rest) = log.split_once("\"gateway\":\"")?;
        rest.split('"').next()?.parse::<SocketAddr>().ok()
    };
    let address = wait::poll(Duration::from_secs(30), place);
    Proxy::Gateway(address.unwrap_or_else(|| panic!("it says where it is: {}", process.log())), process)
}

/// With the values of Envoy's documentation, but for a base latency that is measured more often.
fn envoy(backend: SocketAddr) -> ReverseProxy {
    ReverseProxy::envoy(|place| {
        let (host, port) = (place.listener.ip(), place.listener.port());
        format!(
            r#"
admin: {{address: {{socket_address: {{address: {}, port_value: {}}}}}}}
static_resources:
  listeners:
  - address: {{socket_address: {{address: {host}, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: all
          codec_type: HTTP2
          http2_protocol_options: {{max_concurrent_streams: 20000}}
          route_config:
            virtual_hosts: [{{name: all, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: backend, timeout: 10s}}}}]}}]
          http_filters:
          - name: envoy.filters.http.adaptive_concurrency
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
              enabled: {{default_value: true, runtime_key: enabled}}
              gradient_controller_config:
                sample_aggregate_percentile: {{value: 90}}
                concurrency_limit_params: {{concurrency_update_interval: 0.1s}}
                min_rtt_calc_params: {{jitter: {{value: 10}}, interval: 30s, request_count: 50}}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: backend
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_pending_requests: 20000, max_requests: 20000}}]}}
    load_assignment:
      cluster_name: backend
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {}, port_value: {}}}}}}}}}]}}]
"#,
            place.admin.ip(),
            place.admin.port(),
            backend.ip(),
            backend.port()
        )
    })
}

/// Requests per second of a tier while nothing is special.
fn usual_rate(tier: usize) -> f64 {
    let shares = [0.4, 0.2, 0.2];
    debug_assert_eq!(shares.len(), TIERS.len());
    shares[tier] * backend::CAPACITY
}
