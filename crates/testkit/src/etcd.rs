//! One etcd server.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::ports::Port;
use crate::process::{Launch, Process};
use crate::program::find_program;
use crate::start::{StartError, retry_ports};
use crate::tls::Certificates;
use crate::wait;

const START: Duration = crate::wait::HANG_LIMIT;

/// An etcd server that is a cluster of its own. Its data outlive a crash, but not the handle.
///
/// The handle looks into it with `etcdctl`, as an operator does.
#[derive(Debug)]
pub struct Etcd {
    // In this order: the process goes first, then its ports and folder.
    process: Process,
    port: Port,
    _peers: Port,
    // Restarting reads the files again.
    tls: Option<Certificates>,
    _folder: TempDir,
}

impl Etcd {
    /// Starts Debian's etcd on free ports.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start() -> Self {
        retry_ports(|| Self::try_start(None))
    }

    /// The same, speaking TLS with clients that have a certificate only.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start_tls(certificates: &Certificates) -> Self {
        retry_ports(|| Self::try_start(Some(certificates)))
    }

    fn try_start(tls: Option<&Certificates>) -> Result<Self, StartError> {
        let folder = tempfile::tempdir().unwrap();
        let (port, peers) = (Port::claim(), Port::claim());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let clients = format!("{scheme}://{}", port.address());
        let others = format!("http://{}", peers.address());
        let mut launch = Launch::new(find_program("etcd", "etcd-server"), folder.path().join("etcd.log"))
            .args(["--name", "one", "--initial-cluster", &format!("one={others}")])
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &others, "--initial-advertise-peer-urls", &others])
            .args(["--logger", "zap"])
            .args(["--data-dir".as_ref(), folder.path().join("data").as_os_str()]);
        if let Some(tls) = tls {
            launch = launch
                .args(["--cert-file".as_ref(), tls.server_certificate().as_os_str()])
                .args(["--key-file".as_ref(), tls.server_key().as_os_str()])
                .args(["--trusted-ca-file".as_ref(), tls.authority().as_os_str()])
                .args(["--client-cert-auth"]);
        }
        let process = launch.start();
        let etcd = Self { process, port, _peers: peers, tls: tls.cloned(), _folder: folder };
        etcd.answers().map(|()| etcd)
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its process id; another one after a restart.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
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

    /// Kills it if it runs, and starts it again with the same data on the same port.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self) {
        self.process.restart();
        self.answers().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Sets a key.
    ///
    /// # Panics
    /// If it cannot be set.
    #[track_caller]
    pub fn put(&self, key: &str, value: impl AsRef<[u8]>) {
        self.control(&["put", key], value);
    }

    /// Removes a key.
    ///
    /// # Panics
    /// If that is refused.
    #[track_caller]
    pub fn delete(&self, key: &str) {
        self.control(&["del", key], "");
    }

    /// Forgets how keys came to be what they are now.
    ///
    /// # Panics
    /// If that is refused.
    #[track_caller]
    pub fn compact(&self) {
        let revision = self.revision().to_string();
        self.control(&["compact", &revision, "--physical"], "");
    }

    /// Counts the changes of all keys so far.
    ///
    /// # Panics
    /// If it cannot be asked.
    #[track_caller]
    #[must_use]
    pub fn revision(&self) -> u64 {
        let answer = self.control(&["get", "none", "--write-out", "fields"], "");
        let line = answer.lines().find_map(|line| line.strip_prefix("\"Revision\" : "));
        line.and_then(|number| number.trim().parse().ok())
            .unwrap_or_else(|| panic!("no revision in {answer}"))
    }

    /// Runs `etcdctl` with these arguments and this input, and returns what it prints.
    ///
    /// # Panics
    /// If that fails: the message has its words.
    #[track_caller]
    pub fn control(&self, args: &[&str], input: impl AsRef<[u8]>) -> String {
        let output = self.run(args, input.as_ref(), "10s");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {args:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn run(&self, args: &[&str], input: &[u8], within: &str) -> Output {
        let mut command = Command::new(find_program("etcdctl", "etcd-client"));
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        command.env("ETCDCTL_API", "3").args(["--endpoints", &format!("{scheme}://{}", self.address())]);
        command.args(["--dial-timeout", within, "--command-timeout", within]);
        if let Some(tls) = &self.tls {
            command.arg("--cacert").arg(tls.authority());
            command.arg("--cert").arg(tls.client_certificate()).arg("--key").arg(tls.client_key());
        }
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("etcdctl: {error}"));
        // It may end without reading; why, it says elsewhere.
        child.stdin.take().unwrap().write_all(input).ok();
        child.wait_with_output().unwrap()
    }

    /// Waits until the server answers.
    fn answers(&self) -> Result<(), StartError> {
        let ready = wait::poll(START, || match self.process.is_running() {
            true => self.run(&["endpoint", "health"], b"", "1s").status.success().then_some(true),
            false => Some(false),
        });
        if ready == Some(true) { Ok(()) } else { Err(StartError::of(&self.process)) }
    }
}
