//! Counting descriptors by their values, for rules whose authors ask for it.
//!
//! Values come from clients, so there are never more than [`MOST`] of them: whoever comes later is counted together.

use std::collections::HashMap;
use std::fmt::Write;

use parking_lot::Mutex;
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use tidegate::RuleSet;
use tidegate_core::descriptor::{Descriptor, DescriptorMatch, EntryPattern, Said};

/// How many different descriptors are told apart.
const MOST: usize = 1_000;

/// The longest text that tells them apart.
const MAX_TEXT: usize = 200;

/// The label of those that are not.
const OTHERS: &str = "other";

const OUTCOMES: [&str; 2] = ["ok", "over_limit"];

/// Rule and values.
type Labels = (Box<str>, Box<str>);

/// How often which descriptors were allowed, and were over their limit.
#[derive(Debug, Default)]
pub(crate) struct DescriptorCounts(Mutex<HashMap<Labels, [u64; 2]>>);

impl DescriptorCounts {
    /// Counts what was said to `descriptors` by those of `rules` that want it.
    pub(crate) fn count(&self, said: &[Said], descriptors: &[Descriptor<'_>], rules: &RuleSet) {
        for (said, descriptor) in said.iter().zip(descriptors) {
            let Some(rule) = said.rule().map(|rule| rules.rule(rule)) else { continue };
            let Some(about) = rule.descriptor.as_deref().filter(|about| is_detailed(about)) else { continue };
            let over = matches!(said, Said::Verdict(_, verdict) if !verdict.allowed);
            self.add(&rule.id, text(about, descriptor), over);
        }
    }

    fn add(&self, rule: &str, text: String, over: bool) {
        let mut counts = self.0.lock();
        let mut labels: Labels = (rule.into(), text.into());
        if counts.len() >= MOST && !counts.contains_key(&labels) {
            labels.1 = OTHERS.into();
        }
        counts.entry(labels).or_default()[usize::from(over)] += 1;
    }

    pub(crate) fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let mut all: Vec<_> =
            self.0.lock().iter().map(|(labels, counts)| (labels.clone(), *counts)).collect();
        all.sort_unstable();
        for ((rule, text), counts) in &all {
            for (outcome, count) in OUTCOMES.into_iter().zip(counts) {
                let labels = [("rule", &**rule), ("descriptor", &**text), ("outcome", outcome)];
                encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
            }
        }
        Ok(())
    }
}

fn is_detailed(about: &DescriptorMatch) -> bool {
    about.detailed_metric || about.entries.iter().any(|entry| entry.in_metric)
}

/// What a descriptor is counted under: its keys, with the values that are to be told apart and those that the rule
/// names.
fn text(about: &DescriptorMatch, descriptor: &Descriptor<'_>) -> String {
    let mut text = String::new();
    for (pattern, entry) in about.entries.iter().zip(&descriptor.entries) {
        let dot = if text.is_empty() { "" } else { "." };
        // Into memory: that cannot fail.
        write!(text, "{dot}{}", pattern.key).ok();
        if let Some(value) = value(about, pattern, entry.value) {
            write!(text, "_{value}").ok();
        }
    }
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

fn value<'a>(about: &DescriptorMatch, pattern: &'a EntryPattern, value: &'a str) -> Option<&'a str> {
    let told_apart = about.detailed_metric || pattern.in_metric;
    // What shares a counter shares a name.
    if told_apart && !pattern.shared { Some(value) } else { pattern.value.text() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_what_clients_can_have_counted() {
        let counts = DescriptorCounts::default();
        for number in 0..3 * MOST {
            counts.add("rule", format!("user_{number}"), number % 2 == 0);
        }
        let counts = counts.0.lock();
        assert!(counts.len() <= MOST + 1, "{}", counts.len());
        assert_eq!(counts.values().flatten().sum::<u64>(), 3 * MOST as u64, "all of them are counted");
        assert_eq!(counts[&("rule".into(), "user_7".into())], [1, 0]);
    }
}
