//! What an operator may decide.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderName;
use ipnet::IpNet;
use tidegate::store::Store;
use tidegate::{Clock, DEFAULT_EMERGENCY_CAP, DEFAULT_STORE_TIMEOUT};
use tidegate_wire::HeaderStyle;

use crate::alerts::{AlertSettings, StoreReporter, Webhook};
use crate::data_plane::DataPlane;
use crate::log_level::LogHandle;
use crate::membership::Membership;
use crate::modes::Thresholds;
use crate::tiers::UserTiers;
use crate::traces::Traces;

/// From how many requests a second on a key is called hot, unless told otherwise.
const DEFAULT_HOT_KEY_RATE: NonZeroU32 = NonZeroU32::new(10_000).unwrap();

/// How to serve. [`Config::default`] is what `tidegate serve` does without arguments.
#[derive(Clone)]
pub struct Config {
    /// Where decisions are asked for over HTTP.
    pub http: SocketAddr,
    /// Where gRPC is served.
    pub grpc: SocketAddr,
    /// Where health, metrics and rules are.
    pub admin: SocketAddr,
    /// Whose word on other requests is taken by `/v1/authorize`.
    pub trusted_proxies: Vec<IpNet>,
    /// Where such a proxy says who its client is.
    pub identity_headers: IdentityHeaders,
    /// Which rate limit headers answers carry.
    pub header_styles: Vec<HeaderStyle>,
    /// What answers to Envoy carry besides verdicts.
    pub rls_extras: RlsExtras,
    /// Whether callers may give quota back by asking for negative hits.
    pub credits: bool,
    /// Where the limits are explained, for the body of a refusal.
    pub documentation_url: Option<String>,
    /// Who may connect from outside this machine; empty means anybody, if there is a token.
    pub allowed_networks: Vec<IpNet>,
    /// What callers from outside this machine must send as `Authorization: Bearer …`.
    pub token: Option<String>,
    /// Who may ask the admin listener, by name; then `token` is for the other listeners only.
    pub admin_tokens: Option<AdminTokens>,
    /// Whether callers on this machine may do everything on the admin listener without a token.
    pub admin_local: bool,
    /// Names, besides the loopback ones, by which browsers may reach the admin listener.
    pub host_names: Vec<String>,
    /// How long to go on accepting after having become unready, so that load balancers notice.
    pub grace: Duration,
    /// How long requests in flight may take to finish after that.
    pub drain: Duration,
    /// How long a gRPC connection is used before its client is asked to make a new one, give or take a tenth: so
    /// that clients find nodes that have come up since.
    pub grpc_max_connection_age: Option<Duration>,
    /// How the gRPC listener is encrypted, if it is.
    pub grpc_tls: Option<TlsFiles>,
    /// How many connections each listener serves at once; more of them wait.
    pub max_connections: usize,
    /// Maximum number of connections one address may have at once, trusted proxies apart: of a gateway's listener all count, of the
    /// others those on which no request has been authenticated yet, and there at most half of `max_connections`.
    pub connections_per_address: u32,
    /// Threads that requests are served on, if not on those of the runtime that the node runs on.
    pub data_plane: Option<DataPlane>,
    /// Where counters are, if other nodes use them too; otherwise they are in memory.
    pub store: Option<SharedStore>,
    /// How long a decision waits for such a store.
    pub store_timeout: Duration,
    /// How many nodes use such a store: when it is away, each has an equal share of what rules allow locally.
    pub nodes: NonZeroU32,
    /// This node among others that use the same store: when it is away, one of them counts each key.
    pub cluster: Option<Membership>,
    /// Whether to refuse what another node counts then, instead of asking that node.
    pub deny_when_not_owner: bool,
    /// How many requests a minute a key is allowed on this node in an emergency.
    pub emergency_cap: u32,
    /// Says when another node was last heard, if this one has peers: without them and without its store it is on its own.
    pub peers_heard: Option<PeersHeard>,
    /// How long things have to be so before the mode changes for them.
    pub thresholds: Thresholds,
    /// When alerts fire.
    pub alerts: AlertSettings,
    /// Who is told of them, besides the log.
    pub alert_webhook: Option<Webhook>,
    /// Where users' tiers are looked up that neither requests nor rules name.
    pub tiers: Option<UserTiers>,
    /// Where the last good rules are kept, to start with when their source is away.
    pub rules_cache: Option<PathBuf>,
    /// How many counters are kept in memory.
    pub max_keys: usize,
    /// From how many requests a second on a key, that is one rule's counter for one identity, is called hot.
    pub hot_key_rate: NonZeroU32,
    /// A file in MaxMind's format that knows which country an address is in, to count refusals by. It is read at the start.
    pub geoip: Option<PathBuf>,
    /// That some requests are traced; none are otherwise.
    pub traces: Option<Traces>,
    /// The log, if its level can be changed.
    pub log: Option<LogHandle>,
    /// Another clock than the machine's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            http: loopback(8080),
            grpc: loopback(8081),
            admin: loopback(8082),
            trusted_proxies: loopback_networks(),
            identity_headers: IdentityHeaders::default(),
            header_styles: vec![HeaderStyle::XRateLimit],
            rls_extras: RlsExtras::default(),
            credits: false,
            documentation_url: None,
            allowed_networks: Vec::new(),
            token: None,
            admin_tokens: None,
            admin_local: true,
            host_names: Vec::new(),
            grace: Duration::from_millis(500),
            drain: Duration::from_secs(25),
            grpc_max_connection_age: Some(Duration::from_secs(86_400)),
            grpc_tls: None,
            max_connections: 10_000,
            connections_per_address: 1_000,
            data_plane: None,
            store: None,
            store_timeout: DEFAULT_STORE_TIMEOUT,
            nodes: NonZeroU32::MIN,
            cluster: None,
            deny_when_not_owner: false,
            emergency_cap: DEFAULT_EMERGENCY_CAP,
            peers_heard: None,
            thresholds: Thresholds::default(),
            alerts: AlertSettings::default(),
            alert_webhook: None,
            tiers: None,
            rules_cache: None,
            max_keys: tidegate::store::memory::DEFAULT_MAX_KEYS,
            hot_key_rate: DEFAULT_HOT_KEY_RATE,
            geoip: None,
            traces: None,
            log: None,
            clock: None,
        }
    }
}

