//! A node that is a gateway.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::RuleSet;
use tidegate_server::front::{
    Base, ConnectionLimiter, Front, Listener, Node, Places, Public, Serving, Tls, TlsTerms,
};
use tidegate_server::{BoxFuture, Config, RulesFeed, RunError, StartError, TlsError};
use tokio::time::{MissedTickBehavior, interval};

use crate::access_log::AccessLog;
use crate::config::GatewayConfig;
use crate::forwarded::Forwarding;
use crate::identity::{Identify, IdentityError};
use crate::metrics::{Display, Metrics};
use crate::proxy::Proxy;
use crate::routes::{LiveRoutes, Problems, RoutesFeed, RoutesNews};
use crate::unauthenticated::RecentFailures;

/// How often it is looked whether something is wrong with what a gateway depends on.
const LOOK: Duration = Duration::from_millis(500);

/// How much of an answer is kept for a client that does not take it, for each request of an HTTP/2 connection.
const SEND_BUFFER: usize = 64 * 1024;

/// Why a gateway does not start. The text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Something that every node needs.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The routes cannot be used; all that is wrong with them.
    #[error("the routes cannot be used\n{0}")]
    Routes(Problems),
    /// Nobody could be identified as configured.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The access log cannot be written.
    #[error("the access log cannot be written: {0}; give another file")]
    AccessLog(#[source] io::Error),
    /// The files that TLS needs cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound gateway: its addresses are taken, its rules and routes loaded.
pub struct Gateway {
    base: Base,
    listener: Listener,
    serving: Serving,
    tls: Option<Arc<Tls>>,
    proxy: Arc<Proxy>,
    troubles: Troubles,
}

/// Where a gateway listens, with the ports it was really given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayAddresses {
    /// For clients.
    pub listen: SocketAddr,
    /// Administration.
    pub admin: SocketAddr,
}

impl Gateway {
    /// Loads rules and routes and takes both addresses; port 0 takes any free one.
    ///
    /// Must be called within a Tokio runtime. Connections wait from here on and are served once it [runs](Self::run).
    pub fn bind(
        config: GatewayConfig,
        node: Config,
        rules: RulesFeed,
        routes: RoutesFeed,
    ) -> BoxFuture<Result<Self, GatewayError>> {
        Box::pin(Self::bind_all(config, node, rules, routes))
    }

    async fn bind_all(
        config: GatewayConfig,
        node: Config,
        rules: RulesFeed,
        routes: RoutesFeed,
    ) -> Result<Self, GatewayError> {
        let (max_connections, per_address) = (node.max_connections, node.connections_per_address);
        let identify = Arc::new(Identify::new(&config.identity)?);
        let log = config.access_log.as_ref().map(AccessLog::open).transpose();
        let log = log.map_err(GatewayError::AccessLog)?.map(Arc::new);
        let terms = TlsTerms::Web { required: config.certificates_required };
        let tls = config.tls.clone().map(|files| Tls::new(files, terms)).transpose()?.map(Arc::new);
        let troubles = Troubles::default();
        let routes = routes.start(troubles.teller()).await.map_err(GatewayError::Routes)?;
        let base = Base::bind(node, rules).await?;
        let limiter = ConnectionLimiter::new(per_address, config.identity.trusted_proxies.clone());
        let public = Public {
            tls: tls.clone(),
            patience: config.patience,
            max_head_bytes: config.max_head_bytes,
            max_streams: config.max_streams,
            send_buffer: SEND_BUFFER,
            limiter: Arc::clone(&limiter),
        };
        let listener = Listener::public(config.listen, public, max_connections).await;
        let listener = listener.map_err(|source| StartError::Bind {
            listener: "listen",
            address: config.listen,
            source,
        })?;
        let serving = base.serving();
        let proxy = Arc::new(Proxy {
            node: Arc::clone(base.node()),
            routes: Arc::new(routes),
            forwarding: Arc::new(Forwarding::new(&identify)),
            identify,
            metrics: Arc::new(Metrics::default()),
            failures: RecentFailures::default(),
            log,
            format: config.refusals,
            body_timeout: config.body_timeout,
            max_body_bytes: config.max_body_bytes,
            max_streams: config.max_streams,
            phase: serving.phase(),
        });
        base.node().show_gateway(Arc::new(Display::new(&proxy, limiter)));
        Ok(Self { base, listener, serving, tls, proxy, troubles })
    }

    /// Where it listens.
    pub fn addresses(&self) -> GatewayAddresses {
        GatewayAddresses { listen: self.listener.address(), admin: self.base.admin() }
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.base.node().limiter().rules()
    }

    /// The routes in force.
    pub fn routes(&self) -> &LiveRoutes {
        &self.proxy.routes
    }

    /// Serves until `shutdown` resolves, then drains: unready first, then no new connections, then requests in
    /// flight are finished.
    pub fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> BoxFuture<Result<(), RunError>> {
        self.serve(Box::pin(shutdown))
    }

    fn serve(self, shutdown: BoxFuture<()>) -> BoxFuture<Result<(), RunError>> {
        let Self { base, listener, serving, tls, proxy, troubles } = self;
        let places = Places { gateway: Some(listener.address()), ..Places::default() };
        let mut front = Front::new(serving, places);
        tls.map(|tls| front.tasks.spawn(tls.follow()));
        let identify = Arc::clone(&proxy.identify);
        front.tasks.spawn(async move { identify.follow().await });
        front.tasks.spawn(troubles.tell(Arc::clone(&proxy.identify), Arc::clone(base.node())));
        front.serving.open_with_upgrades(listener, move |from| proxy.connection(from));
        base.run(front, shutdown)
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// What is wrong with what a gateway depends on.
#[derive(Default)]
struct Troubles {
    routes: Arc<Mutex<Vec<String>>>,
}

impl Troubles {
    /// Takes note of what becomes of routes.
    fn teller(&self) -> impl Fn(RoutesNews) + Send + 'static {
        let routes = Arc::clone(&self.routes);
        move |news| match news {
            RoutesNews::InForce { version } => {
                tracing::info!(version, "routes in force");
                routes.lock().clear();
            }
            RoutesNews::Unchanged { problems } => {
                tracing::warn!(
                    "new routes refused, the last good ones stay in force:\n{}",
                    problems.join("\n")
                );
                *routes.lock() =
                    problems.into_iter().map(|problem| format!("routes not loaded: {problem}")).collect();
            }
        }
    }

    /// Tells the node, for as long as this runs.
    async fn tell(self, identify: Arc<Identify>, node: Arc<Node>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = Vec::new();
        loop {
            looks.tick().await;
            let mut troubles = self.routes.lock().clone();
            troubles.extend(identify.problems());
            if troubles != told {
                node.note_gateway(troubles.clone());
                told = troubles;
            }
        }
    }
}
