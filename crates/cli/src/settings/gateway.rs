//! How to be a gateway.

use std::fs;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::ArgMatches;
use tidegate_gateway::identity::{
    ApiKeyConfig, CertificateConfig, CertificateTenant, CertificateUser, IdentityConfig, JwtConfig, JwtKeys,
};
use tidegate_gateway::{AccessLogTarget, GatewayConfig, RefusalFormat, Routes, RoutesFeed};
use tidegate_server::Config;
use tidegate_server::front::Patience;

use super::{Settings, joined, some_time, tls};
use crate::failure::Failure;
use crate::options::{
    AccessLogPlace, Bytes, CertificateNeed, DecisionOptions, GatewayArgs, GatewayOptions, ProxyOptions,
    RefusalStyle,
};
use crate::source::RulesSource;

/// How to be a gateway.
pub(crate) struct GatewaySettings {
    /// As any other node.
    pub(crate) node: Settings,
    pub(crate) gateway: GatewayConfig,
    pub(crate) to: Destination,
}

/// Where requests go.
pub(crate) enum Destination {
    /// All to these back ends.
    Upstreams(Vec<String>),
    /// By routes that change.
    Routes(RulesSource),
}

impl Destination {
    /// The routes, as they are and as they change.
    pub(crate) fn feed(&self) -> Result<RoutesFeed, Failure> {
        match self {
            Self::Routes(source) => Ok(RoutesFeed::watch(source.source())),
            Self::Upstreams(urls) => {
                let routes = Routes::single(urls).map_err(|problems| Failure::Usage(problems.to_string()))?;
                Ok(RoutesFeed::fixed(routes))
            }
        }
    }
}

impl GatewaySettings {
    /// `given` is what the command line and the environment say; `args` has it too, but not what they left open.
    pub(crate) fn new(args: &GatewayArgs, given: &ArgMatches) -> Result<Self, Failure> {
        Self::resolve(joined(args, given, "gateway")?)
    }

    fn resolve(options: GatewayOptions) -> Result<Self, Failure> {
        let GatewayOptions { mut proxy, common } = options;
        let mut node = Settings::resolve(common, DecisionOptions::default())?;
        node.secret_files.add("--tls-key", proxy.tls_key.as_deref());
        node.secret_files.add("--jwt-secret-file", proxy.jwt_secret_file.as_deref());
        node.secret_files.add("--api-keys", proxy.api_keys.as_deref());
        let to = destination(&mut proxy)?;
        let gateway = gateway(proxy, &node.config)?;
        Ok(Self { node, gateway, to })
    }
}

fn destination(options: &mut ProxyOptions) -> Result<Destination, Failure> {
    let upstreams = options.upstream.take().map(|list| list.0).filter(|urls| !urls.is_empty());
    match (upstreams, options.routes.take()) {
        (Some(urls), None) => Ok(Destination::Upstreams(urls)),
        (None, Some(source)) => Ok(Destination::Routes(source)),
        (None, None) => Err(Failure::Usage(
            "there is nowhere to forward requests to\nUse --upstream http://HOST:PORT, or --routes FILE."
                .to_owned(),
        )),
        (Some(_), Some(_)) => Err(Failure::Usage(
            "routes name their back ends themselves; give either --upstream or --routes".to_owned(),
        )),
    }
}

fn gateway(options: ProxyOptions, node: &Config) -> Result<GatewayConfig, Failure> {
    let default = GatewayConfig::default();
    let time = |what, such_as, given, default| some_time(what, such_as, given, default);
    let patience = Patience {
        head: time("time for a head", "10s", options.head_timeout, default.patience.head)?,
        idle: time("time between requests", "75s", options.idle_timeout, default.patience.idle)?,
        take: time("time to take an answer", "60s", options.send_timeout, default.patience.take)?,
    };
    let need = options.client_certificates.unwrap_or_default();
    let identity = identity(&options, node)?;
    Ok(GatewayConfig {
        listen: options.listen.unwrap_or(default.listen),
        tls: tls(["--tls-cert", "--tls-key"], options.tls_cert, options.tls_key, options.client_ca)?,
        certificates_required: need == CertificateNeed::Required,
        max_head_bytes: options.max_head.map_or(Ok(default.max_head_bytes), head_bytes)?,
        max_body_bytes: options.max_body.map(|Bytes(bytes)| bytes).or(default.max_body_bytes),
        max_streams: options.max_streams.unwrap_or(default.max_streams),
        patience,
        body_timeout: time("time for a part of a body", "30s", options.body_timeout, default.body_timeout)?,
        identity,
        refusals: match options.refusals.unwrap_or_default() {
            RefusalStyle::Json => RefusalFormat::Json,
            RefusalStyle::Problem => RefusalFormat::Problem,
        },
        access_log: options.access_log.map(|place| match place {
            AccessLogPlace::Stdout => AccessLogTarget::Stdout,
            AccessLogPlace::File(path) => AccessLogTarget::File(path),
        }),
    })
}

/// Less than this and no request fits; more and a few connections fill the memory.
fn head_bytes(Bytes(bytes): Bytes) -> Result<u32, Failure> {
    let usable = u32::try_from(bytes).ok().filter(|bytes| (8 * 1024..=1024 * 1024).contains(bytes));
    usable.ok_or_else(|| {
        Failure::Usage(format!("heads of {bytes} bytes are of no use; give --max-head 8KiB to 1MiB"))
    })
}

