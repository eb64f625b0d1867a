//! The options of the gateway alone.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use hyper::header::HeaderName;
use tidegate_core::Span;

use super::{List, address};
use crate::source::RulesSource;

/// What only an operator of a gateway may decide.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ProxyOptions {
    /// Where clients connect [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_LISTEN", value_parser = address, help_heading = "Listeners")]
    pub(crate) listen: Option<SocketAddr>,

    /// The certificate, with those that lead to a known authority, for HTTPS [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CERT", help_heading = "Listeners")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Its private key [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_KEY", help_heading = "Listeners")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The authorities whose certificates clients may show [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CLIENT_CA", help_heading = "Listeners")]
    pub(crate) client_ca: Option<PathBuf>,

    /// Whether clients must show a certificate, if there are authorities for them [default: required]
    #[arg(long, value_name = "WHETHER", env = "TIDEGATE_CLIENT_CERTIFICATES", help_heading = "Listeners")]
    pub(crate) client_certificates: Option<CertificateNeed>,

    /// The largest head of a request, with its path and all headers [default: 32KiB]
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_MAX_HEAD", help_heading = "Listeners")]
    pub(crate) max_head: Option<Bytes>,

    /// The largest body of a request; larger ones are answered with 413 [default: none]
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_MAX_BODY", help_heading = "Listeners")]
    pub(crate) max_body: Option<Bytes>,

    /// How many requests may be under way at once on one HTTP/2 connection [default: 250]
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_STREAMS", help_heading = "Listeners")]
    pub(crate) max_streams: Option<u32>,

    /// How long the head of a request may take [default: 10s]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_HEAD_TIMEOUT", help_heading = "Listeners")]
    pub(crate) head_timeout: Option<Span>,

    /// How long each part of a request's body may take [default: 30s]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_BODY_TIMEOUT", help_heading = "Listeners")]
    pub(crate) body_timeout: Option<Span>,

    /// How long a client may take nothing of its answer [default: 60s]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_SEND_TIMEOUT", help_heading = "Listeners")]
    pub(crate) send_timeout: Option<Span>,

    /// How long a connection is kept for its next request [default: 75s]
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_IDLE_TIMEOUT", help_heading = "Listeners")]
    pub(crate) idle_timeout: Option<Span>,

    /// Where everything goes that is allowed: the URLs of back ends, http://HOST:PORT or https://HOST:PORT, with commas between
    /// them; --routes for more than that
    #[arg(long, value_name = "URLS", env = "TIDEGATE_UPSTREAM", help_heading = "Routes")]
    pub(crate) upstream: Option<List<String>>,

    /// Where the routes come from, with their back ends: a file, a folder or any other source that --rules takes; read again
    /// whenever they change
    #[arg(
        long,
        value_name = "SOURCE",
        env = "TIDEGATE_ROUTES",
        hide_env_values = true,
        help_heading = "Routes"
    )]
    pub(crate) routes: Option<RulesSource>,

    /// The file with the secret that tokens (JWT, HS256 and its like) are signed with [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_JWT_SECRET_FILE", help_heading = "Identity")]
    pub(crate) jwt_secret_file: Option<PathBuf>,

    /// The file with the public key (PEM) that tokens are verified with [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_JWT_KEY", help_heading = "Identity")]
    pub(crate) jwt_key: Option<PathBuf>,

    /// The set of keys (JWKS) that tokens are verified with, a file or a URL; looked at again and again [default: none]
    #[arg(long, value_name = "FILE|URL", env = "TIDEGATE_JWKS", help_heading = "Identity")]
    pub(crate) jwks: Option<String>,

    /// The authorities whose certificates the server of that set may have, if not those that the system trusts [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_JWKS_CA", help_heading = "Identity")]
    pub(crate) jwks_ca: Option<PathBuf>,

    /// Who must have issued tokens [default: none]
    #[arg(long, value_name = "ISSUER", env = "TIDEGATE_JWT_ISSUER", help_heading = "Identity")]
    pub(crate) jwt_issuer: Option<String>,

    /// Whom tokens must be for: one of these [default: none]
    #[arg(long, value_name = "LIST", env = "TIDEGATE_JWT_AUDIENCE", help_heading = "Identity")]
    pub(crate) jwt_audience: Option<List<String>>,

    /// The header that tokens come in [default: authorization]
    #[arg(long, value_name = "HEADER", env = "TIDEGATE_JWT_HEADER", help_heading = "Identity")]
    pub(crate) jwt_header: Option<HeaderName>,

    /// The claim that names the user; dots lead into objects [default: sub]
    #[arg(long, value_name = "CLAIM", env = "TIDEGATE_USER_CLAIM", help_heading = "Identity")]
    pub(crate) user_claim: Option<String>,

    /// The claim that names the tenant [default: none]
    #[arg(long, value_name = "CLAIM", env = "TIDEGATE_TENANT_CLAIM", help_heading = "Identity")]
    pub(crate) tenant_claim: Option<String>,

    /// The claim that names the tier [default: none]
    #[arg(long, value_name = "CLAIM", env = "TIDEGATE_TIER_CLAIM", help_heading = "Identity")]
    pub(crate) tier_claim: Option<String>,

    /// The claim that names the plan of the tenant [default: none]
    #[arg(long, value_name = "CLAIM", env = "TIDEGATE_PLAN_CLAIM", help_heading = "Identity")]
    pub(crate) plan_claim: Option<String>,

    /// The file of known API keys, one `NAME sha256:HEX [tenant=T] [tier=T] [plan=P]` per line; others are refused then. Read
    /// again whenever it changes [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_API_KEYS", help_heading = "Identity")]
    pub(crate) api_keys: Option<PathBuf>,

    /// The parameter of the query that API keys may come in, besides --api-key-header [default: none]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_API_KEY_QUERY", help_heading = "Identity")]
    pub(crate) api_key_query: Option<String>,

    /// How many tokens and API keys that are not good one address may show a minute before it is answered with 429; 0: any number
    /// [default: 600]
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_AUTH_FAILURES", help_heading = "Identity")]
    pub(crate) max_auth_failures: Option<u32>,

    /// The name in a client's certificate that is the user: cn, san_email, san_dns or san_uri [default: none]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_CERTIFICATE_USER", help_heading = "Identity")]
    pub(crate) certificate_user: Option<String>,

    /// The name in a client's certificate that is the tenant: o or ou [default: none]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_CERTIFICATE_TENANT", help_heading = "Identity")]
    pub(crate) certificate_tenant: Option<String>,

    /// The header in which a trusted proxy names the request, so that trying it again is free [default: none]
    #[arg(long, value_name = "HEADER", env = "TIDEGATE_REQUEST_ID_HEADER", help_heading = "Identity")]
    pub(crate) request_id_header: Option<HeaderName>,

    /// How refusals are written for clients that do not ask for plain text: json or problem (RFC 9457) [default: json]
    #[arg(
        long,
        value_name = "FORM",
        env = "TIDEGATE_REFUSALS",
        help_heading = "Answers",
        hide_possible_values = true
    )]
    pub(crate) refusals: Option<RefusalStyle>,

    /// Where to write a line of JSON for each request: a file, or - for standard output [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_ACCESS_LOG", help_heading = "Log")]
    pub(crate) access_log: Option<AccessLogPlace>,
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CertificateNeed {
    #[default]
    Required,
    Optional,
}

/// How refusals are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RefusalStyle {
    #[default]
    Json,
    Problem,
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessLogPlace {
    Stdout,
    File(PathBuf),
}

impl FromStr for AccessLogPlace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("give a file, or - for standard output"),
            "-" => Ok(Self::Stdout),
            path => Ok(Self::File(path.into())),
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl Bytes {
    const UNITS: [(&str, u64); 7] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no size; write it as 65536, 64KiB, 10MB or the like");
        let unit = Self::UNITS.iter().find_map(|(name, size)| Some((text.strip_suffix(name)?, *size)));
        let (number, size) = unit.unwrap_or((text, 1));
        let number: u64 = number.trim().parse().map_err(|_| wrong())?;
        number.checked_mul(size).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("0", 0), ("65536", 65_536), ("64KiB", 65_536), ("10 MB", 10_000_000), ("1GiB", 1 << 30)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "KiB", "-1", "1.5MB", "1TB", "99999999999GiB"] {
            assert!(text.parse::<Bytes>().unwrap_err().contains("is no size"), "{text}");
        }
    }
}
