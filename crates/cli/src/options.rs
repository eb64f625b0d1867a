//! The options of what serves, each defined once: flag, environment variable and key of the configuration file.

mod decisions;
mod gateway;

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use hyper::header::HeaderName;
use ipnet::IpNet;
use tidegate::cluster::PeerName;
use tidegate::store::BreakerSettings;
use tidegate_core::Span;
use tidegate_wire::HeaderStyle;

use crate::source::{Primary, RulesSource};
use crate::store::Store;

pub(crate) use decisions::DecisionOptions;
pub(crate) use gateway::{AccessLogPlace, Bytes, CertificateNeed, ProxyOptions, RefusalStyle};

/// The arguments of something that serves.
#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArgs<O: clap::Args> {
    /// A YAML file with any of these options
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) options: O,
}

/// The arguments of `tidegate serve`.
pub(crate) type ServeArgs = ServiceArgs<ServeOptions>;

/// The arguments of `tidegate gateway`.
pub(crate) type GatewayArgs = ServiceArgs<GatewayOptions>;

/// What an operator of the decision service may decide.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    pub(crate) decisions: DecisionOptions,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// What an operator of a gateway may decide.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GatewayOptions {
    #[command(flatten)]
    pub(crate) proxy: ProxyOptions,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// What may be in a file that is for either.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AnyOptions {
    #[command(flatten)]
    decisions: DecisionOptions,

    #[command(flatten)]
    proxy: ProxyOptions,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// What an operator of either may decide; what is not given is as the help says.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Where health, metrics and rules are [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_ADMIN", value_parser = address, help_heading = "Listeners")]
    pub(crate) admin: Option<SocketAddr>,

    /// How many connections each listener serves at once [default: 10000]
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_CONNECTIONS", help_heading = "Listeners")]
    pub(crate) max_connections: Option<usize>,

    /// How many connections one address may have at once, trusted proxies apart: of a gateway's listener all count, of the
    /// others those that have not been authenticated, and at most half of --max-connections [default: 1000]
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_CONNECTIONS_PER_IP", help_heading = "Listeners")]
    pub(crate) max_connections_per_ip: Option<u32>,

    /// Number of threads that serve requests, each with its own connections to clients; administration has other threads
    /// [default: the number of cores]
    #[arg(long, value_name = "N", env = "TIDEGATE_THREADS", help_heading = "Listeners")]
    pub(crate) threads: Option<usize>,

    /// Where the rules come from: a file or a folder of files, etcd://HOST:PORT,…/PREFIX (etcds for TLS),
    /// zookeeper://HOST:PORT,…/PATH or postgres://USER@HOST:PORT/DATABASE; read again whenever they change [default: a
    /// few examples]
    #[arg(
        long,
        value_name = "SOURCE",
        env = "TIDEGATE_RULES",
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) rules: Option<RulesSource>,

    /// Where rules in PostgreSQL are changed, postgres://USER@HOST:PORT/DATABASE, if --rules names replicas only
    /// [default: none]
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_RULES_PRIMARY",
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) rules_primary: Option<Primary>,

    /// A file to keep the last good rules in, to start with when their source is away [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_RULES_CACHE", help_heading = "Limits")]
    pub(crate) rules_cache: Option<PathBuf>,

    /// Where counters are kept: in this process, or in Redis, shared by all nodes that use it: redis://HOST:PORT,
    /// redis+sentinel://HOST:PORT,…/MASTER or redis+cluster://HOST:PORT,… (rediss for TLS) [default: memory:]
    #[arg(long, value_name = "URL", env = "TIDEGATE_STORE", hide_env_values = true, help_heading = "Limits")]
    pub(crate) store: Option<Store>,

    /// Whether not to start unless the shared store can be used within 10 s; without it, a node starts, and rules' on_store_failure
    /// decides until the store is there [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        env = "TIDEGATE_REQUIRE_STORE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Limits"
    )]
    pub(crate) require_store: Option<bool>,

    /// How long a decision waits for a shared store; then each rule's on_store_failure decides [default: 5ms]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_STORE_TIMEOUT", help_heading = "Limits")]
    pub(crate) store_timeout: Option<Span>,

    /// How many nodes share the store, if they do not know each other (--cluster): when it is away, each counts by itself and has
    /// an equal share of every limit [default: 1]
    #[arg(long, value_name = "N", env = "TIDEGATE_NODES", help_heading = "Limits")]
    pub(crate) nodes: Option<NonZeroU32>,

    /// Where this node talks to the others that share the store, over TCP and UDP: when the store is away, one of them counts each
    /// key. Needs --cluster-secret [default: none]
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_CLUSTER", help_heading = "Cluster")]
    pub(crate) cluster: Option<SocketAddr>,

    /// Where to look for other nodes at first: HOST:PORT of their --cluster, or dns:NAME:PORT for all that a name stands for, such
    /// as a headless service of Kubernetes. One that is there is enough; its own address may be among them
    #[arg(long, value_name = "LIST", env = "TIDEGATE_PEERS", help_heading = "Cluster")]
    pub(crate) peers: Option<List<PeerName>>,

    /// A file with the secrets that all nodes share, one a line: the first seals, all open. Looked at every second
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CLUSTER_SECRET", help_heading = "Cluster")]
    pub(crate) cluster_secret: Option<PathBuf>,

    /// Where others reach --cluster, if not where it listens: needed if it listens on all addresses [default: none]
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_ADVERTISE", help_heading = "Cluster")]
    pub(crate) advertise: Option<SocketAddr>,

    /// What this node is called among others, if not by its address; it should stay the same when it is started again
    /// [default: none]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_NODE_NAME", help_heading = "Cluster")]
    pub(crate) node_name: Option<String>,

    /// Whether to refuse what another node counts while the store is away, to be tried again after a second, instead of asking that
    /// node: true or false [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        env = "TIDEGATE_DENY_WHEN_NOT_OWNER",
        help_heading = "Cluster",
        hide_possible_values = true
    )]
    pub(crate) deny_when_not_owner: Option<bool>,

    /// How many requests a minute each key is allowed on this node in an emergency: neither the store nor any other node can be
    /// heard. Rules with `on_store_failure: local_or_deny` refuse then [default: 10]
    #[arg(long, value_name = "N", env = "TIDEGATE_EMERGENCY_CAP", help_heading = "Cluster")]
    pub(crate) emergency_cap: Option<u32>,

    /// How long the store has to be unwell before the node calls itself degraded; /health shows at once what is wrong
    /// [default: 5s]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_DEGRADED_AFTER", help_heading = "Limits")]
    pub(crate) degraded_after: Option<Span>,

    /// When a server of the store that fails is left alone for a while: fast (silent for 50 ms, five failures in a row, or
    /// a fifth of its answers too late; for a second), classic (more than half of ten or more calls in ten seconds; for a minute), five (five failures in a
    /// row; for half a minute) or off [default: fast]
    #[arg(
        long,
        value_name = "PRESET",
        env = "TIDEGATE_BREAKER",
        help_heading = "Limits",
        hide_possible_values = true
    )]
    pub(crate) breaker: Option<BreakerPreset>,

    /// Where users' tiers are looked up that neither requests nor rules name: postgres://USER@HOST:PORT,…/DATABASE, in the
    /// tables of `rules init` [default: none]
    // Read later: clap shows an URL that cannot be read, password and all.
    #[arg(long, value_name = "URL", env = "TIDEGATE_TIERS", hide_env_values = true, help_heading = "Limits")]
    pub(crate) tiers: Option<String>,

    /// How many users' tiers to remember, those without a tier included [default: 10000]
    #[arg(long, value_name = "N", env = "TIDEGATE_TIER_CACHE", help_heading = "Limits")]
    pub(crate) tier_cache: Option<NonZeroUsize>,

    /// How long to remember them; changes that the database tells count at once [default: 5m]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_TIER_CACHE_TTL", help_heading = "Limits")]
    pub(crate) tier_cache_ttl: Option<Span>,

    /// How long a decision waits for a tier; then the rules' default counts. At most half of the store timeout if there is
    /// a shared store [default: 5ms]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_TIER_TIMEOUT", help_heading = "Limits")]
    pub(crate) tier_timeout: Option<Span>,

    /// How many counters to keep in this process at most [default: 1000000]
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_KEYS", help_heading = "Limits")]
    pub(crate) max_keys: Option<usize>,

    /// Which rate limit headers answers carry: x-ratelimit, ietf or x-ratelimit,ietf [default: x-ratelimit]
    #[arg(long, value_name = "STYLES", env = "TIDEGATE_HEADERS", help_heading = "Answers")]
    pub(crate) headers: Option<List<HeaderStyle>>,

    /// A page that explains the limits, named in refusals
    #[arg(long, value_name = "URL", env = "TIDEGATE_DOCUMENTATION_URL", help_heading = "Answers")]
    pub(crate) documentation_url: Option<String>,

    /// Networks whose callers may connect from outside this machine
    #[arg(long, value_name = "NETWORKS", env = "TIDEGATE_ALLOW_NETWORKS", help_heading = "Access")]
    pub(crate) allow_networks: Option<List<Network>>,

    /// What callers from outside this machine must send as `Authorization: Bearer …`
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TIDEGATE_TOKEN",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) token: Option<String>,

    /// The file that token is in
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TOKEN_FILE", help_heading = "Access")]
    pub(crate) token_file: Option<PathBuf>,

    /// The file of named tokens for the admin listener, one `NAME ROLE sha256:HEX` per line as `tidegate token new` prints
    /// them; read again whenever it changes [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_ADMIN_TOKENS", help_heading = "Access")]
    pub(crate) admin_tokens: Option<PathBuf>,

    /// Such lines themselves, with commas or line ends between them
    #[arg(
        long,
        value_name = "LINES",
        env = "TIDEGATE_ADMIN_TOKENS_INLINE",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) admin_tokens_inline: Option<String>,

    /// Whether callers on this machine may do everything on the admin listener without a token [default: allow]
    #[arg(long, value_name = "WHETHER", env = "TIDEGATE_ADMIN_LOCAL", help_heading = "Access")]
    pub(crate) admin_local: Option<AdminLocal>,

    /// Names, besides this machine's own, by which browsers may reach the admin listener
    #[arg(long, value_name = "NAMES", env = "TIDEGATE_HOST_NAMES", help_heading = "Access")]
    pub(crate) host_names: Option<List<String>>,

    /// Proxies whose word about a request is taken [default: 127.0.0.0/8,::1/128]
    #[arg(long, value_name = "NETWORKS", env = "TIDEGATE_TRUSTED_PROXIES", help_heading = "Proxies")]
    pub(crate) trusted_proxies: Option<List<Network>>,

    /// The header in which such a proxy names the user [default: x-user-id]
    #[arg(long, value_name = "HEADER", env = "TIDEGATE_USER_HEADER", help_heading = "Proxies")]
    pub(crate) user_header: Option<HeaderName>,

    /// The header in which it names the tenant [default: x-tenant-id]
    #[arg(long, value_name = "HEADER", env = "TIDEGATE_TENANT_HEADER", help_heading = "Proxies")]
    pub(crate) tenant_header: Option<HeaderName>,

    /// The header in which it passes on the API key [default: x-api-key]
    #[arg(long, value_name = "HEADER", env = "TIDEGATE_API_KEY_HEADER", help_heading = "Proxies")]
    pub(crate) api_key_header: Option<HeaderName>,

    /// The header in which it names the tier; only name one that clients cannot set themselves [default: none]
    #[arg(long, value_name = "HEADER", env = "TIDEGATE_TIER_HEADER", help_heading = "Proxies")]
    pub(crate) tier_header: Option<HeaderName>,

    /// The header in which it names the tenant's plan; only name one that clients cannot set themselves [default: none]
    #[arg(long, value_name = "HEADER", env = "TIDEGATE_PLAN_HEADER", help_heading = "Proxies")]
    pub(crate) plan_header: Option<HeaderName>,

    /// From how many requests a second on a key is called hot: one rule's counter for one identity [default: 10000]
    #[arg(long, value_name = "N", env = "TIDEGATE_HOT_KEY_RATE", help_heading = "Watching")]
    pub(crate) hot_key_rate: Option<NonZeroU32>,

    /// A file in MaxMind's format that knows which country an address is in, to count refusals by [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_GEOIP", help_heading = "Watching")]
    pub(crate) geoip: Option<PathBuf>,

    /// Where alerts are posted to, besides the log and /v1/alerts [default: none]
    // Shown to nobody: the URLs of webhooks are secrets.
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_ALERT_WEBHOOK",
        hide_env_values = true,
        help_heading = "Watching"
    )]
    pub(crate) alert_webhook: Option<String>,

    /// In which form: generic, slack or pagerduty [default: generic]
    #[arg(
        long,
        value_name = "FORM",
        env = "TIDEGATE_ALERT_WEBHOOK_STYLE",
        help_heading = "Watching",
        hide_possible_values = true
    )]
    pub(crate) alert_webhook_style: Option<WebhookForm>,

    /// The file with the routing key of PagerDuty's integration [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_ALERT_WEBHOOK_KEY_FILE", help_heading = "Watching")]
    pub(crate) alert_webhook_key_file: Option<PathBuf>,

    /// The authorities whose certificates the webhook's server may have, if not those that the system trusts [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_ALERT_WEBHOOK_CA", help_heading = "Watching")]
    pub(crate) alert_webhook_ca: Option<PathBuf>,

    /// When alerts fire, where that is not as usual: NAME=VALUE with commas, such as latency=10ms,rejections=50%
    /// [default: none]
    #[arg(long, value_name = "LIST", env = "TIDEGATE_ALERT_THRESHOLDS", help_heading = "Watching")]
    pub(crate) alert_thresholds: Option<String>,

    /// Where the runbooks are that alerts point to, if not those that come with the node [default: none]
    #[arg(long, value_name = "URL", env = "TIDEGATE_RUNBOOKS", help_heading = "Watching")]
    pub(crate) runbooks: Option<String>,

    /// Where spans of requests are sent to, over gRPC (OTLP): http://HOST:4317 or https://HOST:4317 [default: none]
    #[arg(long, value_name = "URL", env = "TIDEGATE_OTLP", help_heading = "Watching")]
    pub(crate) otlp: Option<String>,

    /// Which share of requests is traced, from 0 to 1, if a trusted caller has not decided; a thousand a second at most
    /// [default: 0.01]
    #[arg(long, value_name = "RATIO", env = "TIDEGATE_TRACE_SAMPLE", help_heading = "Watching")]
    pub(crate) trace_sample: Option<Ratio>,

    /// How long to go on accepting requests after having become unready [default: 500ms]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_GRACE", help_heading = "Shutdown")]
    pub(crate) grace: Option<Span>,

    /// How long requests in flight may take to finish after that [default: 25s]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_DRAIN", help_heading = "Shutdown")]
    pub(crate) drain: Option<Span>,

    /// How to write the log: for people or for programs [default: human]
    #[arg(long, value_name = "FORMAT", env = "TIDEGATE_LOG", help_heading = "Log")]
    pub(crate) log: Option<LogFormat>,

    /// What to log [default: info]
    #[arg(long, value_name = "LEVEL", env = "TIDEGATE_LOG_LEVEL", help_heading = "Log")]
    pub(crate) log_level: Option<LogLevel>,
}