fn identity(options: &ProxyOptions, node: &Config) -> Result<IdentityConfig, Failure> {
    let certificates = CertificateConfig {
        user: named("--certificate-user", options.certificate_user.as_deref(), &CERTIFICATE_USERS)?,
        tenant: named("--certificate-tenant", options.certificate_tenant.as_deref(), &CERTIFICATE_TENANTS)?,
    };
    if (certificates.user.is_some() || certificates.tenant.is_some()) && options.client_ca.is_none() {
        return Err(Failure::Usage(
            "names in certificates are only as good as who issued them; give --client-ca FILE".to_owned(),
        ));
    }
    Ok(IdentityConfig {
        trusted_proxies: node.trusted_proxies.clone(),
        headers: node.identity_headers.clone(),
        request_id: options.request_id_header.clone(),
        jwt: jwt(options)?,
        api_keys: ApiKeyConfig {
            headers: vec![node.identity_headers.api_key.clone()],
            query: options.api_key_query.clone(),
            known: options.api_keys.clone(),
        },
        certificates,
        failures_per_minute: match options.max_auth_failures {
            None => IdentityConfig::default().failures_per_minute,
            Some(limit) => NonZeroU32::new(limit),
        },
    })
}

const CERTIFICATE_USERS: [(&str, CertificateUser); 4] = [
    ("cn", CertificateUser::CommonName),
    ("san_email", CertificateUser::SanEmail),
    ("san_dns", CertificateUser::SanDns),
    ("san_uri", CertificateUser::SanUri),
];

const CERTIFICATE_TENANTS: [(&str, CertificateTenant); 2] =
    [("o", CertificateTenant::Organization), ("ou", CertificateTenant::OrganizationalUnit)];

fn named<T: Copy>(flag: &str, given: Option<&str>, known: &[(&str, T)]) -> Result<Option<T>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let found = known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Failure::Usage(format!(
            "`{given}` is no name in a certificate; use {flag} with one of {}",
            names.join(", ")
        ))
    })
}

fn jwt(options: &ProxyOptions) -> Result<Option<JwtConfig>, Failure> {
    let read = |path: &PathBuf| {
        fs::read(path)
            .map_err(|error| Failure::Failed(format!("cannot read the key in {}: {error}", path.display())))
    };
    let keys = match (&options.jwt_secret_file, &options.jwt_key, &options.jwks) {
        (None, None, None) => return no_jwt(options),
        (Some(path), None, None) => JwtKeys::Secret(read(path)?.trim_ascii_end().to_vec()),
        (None, Some(path), None) => {
            let text = String::from_utf8(read(path)?);
            let no_text = |_| Failure::Failed(format!("{} is no PEM file", path.display()));
            JwtKeys::Pem(text.map_err(no_text)?)
        }
        (None, None, Some(place)) if place.contains("://") => {
            JwtKeys::SetUrl { url: place.clone(), authorities: options.jwks_ca.clone() }
        }
        (None, None, Some(path)) => JwtKeys::SetFile(path.into()),
        _ => {
            let message =
                "tokens are verified in one way; give one of --jwt-secret-file, --jwt-key and --jwks";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    let default = JwtConfig::new(keys);
    Ok(Some(JwtConfig {
        issuer: options.jwt_issuer.clone(),
        audiences: options.jwt_audience.clone().map(|list| list.0).unwrap_or_default(),
        user_claim: options.user_claim.clone().unwrap_or(default.user_claim),
        tenant_claim: options.tenant_claim.clone(),
        tier_claim: options.tier_claim.clone(),
        plan_claim: options.plan_claim.clone(),
        header: options.jwt_header.clone().unwrap_or(default.header),
        ..default
    }))
}

/// What is said about tokens is in vain if there is nothing to verify them with.
fn no_jwt(options: &ProxyOptions) -> Result<Option<JwtConfig>, Failure> {
    let claims = [&options.jwt_issuer, &options.tenant_claim, &options.tier_claim, &options.plan_claim];
    if options.jwt_audience.is_some() || claims.into_iter().any(Option::is_some) {
        let message = "tokens cannot be verified; give one of --jwt-secret-file, --jwt-key and --jwks";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::tests::stated_in_help;
    use super::*;
    use crate::config_file;

    fn resolve(text: &str) -> Result<GatewaySettings, Failure> {
        GatewaySettings::resolve(config_file::parse(text, "gateway").unwrap())
    }

    /// The help says what happens without an option; saying just that changes nothing.
    #[test]
    fn the_defaults_are_those_in_the_help() {
        let upstream = "upstream: http://127.0.0.1:9000\n";
        let stated = stated_in_help::<GatewayOptions>();
        assert!(stated.lines().count() > 20, "{stated}");
        let stated = resolve(&(stated + upstream)).unwrap_or_else(|failure| panic!("{failure:?}"));
        let default = resolve(upstream).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(format!("{:?}", stated.gateway), format!("{:?}", default.gateway));
        assert_eq!(format!("{:?}", stated.node.config), format!("{:?}", default.node.config));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, told) in [
            ("{}", "--upstream http://HOST:PORT"),
            ("upstream: http://a:1\nroutes: routes.yaml", "either --upstream or --routes"),
            ("upstream: http://a:1\njwks: a.json\njwt_key: b.pem", "one way"),
            ("upstream: http://a:1\ntier_claim: plan", "--jwks"),
            ("upstream: http://a:1\nplan_claim: plan", "--jwks"),
            ("upstream: http://a:1\ntls_cert: a.pem", "--tls-key"),
            ("upstream: http://a:1\nmax_head: 1KiB", "8KiB"),
            ("upstream: http://a:1\nhead_timeout: 0s", "such as 10s"),
            ("upstream: http://a:1\ncertificate_user: cn", "--client-ca"),
            ("upstream: http://a:1\ncertificate_user: name\nclient_ca: a", "cn, san_email"),
        ] {
            let Err(Failure::Usage(message)) = resolve(text) else { panic!("{text}") };
            assert!(message.contains(told), "{text}: {message}");
        }
    }
}
