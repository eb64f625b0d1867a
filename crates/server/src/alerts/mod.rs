//! Telling people that something is wrong, and that it is over.
//!
//! A node looks at its own [figures](figures) every few seconds; the [evaluator] says which alerts fire, are over, or what
//! else happened. That goes to the log, to `/v1/alerts`, to metrics, and to a [webhook] if there is one. The same
//! alerts for a whole fleet are Prometheus rules in `deploy/prometheus`.

mod condition;
mod evaluator;
mod figures;
mod kind;
mod load;
mod rates;
mod settings;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

pub(crate) use evaluator::{Evaluator, Event, Fired, News};
pub(crate) use figures::{Figures, Load};
pub(crate) use kind::{Alert, EventKind, Severity};
pub use load::{StoreReport, StoreReporter, StoreReports};
pub use settings::AlertSettings;
pub(crate) use webhook::{Courier, Deliveries};
pub use webhook::{Webhook, WebhookError, WebhookStyle};

use crate::config::{Config, SharedStore};
use crate::health::Moment;
use crate::listen::Connections;
use crate::live::{Entry, Journal, Kind};
use crate::node::Node;

/// How often the servers of a store are asked how busy they are.
const ASK_STORE: Duration = Duration::from_secs(5);

/// How long that may take.
const STORE_PATIENCE: Duration = Duration::from_secs(10);

/// The alerts of a node.
#[derive(Debug)]
pub(crate) struct Alerts {
    evaluator: Mutex<Evaluator>,
    loads: Mutex<BTreeMap<String, Load>>,
    reporter: Option<StoreReporter>,
    pub(crate) courier: Option<Courier>,
}

impl Alerts {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            evaluator: Mutex::new(Evaluator::new(config.alerts.clone())),
            loads: Mutex::default(),
            reporter: config.store.as_ref().and_then(SharedStore::reporter).cloned(),
            courier: config.alert_webhook.clone().map(Courier::new),
        }
    }

    /// How busy the servers of the store are, by shard, as far as they say so.
    pub(crate) fn loads(&self) -> BTreeMap<String, Load> {
        self.loads.lock().clone()
    }

    /// Has a look at what is known. It is for reading only, and nobody waits meanwhile.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Evaluator) -> T) -> T {
        read(&self.evaluator.lock())
    }

    fn look(&self, figures: &Figures, now: Moment, journal: &Journal) {
        let mut evaluator = self.evaluator.lock();
        for news in evaluator.look(figures, now) {
            tell(&news);
            if let Some(entry) = entry(&news, evaluator.settings()) {
                journal.note(entry);
            }
            if let Some(courier) = &self.courier {
                courier.tell(&news, evaluator.settings());
            }
        }
    }
}

fn tell(news: &News) {
    match news {
        News::Fired(Fired { alert, summary, .. }) => {
            tracing::warn!(alert = alert.name(), severity = alert.severity().name(), summary, "alert");
        }
        News::Resolved(Fired { alert, summary, .. }) => {
            tracing::info!(
                alert = alert.name(),
                severity = alert.severity().name(),
                summary,
                "alert is over"
            );
        }
        News::Event(Event { kind, summary, .. }) => {
            tracing::info!(event = kind.name(), summary, "event");
        }
    }
}

/// What is written down of it. That other rules are in force is, where they come into force.
fn entry(news: &News, settings: &AlertSettings) -> Option<Entry> {
    let (at, kind, severity, title, detail, name) = match news {
        News::Fired(Fired { alert, summary, since, .. }) => {
            let title = format!("alert {alert}");
            (*since, Kind::Alert, alert.severity(), title, summary, alert.name())
        }
        News::Resolved(Fired { alert, summary, since, resolved }) => {
            let title = format!("alert {alert} is over");
            (resolved.unwrap_or(*since), Kind::Alert, Severity::Info, title, summary, alert.name())
        }
        News::Event(Event { kind: EventKind::RulesChanged, .. }) => return None,
        News::Event(Event { kind, at, summary }) => {
            let title = kind.name().replace('_', " ");
            (*at, Kind::Store, Severity::Info, title, summary, kind.name())
        }
    };
    Some(Entry::new(at, kind, severity, title).detail(detail).runbook(settings.runbook(name)))
}

/// Keeps the node's alerts true, for as long as this runs, with an eye on the connections of its listeners.
pub(crate) async fn watch(node: Arc<Node>, connections: Vec<Connections>) {
    let every = node.alerts.read(|evaluator| evaluator.settings().every).max(Duration::from_millis(10));
    loop {
        let mut figures = Figures::of(&node, &node.alerts.loads());
        figures.connections = connections.iter().map(Connections::share).reduce(f64::max);
        node.alerts.look(&figures, node.moment(), &node.live.journal);
        sleep(every).await;
    }
}

/// Asks the servers of the store how busy they are, for as long as this runs, if there is a way to ask.
pub(crate) async fn watch_store(node: Arc<Node>) {
    let Some(reporter) = node.alerts.reporter.clone() else { return };
    let mut loads = load::Loads::default();
    loop {
        // One that does not answer is unknown: whether the store is there at all is found out elsewhere.
        let reports = timeout(STORE_PATIENCE, reporter.ask()).await.unwrap_or_default();
        *node.alerts.loads.lock() = loads.read(reports, Instant::now());
        sleep(ASK_STORE).await;
    }
}

/// Delivers to the webhook, for as long as this runs, if there is one.
pub(crate) async fn deliver(node: Arc<Node>) {
    if let Some(courier) = &node.alerts.courier {
        courier.deliver().await;
    }
}
