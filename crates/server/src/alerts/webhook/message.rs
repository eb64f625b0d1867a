//! What is posted.

use serde_json::{Value, json};
use tidegate_core::Timestamp;

use super::WebhookStyle;
use crate::alerts::evaluator::{Event, Fired, News};
use crate::alerts::kind::Severity;
use crate::alerts::settings::AlertSettings;

/// What has become of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Firing,
    Resolved,
    /// It is none: it just happened.
    Event,
}

/// Something to be told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) severity: Severity,
    pub(super) summary: String,
    since: Timestamp,
    resolved: Option<Timestamp>,
    runbook: String,
}

impl Message {
    pub(super) fn new(news: &News, settings: &AlertSettings) -> Self {
        let of = |fired: &Fired, state| Self {
            name: fired.alert.name(),
            state,
            severity: fired.alert.severity(),
            summary: fired.summary.clone(),
            since: fired.since,
            resolved: fired.resolved,
            runbook: settings.runbook(fired.alert.name()),
        };
        match news {
            News::Fired(fired) => of(fired, State::Firing),
            News::Resolved(fired) => of(fired, State::Resolved),
            News::Event(Event { kind, at, summary }) => Self {
                name: kind.name(),
                state: State::Event,
                severity: Severity::Info,
                summary: summary.clone(),
                since: *at,
                resolved: None,
                runbook: settings.runbook(kind.name()),
            },
        }
    }

    /// The body of a post.
    pub(super) fn body(&self, style: &WebhookStyle, source: &str) -> Value {
        match style {
            WebhookStyle::Generic => self.generic(source),
            WebhookStyle::Slack => self.slack(source),
            WebhookStyle::PagerDuty { routing_key } => self.pager_duty(routing_key, source),
        }
    }

    fn generic(&self, source: &str) -> Value {
        json!({
            "state": self.state_name(),
            "alert": self.name,
            "severity": self.severity.name(),
            "summary": self.summary,
            "since": rfc3339(self.since),
            "resolved_at": self.resolved.map(rfc3339),
            "runbook": self.runbook,
            "source": source,
        })
    }

    fn slack(&self, source: &str) -> Value {
        let color = match (self.state, self.severity) {
            (State::Resolved, _) => "good",
            (_, Severity::Critical) => "danger",
            (_, Severity::Warning) => "warning",
            (_, Severity::Info) => "#439FE0",
        };
        // Summaries have names from outside in them, which are not to become links or mentions.
        let safe = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let title = format!("[{}] {} on {}", self.state_name(), self.name, safe(source));
        let mut attachment = json!({
            "color": color,
            "title": format!("{} ({})", self.name, self.severity.name()),
            "text": safe(&self.summary),
            "fallback": format!("{title}: {}", safe(&self.summary)),
            "ts": self.resolved.unwrap_or(self.since).as_millis() / 1_000,
        });
        // Slack refuses links that are no URLs, and nobody could follow them.
        if is_url(&self.runbook) {
            attachment["title_link"] = self.runbook.clone().into();
        } else {
            let footer = format!("Runbook: {} (--runbooks URL makes this a link)", self.runbook);
            attachment["footer"] = footer.into();
        }
        json!({ "text": title, "attachments": [attachment] })
    }

    fn pager_duty(&self, routing_key: &str, source: &str) -> Value {
        let action = if self.state == State::Resolved { "resolve" } else { "trigger" };
        json!({
            "routing_key": routing_key,
            "event_action": action,
            "dedup_key": format!("tidegate/{source}/{}", self.name),
            "payload": {
                "summary": format!("{}: {}", self.name, self.summary),
                "source": source,
                "severity": self.severity.name(),
                "timestamp": rfc3339(self.since),
                "component": "tidegate",
                "class": self.name,
                "custom_details": {"runbook": self.runbook},
            },
        })
    }

    fn state_name(&self) -> &'static str {
        match self.state {
            State::Firing => "firing",
            State::Resolved => "resolved",
            State::Event => "event",
        }
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

fn rfc3339(at: Timestamp) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
}
