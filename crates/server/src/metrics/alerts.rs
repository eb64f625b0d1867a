//! Which alerts fire, how busy the store says it is, and how deliveries to a webhook went.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::alerts::{Alert, Alerts, Deliveries, Load};

/// Writes all of it.
pub(super) fn encode(alerts: &Alerts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Whether an alert fires: 1 if it does, 0 if not";
    let mut family = encoder.encode_descriptor("alerts", help, None, MetricType::Gauge)?;
    for alert in Alert::ALL {
        let fires = u64::from(alerts.read(|evaluator| evaluator.is_active(alert)));
        let labels = [("alert", alert.name()), ("severity", alert.severity().name())];
        family.encode_family(&labels)?.encode_gauge(&fires)?;
    }
    loads(alerts, encoder)?;
    let Some(courier) = &alerts.courier else { return Ok(()) };
    let Deliveries { delivered, failed, given_up, .. } = courier.deliveries();
    let help = "Posts of alerts to the webhook: delivered, failed (tried again), given_up";
    let mut family = encoder.encode_descriptor("alert_posts", help, None, MetricType::Counter)?;
    for (outcome, count) in [("delivered", delivered), ("failed", failed), ("given_up", given_up)] {
        family.encode_family(&[("outcome", outcome)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

type Figure = fn(&Load) -> Option<f64>;

/// By shard, as far as servers say so.
fn loads(alerts: &Alerts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let loads = alerts.loads();
    let figures: [(&str, &str, Figure); 5] = [
        ("store_cpu_ratio", "The share of one processor that a server of the store uses", |load| load.cpu),
        ("store_memory_ratio", "The share of its memory that a server of the store uses", |load| load.memory),
        ("store_memory_bytes", "How much memory a server of the store uses", |load| {
            #[expect(clippy::cast_precision_loss, reason = "beyond 8 PiB")]
            load.memory_bytes.map(|bytes| bytes as f64)
        }),
        ("store_connections_ratio", "The share of a store server's connections that are taken", |load| {
            load.connections
        }),
        ("store_replication_lag_seconds", "How far the slowest replica is behind", |load| {
            load.replication_lag.map(|lag| lag.as_secs_f64())
        }),
    ];
    for (name, help, figure) in figures {
        let mut known = loads.iter().filter_map(|(shard, load)| Some((shard, figure(load)?))).peekable();
        if known.peek().is_none() {
            continue;
        }
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (shard, value) in known {
            family.encode_family(&[("shard", shard.as_str())])?.encode_gauge(&value)?;
        }
    }
    Ok(())
}
