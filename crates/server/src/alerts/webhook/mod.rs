//! Telling a webhook.
//!
//! What is to be told waits in an [outbox], which is bounded; one task delivers it, in order, and tries again for as long
//! as that makes sense. Nothing else waits for it.

mod message;
mod outbox;
mod post;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::evaluator::News;
use super::kind::Severity;
use super::settings::AlertSettings;
use crate::written_down::WrittenDown;
use message::Message;
use outbox::Outbox;
use post::{Failed, post};

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// After so many attempts a message is given up: with the usual pauses, after a quarter of an hour.
const ATTEMPTS: u32 = 20;

/// What is posted.
#[derive(Clone, PartialEq, Eq)]
pub enum WebhookStyle {
    /// `{"state", "alert", "severity", "summary", "since", "resolved_at", "runbook", "source"}`.
    Generic,
    /// A message for an incoming webhook of Slack, Mattermost or the like.
    Slack,
    /// An event of PagerDuty's Events API v2, with the key of its integration.
    PagerDuty {
        /// The integration's key, which is a secret.
        routing_key: String,
    },
}

/// Leaves out the key.
impl fmt::Debug for WebhookStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generic => "Generic",
            Self::Slack => "Slack",
            Self::PagerDuty { .. } => "PagerDuty",
        })
    }
}

/// Why a webhook cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WebhookError(pub(crate) String);

/// Where alerts are posted to, and how.
#[derive(Clone, Debug)]
pub struct Webhook {
    target: Arc<WrittenDown>,
    style: WebhookStyle,
    source: String,
    first_pause: Duration,
}

impl Webhook {
    /// One at `url`, `http://` or `https://` with an authority that this machine trusts.
    pub fn new(url: &str, style: WebhookStyle) -> Result<Self, WebhookError> {
        Self::with_authorities(url, style, None)
    }

    /// One whose server has a certificate of `authorities`, a PEM file.
    pub fn with_authorities(
        url: &str,
        style: WebhookStyle,
        authorities: Option<&Path>,
    ) -> Result<Self, WebhookError> {
        if matches!(&style, WebhookStyle::PagerDuty { routing_key } if routing_key.is_empty()) {
            return Err(WebhookError("PagerDuty needs the routing key of its integration".to_owned()));
        }
        let target = Arc::new(WrittenDown::new("the webhook", url, authorities).map_err(WebhookError)?);
        Ok(Self { target, style, source: "tidegate".to_owned(), first_pause: Duration::from_millis(500) })
    }

    /// What messages call this node; `tidegate` unless told otherwise.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// How long to wait before the second attempt (500 ms); each pause after that is twice as long, up to a minute.
    #[must_use]
    pub fn first_pause(mut self, pause: Duration) -> Self {
        self.first_pause = pause;
        self
    }
}

/// Delivers what is to be told.
#[derive(Debug)]
pub(crate) struct Courier {
    webhook: Webhook,
    outbox: Mutex<Outbox>,
    more: Notify,
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    problem: Mutex<Option<String>>,
}

/// How deliveries went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deliveries {
    pub(crate) waiting: usize,
    pub(crate) delivered: u64,
    /// Attempts that failed.
    pub(crate) failed: u64,
    /// Messages that were given up, or had no room.
    pub(crate) given_up: u64,
    /// Why the last attempt failed, if it did.
    pub(crate) problem: Option<String>,
}

impl Courier {
    pub(crate) fn new(webhook: Webhook) -> Self {
        Self {
            webhook,
            outbox: Mutex::default(),
            more: Notify::new(),
            delivered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            problem: Mutex::new(None),
        }
    }

    /// Has `news` delivered.
    pub(crate) fn tell(&self, news: &News, settings: &AlertSettings) {
        let message = Message::new(news, settings);
        // An event would become an incident that nobody resolves.
        let incidents_only = matches!(self.webhook.style, WebhookStyle::PagerDuty { .. });
        if incidents_only && message.severity == Severity::Info {
            return;
        }
        self.outbox.lock().add(message);
        self.more.notify_one();
    }

    pub(crate) fn deliveries(&self) -> Deliveries {
        let outbox = self.outbox.lock();
        Deliveries {
            waiting: outbox.len(),
            delivered: self.delivered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            given_up: self.given_up.load(Ordering::Relaxed) + outbox.dropped(),
            problem: self.problem.lock().clone(),
        }
    }

    pub(crate) async fn deliver(&self) {
        loop {
            let Some(message) = self.outbox.lock().take() else {
                self.more.notified().await;
                continue;
            };
            self.deliver_one(&message).await;
            self.outbox.lock().done();
        }
    }

    async fn deliver_one(&self, message: &Message) {
        let Webhook { target, style, source, first_pause } = &self.webhook;
        let body = message.body(style, source).to_string();
        let mut pause = *first_pause;
        for attempt in 1..=ATTEMPTS {
            match post(target, &body, PATIENCE).await {
                Ok(()) => {
                    self.delivered.fetch_add(1, Ordering::Relaxed);
                    if self.problem.lock().take().is_some() {
                        tracing::info!("the webhook for alerts takes them again");
                    }
                    return;
                }
                Err(Failed { why, is_final }) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    if self.problem.lock().replace(why.clone()).is_none() {
                        tracing::warn!(webhook = %target, why, "an alert cannot be delivered");
                    }
                    if is_final || attempt == ATTEMPTS {
                        break;
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
