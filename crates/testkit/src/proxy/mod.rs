//! A network that fails on demand.

mod delay;
mod faults;
mod link;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::faults::{Faults, Mode};
use self::link::Link;
use crate::ports::Port;

/// Each connection takes three threads; a client that opens more than this has a fault of its own.
const MOST_CONNECTIONS: usize = 512;

const BACKLOG: i32 = 128;

/// A TCP proxy between clients and one server, which can delay, stall, lose replies and cut.
///
/// Bytes that are between its two sockets when a fault is set may still get through.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    port: Port,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    listener: TcpListener,
    faults: Arc<Faults>,
    carried: Mutex<Vec<Carried>>,
}

#[derive(Debug)]
struct Carried {
    // The threads have the link: its sockets close with the last of them.
    link: Weak<Link>,
    threads: [JoinHandle<()>; 3],
}

impl Carried {
    fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl Proxy {
    /// Starts a proxy to this address, which forwards everything for now.
    ///
    /// A client can connect even if the server cannot be reached, and is then closed at once.
    ///
    /// # Panics
    /// If no port can be had.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        let (port, listener) = listen();
        let shared = Arc::new(Shared {
            upstream,
            listener,
            faults: Arc::new(Faults::none()),
            carried: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = Some(thread::spawn(move || accepting.accept_all()));
        Self { shared, acceptor, port }
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// How many clients are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.carried().iter().filter(|carried| !carried.has_ended()).count()
    }

    /// Delivers everything that the server sends from now on this much later, in order and at full
    /// throughput.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.faults.set_delay(delay);
    }

    /// Carries nothing any more in either direction, with all connections open and new ones accepted:
    /// half-open.
    pub fn stall(&self) {
        self.change(Mode::Stalled);
    }

    /// Carries requests to the server, and loses its replies: done, and nobody knows.
    pub fn drop_replies(&self) {
        self.change(Mode::DroppingReplies);
    }

    /// Closes all connections, and refuses new ones.
    pub fn cut(&self) {
        // Refuses without giving the port up, so that it is ours again afterwards.
        rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both).ok();
        // Before a stall ends, so that nothing of what it has held back gets through.
        self.shared.close_links(|_| true);
        self.shared.faults.set(Mode::Cut);
        self.shared.close_links(|_| true);
    }

    /// Ends all faults and the delay. What was stalled is carried on; connections that have lost replies are
    /// closed, since no real network would let them live on with a gap.
    pub fn heal(&self) {
        self.shared.faults.set_delay(Duration::ZERO);
        self.change(Mode::Forwarding);
        self.shared.close_links(Link::has_lost_replies);
    }

    fn change(&self, mode: Mode) {
        if self.shared.faults.mode() == Mode::Cut {
            rustix::net::listen(&self.shared.listener, BACKLOG).expect("the port is still ours");
        }
        self.shared.faults.set(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.faults.set(Mode::Ended);
        rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both).ok();
        self.acceptor.take().map(JoinHandle::join);
        self.shared.close_links(|_| true);
        for carried in self.shared.carried().drain(..) {
            carried.threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }
}

impl Shared {
    fn accept_all(&self) {
        loop {
            match self.listener.accept() {
                Ok((client, _)) => self.add(client),
                // The listener is shut down while the proxy is cut.
                Err(_) => {
                    if self.faults.wait_while(Mode::Cut, || false) == Mode::Ended {
                        return;
                    }
                }
            }
        }
    }

    fn add(&self, client: std::net::TcpStream) {
        let mut carried = self.carried();
        carried.retain(|carried| !carried.has_ended());
        // Decided with the list in hand, so that a cut closes whatever was let in before it.
        let open = !matches!(self.faults.mode(), Mode::Cut | Mode::Ended);
        if !open || carried.len() >= MOST_CONNECTIONS {
            return;
        }
        if let Ok(link) = Link::open(client, self.upstream, Arc::clone(&self.faults)) {
            let threads = link.carry();
            carried.push(Carried { link: Arc::downgrade(&link), threads });
        }
    }

    fn close_links(&self, which: impl Fn(&Link) -> bool) {
        let carried = self.carried();
        let links = carried.iter().filter_map(|carried| carried.link.upgrade());
        links.filter(|link| which(link)).for_each(|link| link.close());
    }

    fn carried(&self) -> MutexGuard<'_, Vec<Carried>> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Binds to a number, not to "any": the kernel takes back a port it chose itself when a listener is shut
/// down.
fn listen() -> (Port, TcpListener) {
    let tries = (0..5).map(|_| Port::claim());
    let mut bound =
        tries.filter_map(|port| TcpListener::bind(port.address()).ok().map(|listener| (port, listener)));
    bound.next().expect("a loopback port can be bound")
}
