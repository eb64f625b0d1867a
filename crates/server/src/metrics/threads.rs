//! How soon the threads that serve requests do what they are given.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::data_plane::{Liveness, thread_name};

/// Writes the delay of each thread, if there are threads of their own.
pub(super) fn encode(threads: &[Arc<Liveness>], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    if threads.is_empty() {
        return Ok(());
    }
    let help =
        "How long the last job that each data thread was given had to wait for it; there is one each second";
    let name = "data_thread_delay_seconds";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (index, thread) in threads.iter().enumerate() {
        let labels = [("thread", thread_name(index))];
        ConstGauge::new(thread.delay().as_secs_f64()).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
