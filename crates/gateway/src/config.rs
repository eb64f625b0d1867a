//! What an operator of a gateway may decide.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tidegate_server::TlsFiles;
use tidegate_server::front::Patience;

use crate::access_log::AccessLogTarget;
use crate::answer::RefusalFormat;
use crate::identity::IdentityConfig;

/// How to be a gateway. The rest is as for any other node: [`tidegate_server::Config`].
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Where clients connect. A gateway is for everybody: nothing is asked of them but what rules say.
    pub listen: SocketAddr,
    /// How that is encrypted, if it is.
    pub tls: Option<TlsFiles>,
    /// Whether clients must show a certificate, if there are authorities for them; otherwise they may.
    pub certificates_required: bool,
    /// The largest head of a request.
    pub max_head_bytes: u32,
    /// The largest body of a request.
    pub max_body_bytes: Option<u64>,
    /// How many requests may be under way at once on one HTTP/2 connection.
    pub max_streams: u32,
    /// How long clients may take for heads, between requests, and to take answers.
    pub patience: Patience,
    /// How long each part of a request's body may take.
    pub body_timeout: Duration,
    /// How to find out who asks.
    pub identity: IdentityConfig,
    /// How refusals are written for clients that do not ask for plain text.
    pub refusals: RefusalFormat,
    /// Where a line for each request goes, if anywhere.
    pub access_log: Option<AccessLogTarget>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            tls: None,
            certificates_required: true,
            max_head_bytes: 32 * 1024,
            max_body_bytes: None,
            max_streams: 250,
            patience: Patience { idle: Duration::from_secs(75), ..Patience::default() },
            body_timeout: Duration::from_secs(30),
            identity: IdentityConfig::default(),
            refusals: RefusalFormat::default(),
            access_log: None,
        }
    }
}
