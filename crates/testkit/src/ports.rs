//! Free ports on the loopback interface.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range that the kernel hands out to clients, so that no outgoing connection sits on a claimed
/// port.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// How far the port of a Redis cluster's bus is from the one for clients.
const BUS: u16 = 10_000;

/// Where to look next. A random start keeps processes apart; going round keeps a port that was just given up
/// from being reused while clients of the old server may still be trying to get back to it.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
    let start = RandomState::new().hash_one("start") % u64::from(COUNT);
    AtomicU16::new(u16::try_from(start).unwrap_or_default())
});

/// A port that nothing else using this crate will take, in any process, until it is dropped.
///
/// It stays claimed while no server listens on it, so that a server can be killed and restarted on it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    // Names of abstract sockets are unique per network namespace, as ports are, and end with the process.
    _claim: UnixListener,
}

impl Port {
    /// Claims a port that is free, and whose cluster bus port (10,000 above) is free too.
    ///
    /// # Panics
    /// If none is.
    #[must_use]
    pub fn claim() -> Self {
        let tries = (0..COUNT).map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT);
        tries.filter_map(Self::try_claim).next().expect("no loopback port is free")
    }

    fn try_claim(number: u16) -> Option<Self> {
        let name = UnixAddr::from_abstract_name(format!("tidegate-testkit-port-{number}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        let free = [number, number + BUS].iter().all(|port| TcpListener::bind(local(*port)).is_ok());
        free.then_some(Self { number, _claim: claim })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its address on the loopback interface.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        local(self.number)
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
