//! This node among others: asked by them, told by them, and gone from them at the end.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::cluster::{Fleet, Keyring};
use tidegate::store::Deadline;
use tidegate::store::peers::{Answers, Call, Replied, Reply};
use tidegate::store::spans::Origin;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::Span;

use crate::node::Node;
use crate::traces::TraceParent;

/// How often the file with the secrets is looked at.
const TICK: Duration = Duration::from_secs(1);

/// The other nodes, and where the secrets they share come from.
#[derive(Clone, Debug)]
pub struct Membership {
    fleet: Arc<Fleet>,
    secrets: Option<PathBuf>,
}

impl Membership {
    /// Among `fleet`. If its secrets are in a file, others that are put there are used from then on.
    pub fn new(fleet: Arc<Fleet>, secrets: Option<PathBuf>) -> Self {
        Self { fleet, secrets }
    }

    /// The other nodes.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Answers other nodes, for as long as this runs.
    pub(crate) async fn answer(self, node: Arc<Node>) {
        if let Some(tracer) = node.shared_tracer() {
            self.fleet.tell_origins(Box::new(move |span| {
                let (TraceParent { trace, span, sampled }, _) = tracer.context(span)?;
                sampled.then_some(Origin { trace, span })
            }));
        }
        let answers = Arc::new(Counting(node));
        if let Some(serving) = self.fleet.serve(answers) {
            serving.await;
        }
    }

    /// Takes other secrets into use as they come; a file that cannot be used changes nothing.
    pub(crate) async fn follow_secrets(self) {
        let Some(path) = self.secrets else { return };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known: Option<Result<String, String>> = None;
        loop {
            ticks.tick().await;
            let file = path.clone();
            let Ok(read) = spawn_blocking(move || fs::read_to_string(file)).await else { continue };
            let read = read.map_err(|error| error.to_string());
            if known.as_ref() == Some(&read) {
                continue;
            }
            let parsed =
                read.clone().and_then(|text| Keyring::parse(&text).map_err(|error| error.to_string()));
            match parsed {
                Ok(keyring) => {
                    if known.is_some() {
                        tracing::info!("other cluster secrets in use");
                    }
                    self.fleet.cluster().set_keyring(keyring);
                }
                Err(error) => {
                    tracing::warn!("{}: {error}; the cluster secrets in use stay", path.display());
                }
            }
            known = Some(read);
        }
    }
}

/// Whoever counts what other nodes ask for.
struct Counting(Arc<Node>);

impl Answers for Counting {
    fn answer<'a>(&'a self, call: &'a Call, deadline: Deadline) -> Replied<'a> {
        Box::pin(async move {
            if matches!(call, Call::Look) {
                return Reply::Look(self.0.live.look(&self.0));
            }
            // Without a shared store there is nothing to stand in for, and nothing that others could ask for.
            self.0.limiter.answer(call, deadline).await.unwrap_or(Reply::Owes(0))
        })
    }

    fn span(&self, call: &Call, origin: Origin) -> Span {
        self.0.trace_for(origin, call.name())
    }
}
