//! What is told of decisions that were taken without the store.
#![allow(clippy::unwrap_used, reason = "a test")]

use http::HeaderMap;
use serde_json::{Value, json};
use tidegate_core::rule::OnStoreFailure::{Allow, Deny};
use tidegate_core::{
    Algorithm, Decision, Facet, Mode, Quota, Retry, Rule, RuleSet, RuleSetParts, RuleVerdict, Span,
    Timestamp, Verdict,
};
use tidegate_wire::{DecisionBody, HeaderStyle, RefusalBody, headers};

fn quota() -> Quota {
    Quota::new(Algorithm::FixedWindow, 10, Span::from_secs(60)).unwrap()
}

fn rules() -> RuleSet {
    let rules = ["first", "second"].map(|id| Rule::new(id, Facet::Global, quota()));
    RuleSet::new(RuleSetParts { rules: rules.into(), ..RuleSetParts::default() }).unwrap()
}

fn said(rule: u32, retry: Retry) -> RuleVerdict {
    let allowed = retry == Retry::Now;
    let (remaining, reset_after) = (if allowed { 4 } else { 0 }, Span::from_secs(9));
    let verdict = Verdict { allowed, remaining, reset_after, retry, held: false, quota: quota() };
    RuleVerdict { rule, shadow: false, verdict }
}

/// The body and the headers of a decision.
fn tell(decide: impl FnOnce(&mut Decision)) -> (Value, Vec<(String, String)>) {
    let mut decision = Decision::new(None, 1, Timestamp::from_millis(1_000));
    decide(&mut decision);
    let rules = rules();
    let body = serde_json::to_value(DecisionBody::new(&decision, &rules, Mode::Degraded)).unwrap();
    let mut fields = HeaderMap::new();
    headers::write(&decision, &rules, &[HeaderStyle::XRateLimit, HeaderStyle::Ietf], &mut fields);
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    let mut fields: Vec<_> = fields.iter().map(text).collect();
    fields.sort();
    (body, fields)
}

fn field(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn failed_open() {
    let (body, fields) = tell(|decision| decision.fail(0, false, Allow));
    let expected = json!({
        "allowed": true, "rule_id": "first", "limit": null, "remaining": null, "reset_at": null, "retry_after": 0,
        "status": "disabled", "mode": "degraded", "rules": [],
    });
    assert_eq!(body, expected);
    assert_eq!(fields, [field("x-ratelimit-status", "disabled")]);
}

#[test]
fn failed_open_beside_a_rule_with_figures() {
    let (body, fields) = tell(|decision| {
        decision.fail(0, false, Allow);
        decision.add(said(1, Retry::Now));
    });
    assert_eq!(
        (&body["status"], &body["rule_id"], &body["remaining"]),
        (&json!("disabled"), &json!("second"), &json!(4))
    );
    assert_eq!(body["rules"].as_array().unwrap().len(), 1);
    assert!(fields.contains(&field("x-ratelimit-status", "disabled")));
    assert!(fields.contains(&field("x-ratelimit-remaining", "4")));
    assert!(fields.contains(&field("ratelimit", "\"second\";r=4;t=9")));
}

#[test]
fn failed_closed() {
    let (body, fields) = tell(|decision| {
        decision.add(said(0, Retry::Now));
        decision.fail(1, false, Deny);
    });
    assert_eq!((&body["allowed"], &body["status"]), (&json!(false), &json!("unavailable")));
    assert_eq!(
        (&body["rule_id"], &body["limit"], &body["reset_at"]),
        (&json!("second"), &json!(null), &json!(null))
    );
    assert_eq!(body["retry_after"], 1);
    assert_eq!(fields, [field("retry-after", "1")]);
    let mut decision = Decision::new(None, 1, Timestamp::EPOCH);
    decision.fail(0, false, Deny);
    let refusal = RefusalBody::new(&decision, None);
    assert_eq!((refusal.error, refusal.retry_after), ("unavailable", Some(1)));
}

#[test]
fn refused_for_certain() {
    let (body, fields) = tell(|decision| {
        decision.fail(0, false, Deny);
        decision.add(said(1, Retry::After(Span::from_millis(2_500))));
    });
    assert_eq!(
        (&body["status"], &body["rule_id"], &body["retry_after"]),
        (&json!("enforced"), &json!("second"), &json!(3))
    );
    assert!(fields.contains(&field("retry-after", "3")));
    assert!(!fields.iter().any(|(name, _)| name == "x-ratelimit-status"));
}
