//! One client's connection through the proxy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::delay::DelayLine;
use super::faults::{Faults, Mode};

const CHUNK: usize = 64 * 1024;
const CONNECT: Duration = Duration::from_secs(1);

/// Both ends of a connection, and the replies in between.
#[derive(Debug)]
pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    replies: DelayLine,
    lost_replies: AtomicBool,
    closed: AtomicBool,
    faults: Arc<Faults>,
}

impl Link {
    pub(super) fn open(
        client: TcpStream,
        upstream: SocketAddr,
        faults: Arc<Faults>,
    ) -> io::Result<Arc<Self>> {
        let server = TcpStream::connect_timeout(&upstream, CONNECT)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (lost_replies, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Arc::new(Self { client, server, replies: DelayLine::default(), lost_replies, closed, faults }))
    }

    /// Starts carrying; the threads end with the connection.
    pub(super) fn carry(self: &Arc<Self>) -> [JoinHandle<()>; 3] {
        [Self::carry_requests, Self::collect_replies, Self::deliver_replies].map(|work| {
            let link = Arc::clone(self);
            thread::spawn(move || {
                // An error is the end of the connection at one of its ends; the other is to see it too.
                if work(&link).is_err() {
                    link.close();
                }
            })
        })
    }

    /// Closes both ends, whatever is on its way.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.client.shutdown(Shutdown::Both).ok();
        self.server.shutdown(Shutdown::Both).ok();
        self.replies.clear();
        self.faults.wake_all();
    }

    /// Whether the client would take later replies for those that were dropped.
    pub(super) fn has_lost_replies(&self) -> bool {
        self.lost_replies.load(Ordering::SeqCst)
    }

    fn carry_requests(&self) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = (&self.client).read(&mut buffer)?;
            self.pass_stall();
            if count == 0 {
                return self.server.shutdown(Shutdown::Write);
            }
            (&self.server).write_all(&buffer[..count])?;
        }
    }

    fn collect_replies(&self) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = (&self.server).read(&mut buffer)?;
            if count == 0 {
                self.replies.close();
                return Ok(());
            }
            self.replies.put(Instant::now() + self.faults.delay(), buffer[..count].to_vec());
        }
    }

    fn deliver_replies(&self) -> io::Result<()> {
        while let Some(chunk) = self.replies.take() {
            if self.pass_stall() == Mode::DroppingReplies {
                self.lost_replies.store(true, Ordering::SeqCst);
            } else if self.has_lost_replies() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            } else {
                (&self.client).write_all(&chunk)?;
            }
        }
        self.pass_stall();
        self.client.shutdown(Shutdown::Write)
    }

    /// Waits out a stall.
    fn pass_stall(&self) -> Mode {
        self.faults.wait_while(Mode::Stalled, || self.closed.load(Ordering::SeqCst))
    }
}
