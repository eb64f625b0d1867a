//! Who may ask at all.

use std::net::{IpAddr, SocketAddr};

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use ipnet::IpNet;

use crate::config::Config;
use crate::error::StartError;
use crate::reply::Wrong;

/// The rule for callers from outside this machine; those from inside need nothing.
///
/// Whatever is configured must hold: an address in an allowed network, and the token.
#[derive(Debug)]
pub(crate) struct Access {
    networks: Vec<IpNet>,
    token: Option<Token>,
}

impl Access {
    pub(crate) fn new(config: &Config) -> Result<Self, StartError> {
        let token = config.token.as_deref().map(Token::new).transpose()?;
        Ok(Self { networks: config.allowed_networks.clone(), token })
    }

    /// Sees to it that a listener that everybody can reach asks something of them.
    pub(crate) fn protect(&self, listener: &'static str, address: SocketAddr) -> Result<(), StartError> {
        if address.ip().to_canonical().is_loopback() || self.is_restricted() {
            return Ok(());
        }
        Err(StartError::Unprotected { listener, address })
    }

    /// Whether a listener that everybody can reach asks anything of them.
    pub(crate) fn is_restricted(&self) -> bool {
        self.token.is_some() || !self.networks.is_empty()
    }

    pub(crate) fn admit(&self, peer: IpAddr, headers: &HeaderMap) -> Result<(), Wrong> {
        if peer.is_loopback() {
            return Ok(());
        }
        self.admit_network(peer)?;
        match &self.token {
            Some(token) if !token.is_in(headers) => {
                Err(unauthorized("the token is missing or wrong; send it as `Authorization: Bearer TOKEN`"))
            }
            _ => Ok(()),
        }
    }

    /// Admits whoever is on this machine or in an allowed network, whatever else is asked of them.
    pub(crate) fn admit_network(&self, peer: IpAddr) -> Result<(), Wrong> {
        if peer.is_loopback() || self.networks.is_empty() || self.allows(peer) {
            return Ok(());
        }
        let message = format!("{peer} is in none of the allowed networks; add its network to them");
        Err(Wrong::new(StatusCode::FORBIDDEN, "forbidden", message))
    }

    /// Whether `peer` is in a network that is allowed by name.
    pub(crate) fn allows(&self, peer: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&peer))
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether `sent` is the token.
    pub(crate) fn is_token(&self, sent: &[u8]) -> bool {
        self.token.as_ref().is_some_and(|token| token.is(sent))
    }
}

/// The answer to whoever has not shown a token that would do.
pub(crate) fn unauthorized(message: impl Into<String>) -> Wrong {
    Wrong::new(StatusCode::UNAUTHORIZED, "unauthorized", message).about("authorization")
}

/// A shared secret.
struct Token(Box<[u8]>);

impl Token {
    fn new(text: &str) -> Result<Self, StartError> {
        let usable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if usable { Ok(Self(text.as_bytes().into())) } else { Err(StartError::Token) }
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        headers
            .get(AUTHORIZATION)
            .and_then(|value| bearer(value.as_bytes()))
            .is_some_and(|sent| self.is(sent))
    }

    /// Compares in a time that tells nothing about how much of it was right.
    fn is(&self, sent: &[u8]) -> bool {
        let differences = self.0.iter().zip(sent).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0 && self.0.len() == sent.len()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// What follows the word `Bearer`, whose case does not count.
pub(crate) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(networks: &[&str], token: Option<&str>) -> Access {
        let config = Config {
            allowed_networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            token: token.map(str::to_owned),
            ..Config::default()
        };
        Access::new(&config).unwrap()
    }

    fn admit(access: &Access, peer: &str, authorization: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        headers.extend(authorization.map(|value| (AUTHORIZATION, value.parse().unwrap())));
        match access.admit(peer.parse().unwrap(), &headers) {
            Ok(()) => 200,
            Err(wrong) => wrong.status().as_u16(),
        }
    }

    #[test]
    fn what_is_configured_is_asked_of_everybody_from_outside() {
        let token = access(&[], Some("s3cret"));
        for (peer, sent, status) in [
            ("127.0.0.1", None, 200),
            ("::1", None, 200),
            ("10.0.0.1", None, 401),
            ("10.0.0.1", Some("s3cret"), 401),
            ("10.0.0.1", Some("Basic s3cret"), 401),
            ("10.0.0.1", Some("Bearer s3cre"), 401),
            ("10.0.0.1", Some("Bearer s3cretx"), 401),
            ("10.0.0.1", Some("Bearer S3cret"), 401),
            ("10.0.0.1", Some("Bearer"), 401),
            ("10.0.0.1", Some("Bearer s3cret"), 200),
            ("10.0.0.1", Some("bearer  s3cret"), 200),
        ] {
            assert_eq!(admit(&token, peer, sent), status, "{peer} {sent:?}");
        }
        let both = access(&["10.0.0.0/8", "2001:db8::/32"], Some("s3cret"));
        assert_eq!(admit(&both, "10.0.0.1", None), 401);
        assert_eq!(admit(&both, "11.0.0.1", Some("Bearer s3cret")), 403);
        assert_eq!(admit(&both, "2001:db8::1", Some("Bearer s3cret")), 200);
        assert_eq!(admit(&access(&["10.0.0.0/8"], None), "10.0.0.1", None), 200);
    }

    #[test]
    fn a_token_must_fit_into_a_header() {
        for text in ["", "a b", "a\n", "\u{e9}"] {
            let config = Config { token: Some(text.to_owned()), ..Config::default() };
            assert!(matches!(Access::new(&config), Err(StartError::Token)), "{text:?}");
        }
    }
}
