//! What the options mean, taken together.

mod gateway;
mod secret_files;
mod threads;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use ipnet::IpNet;
use tidegate::TierOptions;
use tidegate_core::Span;
use tidegate_server::traces::DEFAULT_TRACE_SAMPLE;
use tidegate_server::{
    AdminTokens, Config, IdentityHeaders, LogLevel, RlsExtras, Thresholds, TlsFiles, Webhook, WebhookStyle,
};
use tidegate_sources::PostgresUrl;

use crate::cluster::Together;
use crate::config_file;
use crate::failure::Failure;
use crate::options::{
    AdminLocal, BreakerPreset, Credits, DecisionOptions, List, LogFormat, Network, Options, Ratio, RlsExtra,
    ServeArgs, ServeOptions, ServiceArgs, WebhookForm,
};
use crate::source::{Primary, RulesSource};
use crate::store::Store;
use crate::telemetry::TraceSettings;

pub(crate) use gateway::GatewaySettings;
pub(crate) use secret_files::SecretFiles;
pub(crate) use threads::Threads;

/// How to serve.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// None: the built-in examples.
    pub(crate) rules: Option<RulesSource>,
    pub(crate) rules_primary: Option<Primary>,
    pub(crate) store: Store,
    /// Whether not to start without the store.
    pub(crate) require_store: bool,
    pub(crate) breaker: BreakerPreset,
    /// How this node joins others, if it does.
    pub(crate) together: Option<Together>,
    /// Whether nobody said how many nodes there are.
    pub(crate) nodes_unsaid: bool,
    /// Where users' tiers are looked up, if anywhere.
    pub(crate) tiers: Option<PostgresUrl>,
    pub(crate) tier_options: TierOptions,
    pub(crate) log: LogFormat,
    pub(crate) log_level: LogLevel,
    /// Which requests are traced, if any are.
    pub(crate) traces: Option<TraceSettings>,
    /// Number of threads that serve requests.
    pub(crate) threads: Threads,
    pub(crate) secret_files: SecretFiles,
}

impl Settings {
    /// How to serve decisions. `given` is what the command line and the environment say; `args` has it too, but not what
    /// they left open.
    pub(crate) fn serve(args: &ServeArgs, given: &ArgMatches) -> Result<Self, Failure> {
        let ServeOptions { decisions, common } = joined(args, given, "serve")?;
        Self::resolve(common, decisions)
    }

