//! What every node has, whatever it serves: rules that follow their source, a limiter, and an administrator's door.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::BoxFuture;
use crate::access::Access;
use crate::admin::Admin;
use crate::alerts::{self, Severity};
use crate::caller::Gate;
use crate::config::Config;
use crate::connection_limiter::ConnectionLimiter;
use crate::drain::Serving;
use crate::error::{RunError, StartError};
use crate::feed::{Changes, RulesFeed, Start};
use crate::grpc::Reporter;
use crate::insight;
use crate::keys_watch;
use crate::listen::{Listener, Speaks};
use crate::live::{self, Kind};
use crate::node::Node;
use crate::origin::Hosts;
use crate::rules_cache::RulesCache;
use crate::store_watch;
use crate::tiers;

/// How long the admin listener goes on after the others, for those who watch the end.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// How long to wait at the end for the store to be told what was admitted without it.
const SETTLE: Duration = Duration::from_secs(3);

/// A node that is there, but serves nothing yet but its administrators.
pub struct Base {
    pub(crate) config: Config,
    node: Arc<Node>,
    changes: Option<Changes>,
    admin: Listener,
    gate: Arc<Gate>,
}

/// What a node serves besides its admin listener.
#[derive(Debug)]
pub struct Front {
    /// The listeners, open already.
    pub serving: Serving,
    /// Where they are.
    pub places: Places,
    /// What goes on beside them; ends when the node does.
    pub tasks: JoinSet<()>,
    /// Tells gRPC clients how it is going, if there are any.
    pub(crate) reporter: Option<Reporter>,
}

impl Front {
    /// These listeners, and nothing beside them yet.
    pub fn new(serving: Serving, places: Places) -> Self {
        Self { serving, places, tasks: JoinSet::new(), reporter: None }
    }
}

/// Where listeners are, with the ports they were really given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Decisions over HTTP.
    pub http: Option<SocketAddr>,
    /// gRPC.
    pub grpc: Option<SocketAddr>,
    /// The gateway.
    pub gateway: Option<SocketAddr>,
    /// Administration.
    pub admin: Option<SocketAddr>,
}

impl Base {
    /// Loads the rules and takes the address for administration.
    ///
    /// Must be called within a Tokio runtime.
    pub fn bind(config: Config, rules: RulesFeed) -> BoxFuture<Result<Self, StartError>> {
        Box::pin(Self::load(config, rules))
    }

    async fn load(config: Config, rules: RulesFeed) -> Result<Self, StartError> {
        let access = Access::new(&config)?;
        let gate = Arc::new(Gate::new(&config, &access)?);
        if !gate.has_tokens() {
            access.protect("admin", config.admin)?;
        }
        let Start { loaded, changes, trouble, aside, book, pulse } =
            rules.start(config.rules_cache.as_ref().map(RulesCache::new)).await?;
        let node = Arc::new(Node::new(&config, access, loaded, book, pulse)?);
        node.put_aside(aside);
        if let Some(trouble) = trouble {
            trouble.tell(&node);
        }
        let admin = bind(("admin", config.admin), Speaks::Http, &config, &node.limiters.admin).await?;
        let admin = admin.with_reserve();
        Ok(Self { config, node, changes, admin, gate })
    }

