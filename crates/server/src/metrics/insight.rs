//! How many keys are hot; which, only administrators are told.

use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, gauge};
use crate::insight::Insight;

pub(super) fn encode(insight: &Insight, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    let hot = u64::try_from(insight.hot_keys.hot()).unwrap_or(u64::MAX);
    gauge(encoder, "hot_keys", "Keys with more requests a second than are called hot", hot)?;
    let help = "Refusals missing from the insight into who is refused, because others were being counted";
    counter(encoder, "insight_not_counted", help, insight.refusals.not_counted())
}