/// In which form alerts are posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WebhookForm {
    #[default]
    Generic,
    Slack,
    Pagerduty,
}

/// When a server that fails is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BreakerPreset {
    #[default]
    Fast,
    Classic,
    Five,
    Off,
}

impl BreakerPreset {
    pub(crate) fn settings(self) -> Option<BreakerSettings> {
        match self {
            Self::Fast => Some(BreakerSettings::FAST),
            Self::Classic => Some(BreakerSettings::CLASSIC),
            Self::Five => Some(BreakerSettings::FIVE_IN_A_ROW),
            Self::Off => None,
        }
    }
}

/// Whether callers on this machine are administrators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AdminLocal {
    #[default]
    Allow,
    Deny,
}

/// Whether quota may be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Credits {
    #[default]
    Refuse,
    Allow,
}

/// Something that answers of the rate limit service carry besides verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RlsExtra {
    Headers,
    Body,
    Metadata,
}

impl FromStr for RlsExtra {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "headers" => Ok(Self::Headers),
            "body" => Ok(Self::Body),
            "metadata" => Ok(Self::Metadata),
            _ => Err(format!("`{text}` is none of headers, body and metadata")),
        }
    }
}

/// For whom the log is written: lines for people, or an object per line for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Human,
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

impl From<LogLevel> for tidegate_server::LogLevel {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::Error,
            LogLevel::Warn => Self::Warn,
            LogLevel::Info => Self::Info,
            LogLevel::Debug => Self::Debug,
        }
    }
}

