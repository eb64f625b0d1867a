//! Sockets, addresses and names, before anything runs.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::{TcpListener, UdpSocket};

/// How often a port is drawn that may be free for TCP and taken for UDP.
const TRIES: usize = 16;

/// Longer names would fill packets that should hold many.
const LONGEST_NAME: usize = 128;

/// Why a node cannot join others.
#[derive(Debug, Error)]
pub enum StartError {
    /// It listens everywhere, which is no address for others to reach it at.
    #[error("others cannot reach {0}: say at which address of this machine they do, by advertising it")]
    Advertise(SocketAddr),
    /// Its name is none.
    #[error("{0:?} is no name for a node: use 1 to 128 letters, digits and signs without spaces")]
    Name(String),
    /// The port is taken, or not ours.
    #[error("cannot listen on {address} for other nodes: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The machine has no randomness.
    #[error("cannot draw random bytes: {0}")]
    Random(io::Error),
}

/// Finds what is wrong before anything is bound.
pub(crate) fn check(
    listen: SocketAddr,
    advertise: Option<SocketAddr>,
    name: Option<&str>,
) -> Result<(), StartError> {
    let reached = advertise.unwrap_or(listen);
    if reached.ip().is_unspecified() {
        return Err(StartError::Advertise(reached));
    }
    let bad = |c: char| c.is_whitespace() || c.is_control();
    match name.filter(|name| name.is_empty() || name.len() > LONGEST_NAME || name.contains(bad)) {
        Some(name) => Err(StartError::Name(name.to_owned())),
        None => Ok(()),
    }
}

/// Where others reach a node that listens there.
pub(crate) fn advertised(bound: SocketAddr, advertise: Option<SocketAddr>) -> SocketAddr {
    let mut address = advertise.unwrap_or(bound);
    if address.port() == 0 {
        address.set_port(bound.port());
    }
    address
}

/// One port for both. If any will do, the one that TCP draws is tried for UDP.
pub(crate) async fn bind(listen: SocketAddr) -> Result<(TcpListener, UdpSocket, SocketAddr), StartError> {
    let tries = if listen.port() == 0 { TRIES } else { 1 };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..tries {
        match bind_once(listen).await {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(StartError::Bind { address: listen, source: last })
}

async fn bind_once(listen: SocketAddr) -> io::Result<(TcpListener, UdpSocket, SocketAddr)> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let socket = UdpSocket::bind(address).await?;
    Ok((listener, socket, address))
}

/// A number that nobody else has.
pub(crate) fn random() -> Result<u64, StartError> {
    getrandom::u64().map_err(|error| StartError::Random(io::Error::other(error)))
}