    /// What is common to all that serve. `decisions` are those of the decision service, if it is one.
    fn resolve(options: Options, decisions: DecisionOptions) -> Result<Self, Failure> {
        let mut secret_files = secret_files(&options, &decisions);
        let token = match (options.token, &options.token_file) {
            (Some(_), Some(_)) => {
                return Err(Failure::Usage(
                    "there are a token and a token file; give one of them".to_owned(),
                ));
            }
            (None, Some(path)) => Some(read_token(path)?),
            (token, None) => token,
        };
        let admin_tokens = admin_tokens(options.admin_tokens, options.admin_tokens_inline)?;
        let grpc_tls = tls(
            ["--grpc-tls-cert", "--grpc-tls-key"],
            decisions.grpc_tls_cert,
            decisions.grpc_tls_key,
            decisions.grpc_tls_client_ca,
        )?;
        let default = Config::default();
        let name = options.node_name.clone().or_else(|| options.advertise.map(|address| address.to_string()));
        let alert_webhook = webhook(
            options.alert_webhook.as_deref(),
            options.alert_webhook_style.unwrap_or_default(),
            options.alert_webhook_key_file.as_deref(),
            options.alert_webhook_ca.as_deref(),
        )?;
        let traces = traces(options.otlp, options.trace_sample, name.clone())?;
        let alert_webhook = match name {
            Some(name) => alert_webhook.map(|webhook| webhook.source(name)),
            None => alert_webhook,
        };
        let mut alerts = default.alerts.clone();
        if let Some(runbooks) = options.runbooks {
            alerts.runbooks = runbooks;
        }
        if let Some(list) = options.alert_thresholds {
            let wrong = |error| Failure::Usage(format!("--alert-thresholds: {error}"));
            alerts.change(&list).map_err(wrong)?;
        }
        let usual = TierOptions::default();
        let tier_options = TierOptions {
            capacity: options.tier_cache.unwrap_or(usual.capacity),
            ttl: some_time("tier cache's time to live", "5m", options.tier_cache_ttl, usual.ttl)?,
            timeout: some_time("tier timeout", "5ms", options.tier_timeout, usual.timeout)?,
        };
        let headers = default.identity_headers;
        let config = Config {
            http: decisions.http.unwrap_or(default.http),
            grpc: decisions.grpc.unwrap_or(default.grpc),
            admin: options.admin.unwrap_or(default.admin),
            trusted_proxies: networks(options.trusted_proxies).unwrap_or(default.trusted_proxies),
            identity_headers: IdentityHeaders {
                user: options.user_header.unwrap_or(headers.user),
                tenant: options.tenant_header.unwrap_or(headers.tenant),
                api_key: options.api_key_header.unwrap_or(headers.api_key),
                tier: options.tier_header.or(headers.tier),
                plan: options.plan_header.or(headers.plan),
            },
            header_styles: options.headers.map_or(default.header_styles, |list| list.0),
            rls_extras: decisions.rls_extras.map_or(default.rls_extras, |list| rls_extras(&list.0)),
            credits: decisions.credits.map_or(default.credits, |credits| credits == Credits::Allow),
            documentation_url: options.documentation_url,
            allowed_networks: networks(options.allow_networks).unwrap_or(default.allowed_networks),
            token,
            admin_tokens,
            admin_local: options.admin_local.map_or(default.admin_local, |local| local == AdminLocal::Allow),
            host_names: options.host_names.map_or(default.host_names, |list| list.0),
            grace: options.grace.map_or(default.grace, duration),
            drain: options.drain.map_or(default.drain, duration),
            grpc_max_connection_age: match decisions.grpc_max_connection_age {
                None => default.grpc_max_connection_age,
                Some(age) => Some(duration(age)).filter(|age| !age.is_zero()),
            },
            grpc_tls,
            max_connections: options.max_connections.unwrap_or(default.max_connections),
            connections_per_address: options
                .max_connections_per_ip
                .unwrap_or(default.connections_per_address),
            data_plane: default.data_plane,
            store: default.store,
            store_timeout: some_time("store timeout", "5ms", options.store_timeout, default.store_timeout)?,
            tiers: default.tiers,
            nodes: options.nodes.unwrap_or(default.nodes),
            cluster: default.cluster,
            deny_when_not_owner: options.deny_when_not_owner.unwrap_or(default.deny_when_not_owner),
            emergency_cap: options.emergency_cap.unwrap_or(default.emergency_cap),
            peers_heard: default.peers_heard,
            thresholds: Thresholds {
                degraded_after: options.degraded_after.map_or(default.thresholds.degraded_after, duration),
                ..default.thresholds
            },
            rules_cache: options.rules_cache,
            max_keys: options.max_keys.unwrap_or(default.max_keys),
            hot_key_rate: options.hot_key_rate.unwrap_or(default.hot_key_rate),
            geoip: options.geoip,
            alerts,
            alert_webhook,
            traces: default.traces,
            log: default.log,
            clock: default.clock,
        };
        let tiers = options.tiers.as_deref().map(tiers).transpose()?;
        secret_files.add("the key in --tiers", tiers.as_ref().and_then(PostgresUrl::key_file));
        let store = options.store.unwrap_or(Store::Memory);
        let together = Together::new(
            options.cluster,
            options.cluster_secret,
            options.peers.map(|list| list.0),
            options.advertise,
            options.node_name,
        )?;
        if together.is_some() && store == Store::Memory {
            return Err(Failure::Usage(
                "--cluster is for nodes that share a store, and --store is not given\nUse --store redis://HOST:PORT, or leave \
                 --cluster out."
                    .to_owned(),
            ));
        }
        let require_store = options.require_store.unwrap_or_default();
        if require_store && store == Store::Memory {
            return Err(Failure::Usage(
                "--require-store is about a store that nodes share, and --store is not given\nUse --store redis://HOST:PORT, or \
                 leave --require-store out."
                    .to_owned(),
            ));
        }
        Ok(Self {
            config,
            rules: options.rules,
            rules_primary: options.rules_primary,
            store,
            require_store,
            nodes_unsaid: options.nodes.is_none() && together.is_none(),
            together,
            breaker: options.breaker.unwrap_or_default(),
            tiers,
            tier_options,
            log: options.log.unwrap_or_default(),
            log_level: options.log_level.unwrap_or_default().into(),
            traces,
            threads: Threads::new(options.threads)?,
            secret_files,
        })
    }
}

