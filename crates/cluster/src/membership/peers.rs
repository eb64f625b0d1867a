//! Where to look for other nodes, as people say it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use thiserror::Error;
use tokio::net::lookup_host;

/// Where other nodes are: `host:port`, or `dns:NAME:PORT` for all that a name stands for, looked up again and again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerName {
    host: String,
    port: u16,
    many: bool,
}

/// Why a text names no peer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerNameError {
    /// No port, or no number.
    #[error(
        "{0:?} has no port: write host:port, [address]:port or dns:NAME:PORT, with a port from 1 to 65535"
    )]
    Port(String),
    /// No host.
    #[error("{0:?} has no host: write host:port, [address]:port or dns:NAME:PORT")]
    Host(String),
}

impl PeerName {
    /// Whether the name stands for all nodes there are, which come and go.
    pub const fn is_dns(&self) -> bool {
        self.many
    }

    /// The addresses that it stands for now.
    pub(super) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = lookup_host((self.host.as_str(), self.port)).await?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no address"));
        }
        Ok(found)
    }
}

impl FromStr for PeerName {
    type Err = PeerNameError;

    fn from_str(text: &str) -> Result<Self, PeerNameError> {
        let text = text.trim();
        let (many, rest) = text.strip_prefix("dns:").map_or((false, text), |rest| (true, rest));
        let no_port = || PeerNameError::Port(text.to_owned());
        let (host, port) = rest.rsplit_once(':').ok_or_else(no_port)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(no_port)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        // A colon outside brackets: an IPv6 address, of which nobody can tell where it ends.
        let unclear = bare.is_none() && host.contains(':');
        if host.is_empty() || unclear || host.contains(|c: char| c.is_whitespace() || "[]/@".contains(c)) {
            return Err(PeerNameError::Host(text.to_owned()));
        }
        Ok(Self { host: host.to_owned(), port, many })
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, many } = self;
        let dns = if *many { "dns:" } else { "" };
        if host.contains(':') { write!(f, "{dns}[{host}]:{port}") } else { write!(f, "{dns}{host}:{port}") }
    }
}

impl From<SocketAddr> for PeerName {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port(), many: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_are_written() {
        for text in ["10.0.0.1:7000", "node-1:7000", "[::1]:7000", "dns:nodes.prod.svc.cluster.local:7000"] {
            let name: PeerName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.is_dns(), text.starts_with("dns:"));
        }
        assert_eq!(PeerName::from(SocketAddr::from(([127, 0, 0, 1], 9))), "127.0.0.1:9".parse().unwrap());
    }

    #[test]
    fn errors_say_how_to_write_it() {
        for text in
            ["node", "node:", "node:0", "node:70000", "dns:node", ":7000", "::1:7000", "http://node:1", ""]
        {
            let problem = text.parse::<PeerName>().unwrap_err().to_string();
            assert!(problem.contains("write host:port"), "{text}: {problem}");
        }
    }
}