    /// What all listeners share.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Where its administrators find it.
    pub fn admin(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Returns what its front serves with: nothing yet, on the threads that are for it.
    pub fn serving(&self) -> Serving {
        Serving::new(self.config.data_plane.clone())
    }

    /// The names by which browsers may reach a listener at `address`.
    pub(crate) fn hosts(&self, address: SocketAddr) -> Hosts {
        Hosts::new(address.ip().to_canonical(), &self.config.host_names)
    }

    /// Serves until `shutdown` resolves, then drains: unready first, then no new connections, then requests in
    /// flight are finished.
    pub fn run(self, front: Front, shutdown: BoxFuture<()>) -> BoxFuture<Result<(), RunError>> {
        Box::pin(self.serve(front, shutdown))
    }

    async fn serve(self, front: Front, shutdown: BoxFuture<()>) -> Result<(), RunError> {
        let hosts = self.hosts(self.admin());
        let Self { config, node, changes, admin, gate } = self;
        let Front { serving, mut places, tasks: mut background, reporter } = front;
        places.admin = Some(admin.address());
        // Not on the data plane: administration must not take time from decisions.
        let mut door = Serving::new(None);
        serve_admin(&mut door, admin, Admin::new(Arc::clone(&node), Arc::clone(&gate), hosts, places));
        changes.map(|changes| background.spawn(changes.follow(Arc::clone(&node))));
        config.data_plane.clone().map(|threads| background.spawn(threads.watch(Arc::clone(&node))));
        background.spawn(store_watch::watch(Arc::clone(&node)));
        background.spawn(keys_watch::watch(Arc::clone(&node)));
        background.spawn(tiers::watch(Arc::clone(&node)));
        background.spawn(insight::watch(Arc::clone(&node)));
        let connections = [serving.connections(), door.connections()].concat();
        background.spawn(alerts::watch(Arc::clone(&node), connections));
        background.spawn(live::watch(Arc::clone(&node)));
        background.spawn(alerts::watch_store(Arc::clone(&node)));
        background.spawn(alerts::deliver(Arc::clone(&node)));
        config.tiers.as_ref().map(|tiers| background.spawn(tiers.clone().follow(Arc::clone(&node))));
        if let Some(cluster) = &config.cluster {
            background.spawn(cluster.clone().answer(Arc::clone(&node)));
            background.spawn(cluster.clone().follow_secrets());
        }
        background.spawn(gate.follow(Arc::clone(&node)));
        tracing::info!(
            http = places.http.map(tracing::field::display),
            grpc = places.grpc.map(tracing::field::display),
            gateway = places.gateway.map(tracing::field::display),
            admin = places.admin.map(tracing::field::display),
            "serving"
        );
        let detail = format!("version {}", env!("CARGO_PKG_VERSION"));
        node.write_down(Kind::Node, Severity::Info, "started", &detail);
        shutdown.await;
        let left = drain(&config, &node, reporter, serving).await;
        settle(&node).await;
        if let Some(cluster) = &config.cluster {
            cluster.fleet().cluster().leave().await;
        }
        node.live.end();
        door.close(ADMIN_DRAIN).await;
        tracing::info!(left, "drained");
        if left == 0 { Ok(()) } else { Err(RunError::Unfinished(left)) }
    }
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base").field("admin", &self.admin()).finish_non_exhaustive()
    }
}

fn serve_admin(serving: &mut Serving, listener: Listener, admin: Admin) {
    let admin = Arc::new(admin);
    serving.open(listener, move |from| {
        let admin = Arc::clone(&admin);
        let from = Arc::new(from);
        move |request| {
            let (admin, from) = (Arc::clone(&admin), Arc::clone(&from));
            async move { admin.answer(&from, request).await }
        }
    });
}

/// Takes the address of a listener.
pub(crate) async fn bind(
    (name, address): (&'static str, SocketAddr),
    speaks: Speaks,
    config: &Config,
    limiter: &Arc<ConnectionLimiter>,
) -> Result<Listener, StartError> {
    let bound = Listener::bind(address, speaks, config.max_connections, Arc::clone(limiter)).await;
    bound.map_err(|source| StartError::Bind { listener: name, address, source })
}

/// Waits a moment until the store knows what the last requests cost, and what was admitted without it, if it is there to be told.
async fn settle(node: &Node) {
    let (Some(store), Some(fallback)) = (node.limiter.shared(), node.limiter.fallback()) else { return };
    let settled = async {
        while node.settlements.under_way() > 0 || store.unwell() == 0 && fallback.unsettled() > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(SETTLE, settled).await.is_err() {
        tracing::warn!(
            keys = fallback.unsettled(),
            "the store does not know all that was admitted without it"
        );
    }
}

/// Unready first, so that no more comes; then the end of accepting; then the end of what was accepted.
async fn drain(config: &Config, node: &Node, reporter: Option<Reporter>, serving: Serving) -> usize {
    tracing::info!("draining");
    node.start_draining();
    let Some(mut reporter) = reporter else {
        serving.leave();
        sleep(config.grace).await;
        return serving.close(config.drain).await;
    };
    reporter.not_serving().await;
    serving.leave();
    sleep(config.grace).await;
    reporter.end().await;
    serving.close(config.drain).await
}
