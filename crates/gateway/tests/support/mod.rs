//! A gateway for a test, in this process, on free ports, gone with its handle.

#![allow(dead_code, reason = "not every test binary uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot have its gateway has failed")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_gateway::{Gateway, GatewayAddresses, GatewayConfig, Routes, RoutesFeed};
use tidegate_server::{Config, DataPlane, RulesFeed, RunError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything here should take, even on a busy machine.
pub(crate) const DEADLINE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// Rules that are in nobody's way.
pub(crate) const GENEROUS: &str =
    "rules:\n  - {rule_id: all, identifier_type: ip_address, limit: 1000000, window: 1m}\n";

/// A gateway that runs.
pub(crate) struct Running {
    pub(crate) at: GatewayAddresses,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), RunError>>,
}

/// How to start one.
pub(crate) struct Setup {
    pub(crate) gateway: GatewayConfig,
    pub(crate) node: Config,
    pub(crate) rules: String,
    pub(crate) routes: RoutesFeed,
}

impl Setup {
    /// Everything goes to these back ends, by rules that are in nobody's way.
    pub(crate) fn to(upstreams: &[SocketAddr]) -> Self {
        let urls: Vec<String> = upstreams.iter().map(|address| format!("http://{address}")).collect();
        Self::with(RoutesFeed::fixed(Routes::single(&urls).unwrap()))
    }

    /// By a document of routes.
    pub(crate) fn by(routes: &str) -> Self {
        Self::with(RoutesFeed::fixed(Routes::read("routes.yaml", routes).unwrap()))
    }

    fn with(routes: RoutesFeed) -> Self {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        Self {
            gateway: GatewayConfig { listen: any, ..GatewayConfig::default() },
            node: Config {
                admin: any,
                grace: Duration::from_millis(10),
                data_plane: Some(DataPlane::start(NonZeroUsize::new(2).unwrap()).unwrap()),
                ..Config::default()
            },
            rules: GENEROUS.to_owned(),
            routes,
        }
    }

    pub(crate) fn rules(mut self, rules: &str) -> Self {
        self.rules = rules.to_owned();
        self
    }

    pub(crate) fn gateway(mut self, change: impl FnOnce(&mut GatewayConfig)) -> Self {
        change(&mut self.gateway);
        self
    }

    pub(crate) fn node(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.node);
        self
    }

    pub(crate) async fn start(self) -> Running {
        let rules = RulesFeed::fixed("rules.yaml", self.rules);
        Running::of(Gateway::bind(self.gateway, self.node, rules, self.routes).await.unwrap())
    }
}

impl Running {
    /// Has a gateway run.
    pub(crate) fn of(gateway: Gateway) -> Self {
        let at = gateway.addresses();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(Box::pin(gateway.run(async { drop(stopped.await) })));
        Self { at, stop: Some(stop), task }
    }

    /// Tells it to end, and waits for that.
    pub(crate) async fn stop(mut self) -> Result<(), RunError> {
        drop(self.stop.take());
        tokio::time::timeout(DEADLINE, self.task).await.expect("it ends in time").unwrap()
    }

    /// Sends bytes as they are, and gives all that comes back until the connection ends or nothing comes any more.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        raw(self.at.listen, bytes).await
    }
}

/// The same to any address.
pub(crate) async fn raw(to: SocketAddr, bytes: &[u8]) -> String {
    let bytes = bytes.to_vec();
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        // It may hang up before it has heard all.
        stream.write_all(&bytes).ok();
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            answer.extend_from_slice(&piece[..read]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    })
    .await
    .unwrap()
}
