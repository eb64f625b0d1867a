//! Asking servers how they are, again and again.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Empty, Limited};
use tidegate_store::deadline::within;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{Group, GroupClient, HealthCheck, Server, Turn};

/// So much of an answer is read, so that its connection can be used again; after more, it is closed.
const MAX_BODY: usize = 64 * 1024;

type Bodyless = Empty<Bytes>;

/// The running checks of a group. They end when this is dropped.
#[derive(Debug)]
pub struct Checks {
    _servers: JoinSet<()>,
}

impl Checks {
    /// Has each server asked from now on, if the group's document says so. The servers' turns are spread over the time
    /// between two questions; `phase` says where in that time they begin (all of it is 65,536), and is random where many
    /// gateways may start at once.
    ///
    /// Needs a Tokio runtime.
    #[must_use]
    pub fn start(group: &Group, phase: u16) -> Self {
        let mut tasks = JoinSet::new();
        if let Some(check) = &group.settings().health {
            let servers = group.members();
            let share = 65_536 / u32::try_from(servers.len()).unwrap_or(u32::MAX).max(1);
            for (index, server) in (0u32..).zip(servers) {
                let at = (u32::from(phase) + index * share) % 65_536;
                let first = check.every * at / 65_536;
                let asking = Asking {
                    group: group.name().into(),
                    server: Arc::clone(server),
                    check: check.clone(),
                    client: group.client(),
                };
                tasks.spawn(asking.run(first));
            }
        }
        Self { _servers: tasks }
    }
}

/// The questions to one server.
struct Asking {
    group: Box<str>,
    server: Arc<Server>,
    check: HealthCheck,
    client: GroupClient<Bodyless>,
}

impl Asking {
    async fn run(self, first: Duration) {
        sleep(first).await;
        let mut ticks = interval(self.check.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let answer = within(self.check.timeout, self.ask()).await;
            let outcome = answer.unwrap_or(Err("health check: no answer in time".into()));
            let reason = outcome.as_ref().err().cloned().unwrap_or_default();
            match self.server.checked(&self.check, outcome, Instant::now()) {
                None => {}
                Some(Turn::Up) => {
                    tracing::info!(group = %self.group, server = %self.server.origin(), "server is up");
                }
                Some(Turn::Down) => {
                    tracing::warn!(group = %self.group, server = %self.server.origin(), %reason, "server is down");
                }
            }
        }
    }

    async fn ask(&self) -> Result<(), Cow<'static, str>> {
        let mut request = Request::new(Bodyless::new());
        *request.uri_mut() = self.server.origin().uri(self.check.path.clone());
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("tidegate-health"));
        if let Some(host) = &self.check.host {
            request.headers_mut().insert(HOST, host.clone());
        }
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| format!("health check: {}", causes(&error)))?;
        let status = answer.status().as_u16();
        // What it says does not matter, only that the connection is free again.
        Limited::new(answer.into_body(), MAX_BODY).collect().await.ok();
        match self.check.statuses.contains(status) {
            true => Ok(()),
            false => Err(format!("health check: answered {status}").into()),
        }
    }
}

/// An error with all that led to it: hyper's own text says little.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text.chars().take(300).collect()
}
