//! What Prometheus reads.
//!
//! Labels are bounded by the rules and the store: a rule, a known tier, an outcome, a shard; never a user or an address.

mod alerts;
mod cluster;
mod connections;
mod decisions;
mod descriptors;
mod insight;
mod modes;
mod store;
mod threads;
mod tiers;
mod traces;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

pub(crate) use decisions::{Counted, Counts, Decisions, Table};
pub(crate) use descriptors::DescriptorCounts;
pub(crate) use modes::ModeChanges;

use tidegate::store::{Histogram, Timing};

use crate::node::Node;

/// The format [`scrape`] writes.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a node counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) decisions: Decisions,
    pub(crate) descriptors: DescriptorCounts,
    pub(crate) decision_seconds: Timing,
    pub(crate) rules_load_errors: AtomicU64,
    pub(crate) mode_changes: ModeChanges,
}

/// All of a node's metrics as text.
pub(crate) fn scrape(node: &Arc<Node>) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("tidegate");
    registry.register_collector(Box::new(Scrape(Arc::clone(node))));
    let mut out = String::with_capacity(4096);
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[derive(Debug)]
struct Scrape(Arc<Node>);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let node = &self.0;
        let metrics = &node.metrics;
        let family = encoder.encode_descriptor(
            "decisions",
            "Decisions by rule, tier and outcome; shadow rules that refused are counted besides",
            None,
            MetricType::Counter,
        )?;
        metrics.decisions.encode(family)?;
        let family = encoder.encode_descriptor(
            "descriptors",
            "Descriptors by rule, values and outcome, for rules with detailed_metric or value_to_metric",
            None,
            MetricType::Counter,
        )?;
        metrics.descriptors.encode(family)?;
        let histogram = encoder.encode_descriptor(
            "decision_seconds",
            "How long decisions took",
            None,
            MetricType::Histogram,
        )?;
        encode_histogram(&metrics.decision_seconds.histogram, histogram)?;
        let mode = node.health.mode() as u64;
        gauge(&mut encoder, "operating_mode", "0 normal, 1 degraded, 2 emergency", mode)?;
        let help = "How often the operating mode changed, by what it changed to";
        let family = encoder.encode_descriptor("mode_changes", help, None, MetricType::Counter)?;
        metrics.mode_changes.encode(family)?;
        gauge(
            &mut encoder,
            "rules_version",
            "The version of the rules in force",
            node.limiter.rules().version(),
        )?;
        if let Some(pulse) = &node.pulse {
            let help = "How long ago the source of the rules last showed that it is there and has no others";
            let age = encoder.encode_descriptor("rules_age_seconds", help, None, MetricType::Gauge)?;
            ConstGauge::new(pulse.age().as_secs_f64()).encode(age)?;
        }
        let aside = u64::try_from(node.aside().len()).unwrap_or(u64::MAX);
        gauge(&mut encoder, "rules_quarantined", "Rule documents that are bad and not in force", aside)?;
        let errors = metrics.rules_load_errors.load(Ordering::Relaxed);
        counter(&mut encoder, "rules_load_errors", "Rules that could not be put in force", errors)?;
        let help = "Decisions taken without the store: counted by this node, failed open or unavailable";
        counter(&mut encoder, "fallback_requests", help, metrics.decisions.fallbacks())?;
        store::encode(&node.limiter, &mut encoder)?;
        threads::encode(&node.data_threads, &mut encoder)?;
        connections::encode(&node.limiters, &mut encoder)?;
        tiers::encode(&node.limiter, &mut encoder)?;
        waiting::encode(&node.limiter, &mut encoder)?;
        insight::encode(&node.insight, &mut encoder)?;
        alerts::encode(&node.alerts, &mut encoder)?;
        if let Some(cluster) = &node.cluster {
            cluster::encode(cluster.fleet().cluster(), &mut encoder)?;
        }
        node.tracer().map_or(Ok(()), |tracer| traces::encode(tracer, &mut encoder))?;
        if let Some(gateway) = node.gateway() {
            gateway.encode(&mut encoder)?;
        }
        let mut info = encoder.encode_descriptor("build", "What this is", None, MetricType::Info)?;
        info.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

fn encode_histogram(histogram: &Histogram, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
    let observed = histogram.read();
    encoder.encode_histogram::<NoLabelSet>(observed.sum, observed.count, &observed.buckets, None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> std::fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> std::fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}
