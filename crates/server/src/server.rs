//! Binding, serving, draining.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::RuleSet;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::access::Access;
use crate::admin::Admin;
use crate::caller::Gate;
use crate::config::Config;
use crate::data::Data;
use crate::drain::Serving;
use crate::error::{RunError, StartError};
use crate::feed::{Changes, RulesFeed, Start};
use crate::grpc::{Grpc, Reporter};
use crate::listen::{Listener, Speaks};
use crate::node::Node;
use crate::origin::Hosts;
use crate::rules_cache::RulesCache;
use crate::store_watch;
use crate::tiers;
use crate::tls::Tls;

/// How long the admin listener goes on after the others, for those who watch the end.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// How long to wait at the end for the store to be told what was admitted without it.
const SETTLE: Duration = Duration::from_secs(3);

/// A bound server: its addresses are taken, its rules loaded.
pub struct Server {
    config: Config,
    node: Arc<Node>,
    changes: Option<Changes>,
    http: Listener,
    grpc: Listener,
    admin: Listener,
    calls: (Grpc, Reporter),
    tls: Option<Arc<Tls>>,
    gate: Arc<Gate>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// Where a server listens, with the ports it was really given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Decisions over HTTP.
    pub http: SocketAddr,
    /// gRPC.
    pub grpc: SocketAddr,
    /// Administration.
    pub admin: SocketAddr,
}

impl Server {
    /// Loads the rules and takes all three addresses; port 0 takes any free one.
    ///
    /// Must be called within a Tokio runtime. Connections wait from here on and are served once it [runs](Self::run).
    pub async fn bind(config: Config, rules: RulesFeed) -> Result<Self, StartError> {
        let access = Access::new(&config)?;
        let gate = Arc::new(Gate::new(&config, &access)?);
        for (name, address) in listeners(&config) {
            let certified = name == "grpc"
                && config.grpc_tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
            let named = name == "admin" && gate.has_tokens();
            let restricted = access.is_restricted() || certified || named;
            if !address.ip().to_canonical().is_loopback() && !restricted {
                return Err(StartError::Unprotected { listener: name, address });
            }
        }
        let tls = config.grpc_tls.clone().map(Tls::new).transpose()?.map(Arc::new);
        let Start { loaded, changes, trouble, aside, book, pulse } =
            rules.start(config.rules_cache.as_ref().map(RulesCache::new)).await?;
        let node = Arc::new(Node::new(&config, access, loaded, book, pulse)?);
        node.put_aside(aside);
        if let Some(trouble) = trouble {
            trouble.tell(&node);
        }
        let [http, grpc, admin] = listeners(&config);
        Ok(Self {
            http: bind(http, Speaks::Http, &config).await?,
            grpc: bind(
                grpc,
                Speaks::Grpc { max_age: config.grpc_max_connection_age, tls: tls.clone() },
                &config,
            )
            .await?,
            admin: bind(admin, Speaks::Http, &config).await?,
            calls: Grpc::new(Arc::clone(&node)).await?,
            config,
            node,
            changes,
            tls,
            gate,
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        Addresses { http: self.http.address(), grpc: self.grpc.address(), admin: self.admin.address() }
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.node.limiter.rules()
    }

    /// Serves until `shutdown` resolves, then drains: unready first, then no new connections, then requests in
    /// flight are finished.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let addresses = self.addresses();
        let Self { config, node, changes, http, grpc, admin, calls, tls, gate } = self;
        let hosts = |address: SocketAddr| Hosts::new(address.ip().to_canonical(), &config.host_names);
        let (mut data, mut door) = (Serving::new(), Serving::new());
        serve_data(&mut data, http, Data::new(Arc::clone(&node), hosts(addresses.http)));
        let (calls, reporter) = calls;
        serve_grpc(&mut data, grpc, calls);
        let admin_hosts = hosts(addresses.admin);
        let answers = Admin::new(Arc::clone(&node), Arc::clone(&gate), admin_hosts, addresses);
        serve_admin(&mut door, admin, answers);
        // Ends with this function, whichever way that goes.
        let mut background = JoinSet::new();
        changes.map(|changes| background.spawn(changes.follow(Arc::clone(&node))));
        background.spawn(store_watch::watch(Arc::clone(&node)));
        background.spawn(tiers::watch(Arc::clone(&node)));
        config.tiers.as_ref().map(|tiers| background.spawn(tiers.clone().follow(Arc::clone(&node))));
        if let Some(cluster) = &config.cluster {
            background.spawn(cluster.clone().answer(Arc::clone(&node)));
            background.spawn(cluster.clone().follow_secrets());
        }
        tls.map(|tls| background.spawn(tls.follow()));
        background.spawn(gate.follow(Arc::clone(&node)));
        tracing::info!(http = %addresses.http, grpc = %addresses.grpc, admin = %addresses.admin, "serving");
        shutdown.await;
        let left = drain(&config, &node, reporter, data).await;
        settle(&node).await;
        if let Some(cluster) = &config.cluster {
            cluster.fleet().cluster().leave().await;
        }
        door.close(ADMIN_DRAIN).await;
        tracing::info!(left, "drained");
        if left == 0 { Ok(()) } else { Err(RunError::Unfinished(left)) }
    }
}

fn serve_data(serving: &mut Serving, listener: Listener, data: Data) {
    let data = Arc::new(data);
    serving.open(listener, move |peer, request| Arc::clone(&data).answer(peer, request));
}

fn serve_grpc(serving: &mut Serving, listener: Listener, grpc: Grpc) {
    let grpc = Arc::new(grpc);
    serving.open(listener, move |peer, request| Arc::clone(&grpc).answer(peer, request));
}

fn serve_admin(serving: &mut Serving, listener: Listener, admin: Admin) {
    let admin = Arc::new(admin);
    serving.open(listener, move |peer, request| {
        let admin = Arc::clone(&admin);
        async move { admin.answer(peer, request).await }
    });
}

fn listeners(config: &Config) -> [(&'static str, SocketAddr); 3] {
    [("http", config.http), ("grpc", config.grpc), ("admin", config.admin)]
}

async fn bind(
    (name, address): (&'static str, SocketAddr),
    speaks: Speaks,
    config: &Config,
) -> Result<Listener, StartError> {
    Listener::bind(address, speaks, config.max_connections).await.map_err(|source| StartError::Bind {
        listener: name,
        address,
        source,
    })
}

/// Waits a moment until the store knows what was admitted without it, if it is there to be told.
async fn settle(node: &Node) {
    let (Some(store), Some(fallback)) = (node.limiter.shared(), node.limiter.fallback()) else { return };
    let settled = async {
        while store.unwell() == 0 && fallback.unsettled() > 0 {
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
async fn drain(config: &Config, node: &Node, mut reporter: Reporter, data: Serving) -> usize {
    tracing::info!("draining");
    node.start_draining();
    reporter.not_serving().await;
    data.leave();
    sleep(config.grace).await;
    reporter.end().await;
    data.close(config.drain).await
}
