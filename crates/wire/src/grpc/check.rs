//! `tidegate.v1.Limiter`: the check API in protobuf.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_core::{Decision, Mode, RuleSet};

use crate::check::{CheckBody, DecisionBody, Pairs, RuleBody, waited_ms};
use crate::error::ErrorBody;

use super::protobuf::tidegate::v1;

/// The request that a message describes, or what is wrong with it.
pub fn read(message: &v1::CheckRequest) -> Result<CheckBody<'_>, ErrorBody> {
    let ip = message.ip.as_deref().filter(|ip| !ip.is_empty()).map(|ip| {
        ip.parse().map_err(|_| {
            ErrorBody::field("ip", "`ip` is no IP address; write it as 203.0.113.7 or 2001:db8::1")
        })
    });
    let body = CheckBody {
        resource: Cow::Borrowed(&message.resource),
        tenant: borrow(&message.tenant),
        user: borrow(&message.user),
        tier: borrow(&message.tier),
        plan: borrow(&message.plan),
        method: borrow(&message.method),
        ip: ip.transpose()?,
        api_key: borrow(&message.api_key),
        headers: Pairs::of(&message.headers).map_err(|message| ErrorBody::field("headers", message))?,
        attributes: Pairs::of(&message.attributes)
            .map_err(|message| ErrorBody::field("attributes", message))?,
        cost: message.cost.unwrap_or(1),
        request_id: borrow(&message.request_id),
        wait_ms: message.wait_ms.unwrap_or(0),
    };
    body.validated()
}

fn borrow(text: &Option<String>) -> Option<Cow<'_, str>> {
    text.as_deref().map(Cow::Borrowed)
}

/// `decision`, taken by `rules` in `mode`.
pub fn respond(decision: &Decision, rules: &RuleSet, mode: Mode) -> v1::CheckResponse {
    let body = DecisionBody::new(decision, rules, mode);
    v1::CheckResponse {
        allowed: body.allowed,
        rule_id: body.rule_id.map(str::to_owned),
        limit: body.limit,
        remaining: body.remaining,
        reset_at: body.reset_at,
        retry_after: body.retry_after,
        status: status(decision).into(),
        mode: mode_of(mode).into(),
        rules: body.rules.iter().map(rule).collect(),
        waited_ms: None,
    }
}

/// The same about a request that waited for its turn for so long, if at all.
pub fn respond_after(waited: Duration, response: v1::CheckResponse) -> v1::CheckResponse {
    v1::CheckResponse { waited_ms: waited_ms(waited), ..response }
}

fn status(decision: &Decision) -> v1::Status {
    match decision.status {
        tidegate_core::Status::Enforced => v1::Status::Enforced,
        tidegate_core::Status::Local => v1::Status::Local,
        tidegate_core::Status::Disabled => v1::Status::Disabled,
        tidegate_core::Status::Unavailable => v1::Status::Unavailable,
    }
}

fn mode_of(mode: Mode) -> v1::Mode {
    match mode {
        Mode::Normal => v1::Mode::Normal,
        Mode::Degraded => v1::Mode::Degraded,
        Mode::Emergency => v1::Mode::Emergency,
    }
}

fn rule(body: &RuleBody<'_>) -> v1::RuleStatus {
    v1::RuleStatus {
        rule_id: body.rule_id.to_owned(),
        allowed: body.allowed,
        limit: body.limit,
        remaining: body.remaining,
        reset_after_ms: body.reset_after_ms,
        retry_after_ms: body.retry_after_ms,
        shadow: body.shadow,
    }
}

impl From<ErrorBody> for v1::Error {
    fn from(body: ErrorBody) -> Self {
        Self { error: body.error.into_owned(), message: body.message, field: body.field }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_callers_wait_and_waited() {
        let message = |wait_ms| v1::CheckRequest { resource: "/".to_owned(), wait_ms, ..Default::default() };
        for (wait_ms, patience) in [(None, 0), (Some(0), 0), (Some(60_000), 60_000)] {
            let message = message(wait_ms);
            assert_eq!(read(&message).unwrap().patience(), Duration::from_millis(patience));
        }
        assert_eq!(read(&message(Some(60_001))).unwrap_err().field.as_deref(), Some("wait_ms"));
        let after = |waited| respond_after(waited, v1::CheckResponse::default()).waited_ms;
        assert_eq!(after(Duration::ZERO), None);
        assert_eq!(after(Duration::from_millis(7)), Some(7));
    }
}