fn loopback_networks() -> Vec<IpNet> {
    let v4 = ipnet::Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
    let v6 = ipnet::Ipv6Net::new_assert(std::net::Ipv6Addr::LOCALHOST, 128);
    vec![v4.into(), v6.into()]
}

/// Leaves out the token: configurations end up in logs.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("http", &self.http)
            .field("grpc", &self.grpc)
            .field("admin", &self.admin)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("rls_extras", &self.rls_extras)
            .field("credits", &self.credits)
            .field("grpc_max_connection_age", &self.grpc_max_connection_age)
            .field("grpc_tls", &self.grpc_tls)
            .field("allowed_networks", &self.allowed_networks)
            .field("token", &self.token.is_some())
            .field("admin_tokens", &self.admin_tokens)
            .field("admin_local", &self.admin_local)
            .field("store", &self.store)
            .field("store_timeout", &self.store_timeout)
            .field("nodes", &self.nodes)
            .field("cluster", &self.cluster)
            .field("peers_heard", &self.peers_heard.is_some())
            .field("thresholds", &self.thresholds)
            .field("alerts", &self.alerts)
            .field("alert_webhook", &self.alert_webhook)
            .field("tiers", &self.tiers)
            .field("traces", &self.traces)
            .finish_non_exhaustive()
    }
}

/// When any other node was last heard; `None`: never. It is asked ten times a second and must not wait.
pub type PeersHeard = Arc<dyn Fn() -> Option<Instant> + Send + Sync>;

/// What answers of the rate limit service carry besides verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlsExtras {
    /// Rate limit headers for the client. Envoy can add some itself.
    pub headers: bool,
    /// A body for clients that are refused.
    pub body: bool,
    /// Ids of the rules that counted, as dynamic metadata.
    pub metadata: bool,
}

impl Default for RlsExtras {
    fn default() -> Self {
        Self { headers: false, body: true, metadata: true }
    }
}

/// Where the named tokens of the admin listener are, one `NAME ROLE sha256:HEX` per line.
#[derive(Clone, PartialEq, Eq)]
pub enum AdminTokens {
    /// In a file, which is read again when it changes.
    File(PathBuf),
    /// Here, with line ends or commas between them.
    Inline(String),
}

/// Leaves out inline tokens: configurations end up in logs.
impl fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(_) => f.write_str("Inline"),
        }
    }
}

/// Where the keys and certificates of a listener are, as PEM. They are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those that lead to a known authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose certificates clients must have; without it they need none.
    pub client_authorities: Option<PathBuf>,
}

/// A store that nodes share. It may be away when the server starts, and at any time later.
#[derive(Clone)]
pub struct SharedStore {
    kind: String,
    store: Arc<dyn Store>,
    reporter: Option<StoreReporter>,
}

impl SharedStore {
    /// A store of a kind, such as `redis`, which is what health reports call it.
    pub fn new(kind: impl Into<String>, store: Arc<dyn Store>) -> Self {
        Self { kind: kind.into(), store, reporter: None }
    }

    /// The same, whose servers can be asked how busy they are: for alerts and metrics.
    #[must_use]
    pub fn reporting(mut self, reporter: StoreReporter) -> Self {
        self.reporter = Some(reporter);
        self
    }

    pub(crate) fn reporter(&self) -> Option<&StoreReporter> {
        self.reporter.as_ref()
    }

    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedStore").field(&self.kind).finish()
    }
}

/// The headers in which a trusted proxy says who its client is.
#[derive(Clone, Debug)]
pub struct IdentityHeaders {
    /// The user; present means authenticated.
    pub user: HeaderName,
    /// Who the user belongs to.
    pub tenant: HeaderName,
    /// The API key.
    pub api_key: HeaderName,
    /// The user's tier. None by default: a proxy that does not know tiers would pass on what its clients claim.
    pub tier: Option<HeaderName>,
    /// The tenant's plan. None by default, for the same reason.
    pub plan: Option<HeaderName>,
}

impl Default for IdentityHeaders {
    fn default() -> Self {
        Self {
            user: HeaderName::from_static("x-user-id"),
            tenant: HeaderName::from_static("x-tenant-id"),
            api_key: HeaderName::from_static("x-api-key"),
            tier: None,
            plan: None,
        }
    }
}