/// A share of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio(pub(crate) f64);

impl FromStr for Ratio {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.map(Self).ok_or("write a number from 0 to 1, such as 0.01")
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "write an IP address and a port, such as 127.0.0.1:8080; port 0 takes any that is free")
}

/// Several values with commas between them; an empty text is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T: FromStr> FromStr for List<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// A network, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network(pub(crate) IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
        network
            .map(Self)
            .map_err(|_| format!("`{text}` is no network; write it as 10.0.0.0/8 or as an address"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    #[test]
    fn every_flag_has_an_environment_variable_and_a_key() {
        let serve = ServeOptions::augment_args(clap::Command::new("serve"));
        let gateway = GatewayOptions::augment_args(clap::Command::new("gateway"));
        for arg in serve.get_arguments().chain(gateway.get_arguments()) {
            let key = arg.get_id().as_str();
            let flag = arg.get_long().unwrap_or_default();
            let variable = arg.get_env().and_then(|name| name.to_str()).unwrap_or_default();
            assert_eq!(flag, key.replace('_', "-"));
            assert_eq!(variable, format!("TIDEGATE_{}", key.to_uppercase()));
            assert!(arg.get_action().takes_values(), "{key}: a key of a file has a value");
        }
        assert!(serve.get_arguments().count() > 20 && gateway.get_arguments().count() > 40);
    }

    #[test]
    fn lists_and_networks() {
        let networks = |text: &str| text.parse::<List<Network>>().map(|list| list.0);
        let network = |text: &str| Network(text.parse().unwrap());
        assert_eq!(networks("10.0.0.0/8, ::1"), Ok(vec![network("10.0.0.0/8"), network("::1/128")]));
        assert_eq!(networks(""), Ok(vec![]));
        assert!(networks("10.0.0.0/8,ten").unwrap_err().contains("`ten` is no network"));
    }
}