/// Returns the files with secrets that these options name.
fn secret_files(options: &Options, decisions: &DecisionOptions) -> SecretFiles {
    let mut files = SecretFiles::default();
    files.add("--token-file", options.token_file.as_deref());
    files.add("--admin-tokens", options.admin_tokens.as_deref());
    files.add("--cluster-secret", options.cluster_secret.as_deref());
    files.add("--alert-webhook-key-file", options.alert_webhook_key_file.as_deref());
    files.add("--grpc-tls-key", decisions.grpc_tls_key.as_deref());
    files.add("the key in --store", options.store.as_ref().and_then(Store::key_file));
    files.add("the key in --rules", options.rules.as_ref().and_then(RulesSource::key_file));
    files.add("the key in --rules-primary", options.rules_primary.as_ref().and_then(Primary::key_file));
    files
}

/// Joins what the command line, the environment and the configuration file say, the first to say it counting.
fn joined<O: clap::Args + Default>(
    args: &ServiceArgs<O>,
    given: &ArgMatches,
    command: &'static str,
) -> Result<O, Failure> {
    let mut options = match &args.config {
        Some(path) => config_file::read(path, command)?,
        None => O::default(),
    };
    options.update_from_arg_matches(given).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(options)
}

fn rls_extras(list: &[RlsExtra]) -> RlsExtras {
    RlsExtras {
        headers: list.contains(&RlsExtra::Headers),
        body: list.contains(&RlsExtra::Body),
        metadata: list.contains(&RlsExtra::Metadata),
    }
}

fn admin_tokens(file: Option<PathBuf>, inline: Option<String>) -> Result<Option<AdminTokens>, Failure> {
    match (file, inline) {
        (Some(_), Some(_)) => {
            let message = "there are admin tokens in a file and inline; give one of them";
            Err(Failure::Usage(message.to_owned()))
        }
        (file, inline) => Ok(file.map(AdminTokens::File).or_else(|| inline.map(AdminTokens::Inline))),
    }
}

/// Says what is wrong with a webhook, but not its URL, which is a secret.
fn webhook(
    url: Option<&str>,
    form: WebhookForm,
    key_file: Option<&Path>,
    authorities: Option<&Path>,
) -> Result<Option<Webhook>, Failure> {
    let Some(url) = url else {
        let said = form != WebhookForm::default() || key_file.is_some() || authorities.is_some();
        let message = "it is not said where alerts are posted to; give --alert-webhook URL";
        return if said { Err(Failure::Usage(message.to_owned())) } else { Ok(None) };
    };
    let style = match (form, key_file) {
        (WebhookForm::Generic, None) => WebhookStyle::Generic,
        (WebhookForm::Slack, None) => WebhookStyle::Slack,
        (WebhookForm::Pagerduty, Some(path)) => WebhookStyle::PagerDuty { routing_key: read_token(path)? },
        (WebhookForm::Pagerduty, None) => {
            let message = "PagerDuty needs the key of its integration; give --alert-webhook-key-file FILE";
            return Err(Failure::Usage(message.to_owned()));
        }
        (_, Some(_)) => {
            let message =
                "only PagerDuty has a key; give --alert-webhook-style pagerduty, or leave the key out";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    let webhook = Webhook::with_authorities(url, style, authorities);
    webhook.map(Some).map_err(|error| Failure::Usage(format!("alerts cannot be posted there: {error}")))
}

/// Where spans go and how many, if anywhere.
fn traces(
    otlp: Option<String>,
    sample: Option<Ratio>,
    node: Option<String>,
) -> Result<Option<TraceSettings>, Failure> {
    let Some(endpoint) = otlp else {
        return match sample {
            Some(Ratio(sample)) if sample != DEFAULT_TRACE_SAMPLE => {
                let message = "it is not said where spans are sent to; give --otlp http://HOST:4317";
                Err(Failure::Usage(message.to_owned()))
            }
            _ => Ok(None),
        };
    };
    if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
        let message = format!("spans cannot be sent to `{endpoint}`; write it as http://HOST:4317");
        return Err(Failure::Usage(message));
    }
    let sample = sample.map_or(DEFAULT_TRACE_SAMPLE, |Ratio(sample)| sample);
    Ok(Some(TraceSettings { endpoint, sample, node }))
}

/// A certificate is of no use without its key, nor the other way round.
fn tls(
    flags: [&str; 2],
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    client_authorities: Option<PathBuf>,
) -> Result<Option<TlsFiles>, Failure> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key, client_authorities })),
        (None, None) if client_authorities.is_none() => Ok(None),
        _ => {
            let [certificate, key] = flags;
            let message = format!("TLS needs a certificate and its key; give both {certificate} and {key}");
            Err(Failure::Usage(message))
        }
    }
}

