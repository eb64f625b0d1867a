//! One Redis server.

mod client;
mod inspect;
mod options;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use redis::{FromRedisValue, RedisResult, ServerErrorKind};
use tempfile::TempDir;

use self::client::Client;
use crate::ports::Port;
use crate::process::Process;
use crate::start::StartError;
use crate::tls::{Certificates, ClientCertificates};
use crate::wait;

pub(crate) use self::client::Login;
pub use self::options::RedisOptions;

const START: Duration = crate::wait::HANG_LIMIT;

/// A Redis server without persistence.
///
/// The handle looks into it through a socket of its own, so that `query` and the like work whatever a test
/// does to the port: proxies, TLS, passwords.
#[derive(Debug)]
pub struct Redis {
    // In this order: the process goes first, then its port and folder.
    process: Process,
    client: Client,
    host: IpAddr,
    port: Port,
    // Restarting reads the files again.
    tls: Option<(Certificates, ClientCertificates)>,
    _folder: TempDir,
}

impl Redis {
    /// Starts Debian's Redis server on a free port.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    /// For a server that needs saying more about.
    #[must_use]
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port.number())
    }

    /// The same as a URL, without user and password.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.address())
    }

    /// Its process id; another one after a restart.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it has not been killed. A paused server runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Makes it hang, with all its sockets open, until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets it run on.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Ends it at once, as a crash does, and waits until it is gone.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Kills it if it runs, and starts it again, empty, on the same port with the same arguments.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self) {
        self.process.restart();
        answers(&self.process, &self.client).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs a command.
    ///
    /// # Panics
    /// If the server cannot be reached, answers with an error, or with something else than a `T`.
    #[track_caller]
    pub fn query<T: FromRedisValue>(&self, command: &[&str]) -> T {
        match self.try_query(command) {
            Ok(value) => value,
            Err(error) => panic!("{command:?} on {}: {error}", self.address()),
        }
    }

    /// Runs a command that may fail.
    ///
    /// # Errors
    /// If the server cannot be reached, answers with an error, or with something else than a `T`.
    pub fn try_query<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        self.client.query(command)
    }

    /// Asks a server that may be down or hang: no answer is an answer.
    pub(crate) fn ask<T: FromRedisValue>(&self, command: &[&str]) -> Option<T> {
        self.client.query_within(Duration::from_secs(1), command).ok()
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.client.login()
    }

    /// All that the server has logged, over all restarts.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// Waits until the server answers commands.
fn answers(process: &Process, client: &Client) -> Result<(), StartError> {
    let ready = wait::poll(START, || match client.query::<()>(&["PING"]) {
        Ok(()) => Some(true),
        // Refusing whoever the handle is takes a running server too.
        Err(error) => match error.kind() {
            redis::ErrorKind::Server(ServerErrorKind::BusyLoading) => None,
            redis::ErrorKind::Server(_) => Some(true),
            _ => (!process.is_running()).then_some(false),
        },
    });
    if ready == Some(true) { Ok(()) } else { Err(StartError::of(process)) }
}
