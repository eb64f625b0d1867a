//! Drives the state machine over UDP: seals what it sends, opens what comes, keeps its time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tidegate_core::Timestamp;
use tidegate_store::clock::{Clock, SystemClock};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};
use tokio::time::{Duration, Instant, sleep_until};

use super::machine::Machine;
use crate::seal::{Opener, Purpose, Sealer, Unopened};
use crate::view::View;

/// More than any packet of ours has; what is longer is cut off, and does not open.
const LONGEST: usize = 2048;

/// How many packets are taken in before it is seen what is due: a flood must not stop the clock.
const AT_ONCE: usize = 64;

/// How often, at most, packets that did not open are logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// How many packets changed nothing, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// No secret of the fleet opened them.
    pub strangers: u64,
    /// They had been opened before.
    pub replays: u64,
    /// They were sealed by a clock too far from ours, or too long ago.
    pub stale: u64,
}

/// A machine with its socket.
pub(crate) struct Node {
    socket: UdpSocket,
    sealer: Arc<Sealer>,
    opener: Arc<Opener>,
    machine: Mutex<Machine>,
    view: ArcSwap<View>,
    changes: watch::Sender<u64>,
    heard: ArcSwapOption<Instant>,
    poke: Notify,
    start: (Instant, Timestamp),
    strangers: AtomicU64,
    replays: AtomicU64,
    stale: AtomicU64,
    stale_at: ArcSwapOption<Instant>,
}

impl Node {
    /// A node that knows nobody, and does nothing until it is run. `start` is when the machine's clock began.
    pub(crate) fn new(
        socket: UdpSocket,
        sealer: Arc<Sealer>,
        opener: Arc<Opener>,
        machine: Machine,
        start: (Instant, Timestamp),
    ) -> Self {
        Self {
            socket,
            sealer,
            opener,
            view: ArcSwap::from_pointee(machine.view()),
            machine: Mutex::new(machine),
            changes: watch::Sender::new(0),
            heard: ArcSwapOption::empty(),
            poke: Notify::new(),
            start,
            strangers: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            stale_at: ArcSwapOption::empty(),
        }
    }

    /// Has the machine do something, now, and does what follows from it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Machine, Timestamp) -> T) -> T {
        let mut machine = self.machine.lock();
        let done = act(&mut machine, self.now());
        let packets = machine.packets();
        if machine.changed() {
            // Under the lock, so that the newest view is the last to be stored.
            self.view.store(Arc::new(machine.view()));
            self.changes.send_modify(|changes| *changes += 1);
        }
        drop(machine);
        for (to, plain) in packets {
            let sealed = self.sealer.seal(Purpose::Gossip, &[], &plain, SystemClock.now());
            // What the network does not take is lost, as it may be anywhere on its way.
            self.socket.try_send_to(&sealed, self.reachable(to)).ok();
        }
        self.poke.notify_one();
        done
    }

    /// Asks the machine something.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Machine) -> T) -> T {
        at(&self.machine.lock())
    }

    /// Takes in packets and does what is due, for ever.
    pub(crate) async fn run(&self) {
        let mut buffer = vec![0; LONGEST];
        let mut log = Log::new();
        loop {
            let next = self.instant(self.look(Machine::next_tick));
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => self.receive(received, &buffer),
                () = sleep_until(next) => {}
                () = self.poke.notified() => continue,
            }
            for _ in 0..AT_ONCE {
                match self.socket.try_recv_from(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    received => self.receive(received, &buffer),
                }
            }
            self.with(Machine::tick);
            log.say(self.refused());
        }
    }

    /// Errors are those of packets that were sent before and found nobody: that tells nothing new.
    fn receive(&self, received: io::Result<(usize, SocketAddr)>, buffer: &[u8]) {
        let Some(packet) = received.ok().and_then(|(length, _)| buffer.get(..length)) else { return };
        match self.opener.open(Purpose::Gossip, &[], packet, SystemClock.now()) {
            Ok(plain) => {
                if self.with(|machine, now| machine.receive(&plain, now)) {
                    self.heard.store(Some(Arc::new(Instant::now())));
                }
            }
            Err(Unopened::Replayed) => _ = self.replays.fetch_add(1, Ordering::Relaxed),
            Err(Unopened::Stale) => {
                self.stale.fetch_add(1, Ordering::Relaxed);
                self.stale_at.store(Some(Arc::new(Instant::now())));
            }
            Err(Unopened::TooShort | Unopened::Version | Unopened::Stranger) => {
                self.strangers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Who is there.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Follows changes of the view.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// When another node last said anything to this one.
    pub(crate) fn last_heard(&self) -> Option<Instant> {
        self.heard.load().as_deref().copied()
    }

    /// When a clock far from ours last sealed something.
    pub(crate) fn last_stale(&self) -> Option<Instant> {
        self.stale_at.load().as_deref().copied()
    }

    /// What changed nothing.
    pub(crate) fn refused(&self) -> Refused {
        Refused {
            strangers: self.strangers.load(Ordering::Relaxed),
            replays: self.replays.load(Ordering::Relaxed),
            stale: self.stale.load(Ordering::Relaxed),
        }
    }

    /// The machine's time: it began with the time of day, and never goes back.
    fn now(&self) -> Timestamp {
        let (instant, timestamp) = self.start;
        let passed = u64::try_from(instant.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(timestamp.as_millis().saturating_add(passed))
    }

    fn instant(&self, at: Timestamp) -> Instant {
        let (instant, timestamp) = self.start;
        instant + Duration::from_millis(at.since(timestamp).as_millis())
    }

    /// The address as this node's socket takes it: one of IPv6 has other names for those of IPv4.
    fn reachable(&self, to: SocketAddr) -> SocketAddr {
        match (self.socket.local_addr(), to.ip()) {
            (Ok(SocketAddr::V6(_)), IpAddr::V4(ip)) => (ip.to_ipv6_mapped(), to.port()).into(),
            _ => to,
        }
    }
}

/// Says now and then how many packets did not open.
struct Log {
    said: Refused,
    next: Instant,
}

impl Log {
    fn new() -> Self {
        Self { said: Refused::default(), next: Instant::now() }
    }

    fn say(&mut self, refused: Refused) {
        if refused == self.said || Instant::now() < self.next {
            return;
        }
        let Refused { strangers, replays, stale } = refused;
        tracing::warn!(
            strangers,
            replays,
            stale,
            "packets that are not from this fleet, or not from now, were ignored (since the start)"
        );
        (self.said, self.next) = (refused, Instant::now() + LOG_EVERY);
    }
}