fn networks(list: Option<List<Network>>) -> Option<Vec<IpNet>> {
    list.map(|list| list.0.into_iter().map(|network| network.0).collect())
}

fn duration(span: Span) -> Duration {
    Duration::from_millis(span.as_millis())
}

/// Says what is wrong with an URL, but not the URL: there may be a password in it.
fn tiers(url: &str) -> Result<PostgresUrl, Failure> {
    url.parse().map_err(|error| Failure::Usage(format!("users' tiers cannot be looked up there: {error}")))
}

/// No time at all would make every decision a failure, or every look-up useless.
fn some_time(what: &str, such_as: &str, given: Option<Span>, default: Duration) -> Result<Duration, Failure> {
    match given {
        Some(Span::ZERO) => {
            Err(Failure::Usage(format!("the {what} is 0; give it some time, such as {such_as}")))
        }
        Some(span) => Ok(duration(span)),
        None => Ok(default),
    }
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let token = fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("cannot read the token in {}: {error}", path.display())))?;
    Ok(token.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    fn resolve(options: ServeOptions) -> Settings {
        let ServeOptions { decisions, common } = options;
        Settings::resolve(common, decisions).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// A file that says just what the help says happens without an option.
    pub(super) fn stated_in_help<O: Args>() -> String {
        let mut text = String::new();
        for arg in O::augment_args(clap::Command::new("serve")).get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let stated = help.split_once("[default: ").and_then(|(_, rest)| rest.strip_suffix(']'));
            if let Some(value) =
                stated.filter(|value| !["none", "a few examples", "the number of cores"].contains(value))
            {
                text += &format!("{}: '{value}'\n", arg.get_id());
            }
        }
        text
    }

    /// The help says what happens without an option; saying just that changes nothing.
    #[test]
    fn the_defaults_are_those_in_the_help() {
        let text = stated_in_help::<ServeOptions>();
        assert!(text.lines().count() > 12, "{text}");
        let stated = resolve(config_file::parse(&text, "serve").unwrap());
        let default = resolve(ServeOptions::default());
        let figures = |settings: &Settings| {
            let Config { max_keys, max_connections, grace, drain, .. } = settings.config;
            (max_keys, max_connections, grace, drain, settings.tier_options)
        };
        assert_eq!(figures(&stated), figures(&default));
        assert_eq!(format!("{:?}", stated.config), format!("{:?}", default.config));
        assert_eq!(stated.config.header_styles, default.config.header_styles);
        let headers = |settings: &Settings| format!("{:?}", settings.config.identity_headers);
        assert_eq!(headers(&stated), headers(&default));
        assert_eq!((stated.log, stated.log_level), (default.log, default.log_level));
    }
}
