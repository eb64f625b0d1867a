//! What the gateway counts. Labels are classes of statuses, kinds of failures, and servers by their configured names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use http::StatusCode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use serde_json::{Value, json};
use tidegate::store::Histogram;
use tidegate_overload::InFlightStats;
use tidegate_server::front::{ConnectionLimiter, ShedState, Shown, UpstreamState};

use crate::access_log::AccessLog;
use crate::identity::Identify;
use crate::proxy::Proxy;
use crate::routes::LiveRoutes;
use crate::upstream::{Failure, Group, LoadShedder, ServerStatus};

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const FAILURES: [&str; 3] = ["connect", "reset", "timeout"];
const AUTHENTICATION_FAILURES: [&str; 3] = ["invalid_token", "invalid_api_key", LIMITED];

/// Kind of failed authentication of which nothing was looked at.
pub(crate) const LIMITED: &str = "limited";

/// What the gateway counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    answers: [AtomicU64; CLASSES.len()],
    failures: [AtomicU64; FAILURES.len()],
    authentication_failures: [AtomicU64; AUTHENTICATION_FAILURES.len()],
    pub(crate) retries: AtomicU64,
    /// From sending a request on to the head of its answer.
    pub(crate) upstream: Histogram,
    /// Connections that are not HTTP any more.
    pub(crate) tunnels: Arc<AtomicUsize>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            answers: Default::default(),
            failures: Default::default(),
            authentication_failures: Default::default(),
            retries: AtomicU64::new(0),
            upstream: Histogram::slow(),
            tunnels: Arc::default(),
        }
    }
}

