//! The decision service: HTTP and gRPC on a node.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_core::RuleSet;

use crate::BoxFuture;
use crate::access::Access;
use crate::base::{Base, Front, Places, bind};
use crate::config::Config;
use crate::data::Data;
use crate::drain::Serving;
use crate::error::{RunError, StartError};
use crate::feed::RulesFeed;
use crate::grpc::{Grpc, Reporter};
use crate::listen::{Listener, Speaks};
use crate::tls::{Tls, TlsTerms};

/// A bound server: its addresses are taken, its rules loaded.
pub struct Server {
    base: Base,
    http: Listener,
    grpc: Listener,
    calls: (Grpc, Reporter),
    tls: Option<Arc<Tls>>,
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
    pub fn bind(config: Config, rules: RulesFeed) -> BoxFuture<Result<Self, StartError>> {
        Box::pin(Self::bind_all(config, rules))
    }

    async fn bind_all(config: Config, rules: RulesFeed) -> Result<Self, StartError> {
        let access = Access::new(&config)?;
        access.protect("http", config.http)?;
        if config.grpc_tls.as_ref().is_none_or(|tls| tls.client_authorities.is_none()) {
            access.protect("grpc", config.grpc)?;
        }
        let tls = config.grpc_tls.clone().map(|files| Tls::new(files, TlsTerms::Grpc));
        let tls = tls.transpose()?.map(Arc::new);
        let base = Base::bind(config, rules).await?;
        let config = &base.config;
        let grpc = Speaks::Grpc { max_age: config.grpc_max_connection_age, tls: tls.clone() };
        let limiters = &base.node().limiters;
        Ok(Self {
            http: bind(("http", config.http), Speaks::Http, config, &limiters.http).await?,
            grpc: bind(("grpc", config.grpc), grpc, config, &limiters.grpc).await?,
            calls: Grpc::new(Arc::clone(base.node())).await?,
            base,
            tls,
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        Addresses { http: self.http.address(), grpc: self.grpc.address(), admin: self.base.admin() }
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.base.node().limiter.rules()
    }

    /// Serves until `shutdown` resolves, then drains: unready first, then no new connections, then requests in
    /// flight are finished.
    pub fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> BoxFuture<Result<(), RunError>> {
        self.serve(Box::pin(shutdown))
    }

    fn serve(self, shutdown: BoxFuture<()>) -> BoxFuture<Result<(), RunError>> {
        let Addresses { http: http_at, grpc: grpc_at, .. } = self.addresses();
        let Self { base, http, grpc, calls: (calls, reporter), tls } = self;
        let places = Places { http: Some(http_at), grpc: Some(grpc_at), ..Places::default() };
        let mut front = Front { reporter: Some(reporter), ..Front::new(base.serving(), places) };
        serve_data(&mut front.serving, http, Data::new(Arc::clone(base.node()), base.hosts(http_at)));
        serve_grpc(&mut front.serving, grpc, calls);
        tls.map(|tls| front.tasks.spawn(tls.follow()));
        base.run(front, shutdown)
    }
}

fn serve_data(serving: &mut Serving, listener: Listener, data: Data) {
    let data = Arc::new(data);
    serving.open(listener, move |from| {
        let data = Arc::clone(&data);
        move |request| Arc::clone(&data).answer(&from, request)
    });
}

fn serve_grpc(serving: &mut Serving, listener: Listener, grpc: Grpc) {
    let grpc = Arc::new(grpc);
    serving.open(listener, move |from| {
        let grpc = Arc::clone(&grpc);
        move |request| Arc::clone(&grpc).answer(&from, request)
    });
}
