//! Who is believed about what.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use http::header::AUTHORIZATION;
use ipnet::IpNet;
use tidegate_server::IdentityHeaders;

/// How the gateway finds out who asks. By default it believes nobody: users are unknown, addresses are those of the
/// connections, and API keys tell clients apart without being checked.
#[derive(Clone, Debug)]
pub struct IdentityConfig {
    /// Whose word on users and addresses is taken.
    pub trusted_proxies: Vec<IpNet>,
    /// Where such a proxy says who its client is, and where the back end is told. `api_key` is not looked at: see
    /// [`ApiKeyConfig::headers`].
    pub headers: IdentityHeaders,
    /// Where a trusted proxy says which request this is, so that a retry is free.
    pub request_id: Option<HeaderName>,
    /// Tokens that clients show, if they are looked at.
    pub jwt: Option<JwtConfig>,
    /// Keys that clients send.
    pub api_keys: ApiKeyConfig,
    /// What the name in a client's certificate is taken for.
    pub certificates: CertificateConfig,
    /// Maximum number of tokens and API keys a minute that are not good, by address; then none from there is looked at.
    pub failures_per_minute: Option<NonZeroU32>,
}

/// Failures that an address may have a minute unless told otherwise. Many clients may share it: one of them that keeps on
/// trying with a token that has expired must not lock the others out, while ten guesses a second lead nowhere.
const FAILURES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(600).unwrap();

impl Default for IdentityConfig {
    fn default() -> Self {
        Self {
            trusted_proxies: Vec::new(),
            headers: IdentityHeaders::default(),
            request_id: None,
            jwt: None,
            api_keys: ApiKeyConfig::default(),
            certificates: CertificateConfig::default(),
            failures_per_minute: Some(FAILURES_PER_MINUTE),
        }
    }
}

/// Tokens (JWT) that say who asks.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    /// What they are verified with. The algorithms that may be used follow from it.
    pub keys: JwtKeys,
    /// Who must have issued them, if that is not all the same.
    pub issuer: Option<String>,
    /// Whom they must be for: at least one of these, if there are any.
    pub audiences: Vec<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
    /// Whether tokens that never expire are refused.
    pub require_expiry: bool,
    /// The claim with the user. Dots lead into objects, as in `app.user`.
    pub user_claim: String,
    /// The claim with the tenant, if one has it.
    pub tenant_claim: Option<String>,
    /// The claim with the tier, if one has it.
    pub tier_claim: Option<String>,
    /// Claim with the plan of the tenant, if one has it.
    pub plan_claim: Option<String>,
    /// The header they come in, after the word `Bearer`, which only `Authorization` needs.
    pub header: HeaderName,
}

impl JwtConfig {
    /// Tokens that `keys` verify, with the user in `sub`.
    pub fn new(keys: JwtKeys) -> Self {
        Self {
            keys,
            issuer: None,
            audiences: Vec::new(),
            leeway: Duration::from_secs(30),
            require_expiry: true,
            user_claim: "sub".to_owned(),
            tenant_claim: None,
            tier_claim: None,
            plan_claim: None,
            header: AUTHORIZATION,
        }
    }
}

/// What tokens are verified with.
#[derive(Clone)]
pub enum JwtKeys {
    /// A secret of at least 32 bytes that the issuer has, too (HS256, HS384, HS512).
    Secret(Vec<u8>),
    /// The issuer's public key, as PEM (RSA, P-256, P-384 or Ed25519).
    Pem(String),
    /// A file with a set of keys (JWKS), which is read again when it changes.
    SetFile(PathBuf),
    /// Where a set of public keys (JWKS) is, `http://` or `https://`; it is fetched every few minutes.
    SetUrl {
        /// Its address.
        url: String,
        /// The authorities whose certificates its server may have, as PEM; without it, those that the machine trusts.
        authorities: Option<PathBuf>,
    },
}

/// Leaves out secrets: configurations end up in logs.
impl fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("Secret"),
            Self::Pem(_) => f.write_str("Pem"),
            Self::SetFile(path) => f.debug_tuple("SetFile").field(path).finish(),
            Self::SetUrl { url, .. } => {
                // A query may have a secret in it, too.
                let shown = url.split_once('?').map_or(url.as_str(), |(shown, _)| shown);
                f.debug_tuple("SetUrl").field(&shown).finish()
            }
        }
    }
}

/// API keys that clients send.
#[derive(Clone, Debug)]
pub struct ApiKeyConfig {
    /// The headers they may come in.
    pub headers: Vec<HeaderName>,
    /// The parameter of the query they may come in. None by default: what is in a URL ends up in logs.
    pub query: Option<String>,
    /// The keys that are known, one `NAME sha256:HEX [tenant=T] [tier=T] [plan=P]` per line; the file is read again when it
    /// changes. Without it, every key is a client of its own.
    pub known: Option<PathBuf>,
}

impl Default for ApiKeyConfig {
    fn default() -> Self {
        Self { headers: vec![HeaderName::from_static("x-api-key")], query: None, known: None }
    }
}

/// What the names in a client's certificate are taken for. Nothing, by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateConfig {
    /// Which of its names is the user.
    pub user: Option<CertificateUser>,
    /// Which of its names is the tenant.
    pub tenant: Option<CertificateTenant>,
}

/// The name in a certificate that is the user. If there are several of a kind, it is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUser {
    /// The subject's common name.
    CommonName,
    /// A mail address among the alternative names.
    SanEmail,
    /// A host name among the alternative names.
    SanDns,
    /// A URI among the alternative names, as SPIFFE has it.
    SanUri,
}

/// The name in a certificate that is the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateTenant {
    /// The subject's organization.
    Organization,
    /// The subject's organizational unit.
    OrganizationalUnit,
}