impl Metrics {
    /// An answer with this status goes out.
    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(class) = self.answers.get(class) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request whose credentials were not accepted, or not looked at. Other kinds are no failed authentication.
    pub(crate) fn not_authenticated(&self, kind: &str) {
        let index = AUTHENTICATION_FAILURES.iter().position(|known| *known == kind);
        if let Some(index) = index {
            self.authentication_failures[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A server failed.
    pub(crate) fn failed(&self, failure: Failure) {
        let index = match failure {
            Failure::Connect => 0,
            Failure::Reset => 1,
            Failure::Timeout => 2,
            Failure::Status(_) => return,
        };
        self.failures[index].fetch_add(1, Ordering::Relaxed);
    }
}

/// Everything of a gateway that is shown.
pub(crate) struct Display {
    metrics: Arc<Metrics>,
    routes: Arc<LiveRoutes>,
    identify: Arc<Identify>,
    limiter: Arc<ConnectionLimiter>,
    log: Option<Arc<AccessLog>>,
}

impl Shown for Display {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let metrics = &self.metrics;
        let help = "Answers to clients by class of status";
        let mut family = encoder.encode_descriptor("gateway_answers", help, None, MetricType::Counter)?;
        for (class, count) in CLASSES.iter().zip(&metrics.answers) {
            let labels = [("status", *class)];
            let mut one = family.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, u64>(&count.load(Ordering::Relaxed), None)?;
        }
        let help = "Attempts at servers that failed, by how";
        let mut family =
            encoder.encode_descriptor("gateway_upstream_failures", help, None, MetricType::Counter)?;
        for (kind, count) in FAILURES.iter().zip(&metrics.failures) {
            let labels = [("kind", *kind)];
            let mut one = family.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, u64>(&count.load(Ordering::Relaxed), None)?;
        }
        let help = "Requests with credentials that were not accepted, or not looked at";
        let mut family =
            encoder.encode_descriptor("gateway_auth_failures", help, None, MetricType::Counter)?;
        for (kind, count) in AUTHENTICATION_FAILURES.iter().zip(&metrics.authentication_failures) {
            let labels = [("kind", *kind)];
            let mut one = family.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, u64>(&count.load(Ordering::Relaxed), None)?;
        }
        let help = "From sending a request on to the head of the answer";
        let mut histogram =
            encoder.encode_descriptor("gateway_upstream_seconds", help, None, MetricType::Histogram)?;
        let observed = metrics.upstream.read();
        histogram.encode_histogram::<NoLabelSet>(observed.sum, observed.count, &observed.buckets, None)?;
        self.encode_servers(encoder)?;
        self.encode_load(encoder)?;
        let tunnels = metrics.tunnels.load(Ordering::Relaxed) as u64;
        let help = "Connections that were switched to another protocol, such as WebSocket";
        let gauge = encoder.encode_descriptor("gateway_tunnels", help, None, MetricType::Gauge)?;
        ConstGauge::new(tunnels).encode(gauge)?;
        let retries = metrics.retries.load(Ordering::Relaxed);
        let lost = self.log.as_ref().map_or(0, |log| log.lost());
        for (name, help, value) in [
            ("gateway_retries", "Requests tried at another server", retries),
            (
                "gateway_connections_turned_away",
                "Connections beyond what one address may have",
                self.limiter.turned_away(),
            ),
            (
                "gateway_access_log_lost",
                "Lines that the access log had no room for, or could not write",
                lost,
            ),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn upstreams(&self) -> Vec<UpstreamState> {
        let routes = self.routes.load();
        routes
            .groups()
            .iter()
            .filter_map(|group| Some(upstream_state(group.name(), group.shedder()?)))
            .collect()
    }

    fn status(&self) -> Value {
        let now = Instant::now();
        let routes = self.routes.load();
        let groups: Vec<Value> = routes.groups().iter().map(|group| group_status(group, now)).collect();
        json!({ "routes": routes.routes().len(), "upstreams": groups, "problems": self.identify.problems() })
    }
}

impl Display {
    pub(crate) fn new(proxy: &Proxy, limiter: Arc<ConnectionLimiter>) -> Self {
        Self {
            metrics: Arc::clone(&proxy.metrics),
            routes: Arc::clone(&proxy.routes),
            identify: Arc::clone(&proxy.identify),
            limiter,
            log: proxy.log.clone(),
        }
    }

    /// Writes limits on requests in flight, and requests that were shed because of them.
    fn encode_load(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let routes = self.routes.load();
        let shedders: Vec<(&str, &Arc<LoadShedder>)> =
            routes.groups().iter().filter_map(|group| Some((group.name(), group.shedder()?))).collect();
        let stats: Vec<(&str, InFlightStats)> =
            shedders.iter().map(|(upstream, shedder)| (*upstream, shedder.stats())).collect();
        let help = "Requests in flight at an upstream with a limit on them";
        let mut family = encoder.encode_descriptor("in_flight", help, None, MetricType::Gauge)?;
        for (upstream, stats) in &stats {
            let gauge = ConstGauge::new(u64::from(stats.in_flight));
            gauge.encode(family.encode_family(&[("upstream", *upstream)])?)?;
        }
        let help = "Limit on requests in flight at an upstream";
        let mut family = encoder.encode_descriptor("in_flight_limit", help, None, MetricType::Gauge)?;
        for (upstream, stats) in &stats {
            let gauge = ConstGauge::new(u64::from(stats.limit));
            gauge.encode(family.encode_family(&[("upstream", *upstream)])?)?;
        }
        let mut shed: BTreeMap<String, u64> = BTreeMap::new();
        for (tier, count) in shedders.iter().flat_map(|(_, shedder)| shedder.shed_by_class()) {
            *shed.entry(tier.to_ascii_lowercase()).or_default() += count;
        }
        let help = "Requests that were shed to protect the service, by tier and reason";
        let mut family = encoder.encode_descriptor("shed", help, None, MetricType::Counter)?;
        for (tier, count) in &shed {
            let labels = [("tier", tier.as_str()), ("reason", "in_flight")];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }

    fn encode_servers(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let now = Instant::now();
        let routes = self.routes.load();
        let servers = || {
            let groups = routes.groups().iter();
            groups.flat_map(|group| group.servers(now).into_iter().map(move |server| (group.name(), server)))
        };
        let help = "Whether a server gets requests: 1 if it is well, 0 if it is down or put aside";
        let mut family = encoder.encode_descriptor("gateway_server_up", help, None, MetricType::Gauge)?;
        for (group, server) in servers() {
            let labels = [("upstream", group), ("server", &*server.url)];
            let up = u64::from(server.healthy && server.aside_until.is_none());
            ConstGauge::new(up).encode(family.encode_family(&labels)?)?;
        }
        let help = "Requests under way at a server";
        let mut family =
            encoder.encode_descriptor("gateway_server_requests", help, None, MetricType::Gauge)?;
        for (group, server) in servers() {
            let labels = [("upstream", group), ("server", &*server.url)];
            ConstGauge::new(server.in_flight as u64).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn upstream_state(name: &str, shedder: &LoadShedder) -> UpstreamState {
    let InFlightStats { limit, in_flight, base_latency } = shedder.stats();
    let shed = shedder.shed_by_class().map(|(tier, total)| ShedState { tier: tier.to_owned(), total });
    UpstreamState {
        name: name.to_owned(),
        in_flight,
        limit,
        base_latency_seconds: base_latency.map(|base| base.as_secs_f64()),
        shed: shed.collect(),
    }
}

fn load_status(shedder: &LoadShedder) -> Value {
    let InFlightStats { limit, in_flight, base_latency } = shedder.stats();
    let shed: BTreeMap<&str, u64> = shedder.shed_by_class().collect();
    json!({
        "limit": limit,
        "in_flight": in_flight,
        "base_latency_ms": base_latency.map(|base| (base.as_secs_f64() * 1_000_000.0).round() / 1_000.0),
        "shed": shed,
    })
}

fn group_status(group: &Group, now: Instant) -> Value {
    let server = |server: ServerStatus| {
        json!({
            "url": server.url,
            "healthy": server.healthy,
            "aside": server.aside_until.is_some(),
            "in_flight": server.in_flight,
            "requests": server.requests,
            "failures": server.failures,
            "last_problem": server.last_problem.map(|problem| problem.what),
        })
    };
    let servers: Vec<Value> = group.servers(now).into_iter().map(server).collect();
    json!({
        "upstream": group.name(),
        "servers": servers,
        "desperate_picks": group.desperate_picks(),
        "concurrency": group.shedder().map(|shedder| load_status(shedder)),
    })
}
