//! The body of a refusal, for people and programs.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::{Algorithm, Decision, Span, Status, Verdict};

use crate::check::{RETRY_UNAVAILABLE_SECS, wait};

/// What a refused client is told.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusalBody<'a> {
    /// `rate_limit_exceeded`, or `unavailable` when the limits could not be checked.
    pub error: &'static str,
    /// What happened, in a sentence or two.
    pub message: String,
    /// Seconds to wait; null if waiting does not help.
    pub retry_after: Option<u64>,
    /// Where the limits are explained, if the operator has such a page.
    pub documentation_url: Option<&'a str>,
}

impl<'a> RefusalBody<'a> {
    /// Explains why `decision` is a refusal.
    pub fn new(decision: &Decision, documentation_url: Option<&'a str>) -> Self {
        if decision.status == Status::Unavailable {
            let message = "The rate limit could not be checked. Try again in a moment.".to_owned();
            let retry_after = Some(RETRY_UNAVAILABLE_SECS);
            return Self { error: "unavailable", message, retry_after, documentation_url };
        }
        let verdict = decision.binding().map(|binding| &binding.verdict);
        let message = verdict.map_or_else(String::new, |verdict| explain(verdict, decision.cost));
        let retry_after = verdict.and_then(|verdict| wait(verdict.retry)).map(Span::as_secs_ceil);
        Self { error: "rate_limit_exceeded", message, retry_after, documentation_url }
    }
}

/// Says why a request of `cost` is refused.
fn explain(verdict: &Verdict, cost: u64) -> String {
    let (used, limit) = (verdict.used(), verdict.quota.limit());
    match verdict.quota.algorithm() {
        _ if limit == 0 => "This request is blocked.".to_owned(),
        // Those that are not over yet: this one is not among them.
        Algorithm::InFlight => {
            format!("You have {used} {} in flight. Limit is {limit} at once.", requests(used))
        }
        _ => {
            let made = used.saturating_add(cost);
            format!(
                "You have made {made} {}. Limit is {limit} per {}.",
                requests(made),
                period(verdict.quota.window())
            )
        }
    }
}

fn requests(count: u64) -> &'static str {
    if count == 1 { "request" } else { "requests" }
}

/// A window in words: `hour`, `5 minutes`, `250 milliseconds`.
fn period(window: Span) -> String {
    const UNITS: [(u64, &str); 6] = [
        (604_800_000, "week"),
        (86_400_000, "day"),
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1_000, "second"),
        (1, "millisecond"),
    ];
    let ms = window.as_millis();
    let (size, unit) =
        UNITS.into_iter().find(|(size, _)| ms.is_multiple_of(*size)).unwrap_or((1, "millisecond"));
    match ms / size {
        1 => unit.to_owned(),
        count => format!("{count} {unit}s"),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Quota;

    use super::*;

    #[test]
    fn requests_in_flight_are_not_made_per_anything() {
        let said = |limit, remaining| {
            let quota = Quota::new(Algorithm::InFlight, limit, Span::from_secs(60)).unwrap();
            explain(&Verdict { remaining, ..Verdict::blocked(quota) }, 1)
        };
        assert_eq!(said(20, 0), "You have 20 requests in flight. Limit is 20 at once.");
        assert_eq!(said(1, 0), "You have 1 request in flight. Limit is 1 at once.");
        assert_eq!(said(0, 0), "This request is blocked.");
    }

    #[test]
    fn any_window_can_be_said() {
        for (ms, words) in [
            (1, "millisecond"),
            (250, "250 milliseconds"),
            (1_000, "second"),
            (90_000, "90 seconds"),
            (60_000, "minute"),
            (300_000, "5 minutes"),
            (3_600_000, "hour"),
            (86_400_000, "day"),
            (604_800_000, "week"),
            (2_592_000_000, "30 days"),
        ] {
            assert_eq!(period(Span::from_millis(ms)), words);
        }
    }
}
