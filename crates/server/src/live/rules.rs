//! How busy each rule was of late.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counters::{Over, busiest};
use super::point::Rates;
use crate::metrics::Counts;

/// Over how many seconds means are taken.
const SECONDS: usize = 5;

/// More rules than these are not shown.
const MOST: usize = 100;

/// Decisions per second that a rule was the cause of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RuleRates {
    /// The rule; empty where none applied.
    pub(crate) rule: String,
    pub(crate) allowed: f64,
    pub(crate) refused: f64,
    pub(crate) shadow_refused: f64,
}

/// What was counted of each rule.
type RuleCounts = Vec<(Arc<str>, Counts)>;

/// The counts of rules in the last seconds, oldest first; each look in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct RuleLooks(VecDeque<(Instant, RuleCounts)>);

impl RuleLooks {
    /// Takes note of the counts at a moment.
    pub(crate) fn add(&mut self, at: Instant, rules: RuleCounts) {
        self.0.push_back((at, rules));
        if self.0.len() > SECONDS + 1 {
            self.0.pop_front();
        }
    }

    /// The busiest rules, as means over the last seconds. Those that nothing happened to are left out.
    pub(crate) fn rates(&self) -> Vec<RuleRates> {
        let (Some((then, before)), Some((now, counted))) = (self.0.front(), self.0.back()) else {
            return Vec::new();
        };
        let over = Over::between(*then, *now);
        let mut before = before.iter().peekable();
        let mut rates = Vec::new();
        for (rule, counts) in counted {
            while before.next_if(|(other, _)| other.cmp(rule) == Ordering::Less).is_some() {}
            let was = before.next_if(|(other, _)| other == rule).map_or(Counts::default(), |(_, was)| *was);
            let Rates { allowed, refused, shadow_refused, failed_open, unavailable } =
                over.rates(counts, &was);
            if allowed + refused + shadow_refused + failed_open + unavailable > 0.0 {
                rates.push((&**rule, allowed, refused, shadow_refused));
            }
        }
        let rates = busiest(rates, MOST, |(_, allowed, refused, shadow)| allowed + refused + shadow);
        let shown = rates.into_iter().map(|(rule, allowed, refused, shadow_refused)| RuleRates {
            rule: rule.to_owned(),
            allowed,
            refused,
            shadow_refused,
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn look(counts: &[(&str, u64)]) -> RuleCounts {
        counts.iter().map(|(rule, allowed)| (Arc::from(*rule), [*allowed, 0, 0, 0, 0])).collect()
    }

    fn rates(looks: &RuleLooks) -> Vec<(String, f64)> {
        looks.rates().into_iter().map(|rule| (rule.rule, rule.allowed)).collect()
    }

    #[test]
    fn rules_that_come_go_or_rest_do_not_disturb_the_others() {
        let (mut looks, start) = (RuleLooks::default(), Instant::now());
        assert!(rates(&looks).is_empty());
        looks.add(start, look(&[("a", 10), ("gone", 7), ("rests", 3)]));
        assert!(rates(&looks).is_empty());
        looks.add(start + Duration::from_secs(2), look(&[("a", 14), ("new", 20), ("rests", 3)]));
        assert_eq!(rates(&looks), [("new".to_owned(), 10.0), ("a".to_owned(), 2.0)]);
    }

    #[test]
    fn means_are_over_the_last_five_seconds() {
        let (mut looks, start) = (RuleLooks::default(), Instant::now());
        for second in 0..100 {
            let counted = if second < 90 { second * 1_000 } else { 90_000 + second };
            looks.add(start + Duration::from_secs(second), look(&[("a", counted)]));
        }
        assert_eq!(rates(&looks), [("a".to_owned(), 1.0)]);
    }

    #[test]
    fn no_more_are_shown_than_there_is_room_for() {
        let (mut looks, start) = (RuleLooks::default(), Instant::now());
        let names: Vec<String> = (0..10_000).map(|rule| format!("r{rule:05}")).collect();
        looks.add(start, Vec::new());
        let counts: Vec<(&str, u64)> = names.iter().zip(1..).map(|(name, n)| (&**name, n)).collect();
        looks.add(start + Duration::from_secs(1), look(&counts));
        let rates = rates(&looks);
        assert_eq!((rates.len(), rates[0].0.as_str()), (MOST, "r09999"));
    }
}
