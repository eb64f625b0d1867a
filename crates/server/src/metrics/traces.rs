//! What became of spans.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::traces::{SpanFigures, Tracer};

/// Writes how many spans were sent, and how many were not.
pub(super) fn encode(tracer: &dyn Tracer, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let SpanFigures { exported, dropped, failed } = tracer.figures();
    let help =
        "Spans of traces, by what became of them: taken by the collector, not, or no room to wait for it";
    let mut family = encoder.encode_descriptor("spans", help, None, MetricType::Counter)?;
    for (outcome, count) in [("exported", exported), ("failed", failed), ("dropped", dropped)] {
        family.encode_family(&[("outcome", outcome)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}
