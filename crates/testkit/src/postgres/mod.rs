//! One PostgreSQL server, and replicas of it.

mod family;
mod programs;

use std::fs::{self, Permissions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::ports::Port;
use crate::process::Process;
use crate::start::{StartError, retry_ports};
use crate::tls::Certificates;
use crate::wait;

const START: Duration = crate::wait::HANG_LIMIT;

/// Who may do everything. On the machine itself, which is what [`Postgres::psql`] uses, no password is asked for.
const SUPERUSER: &str = "postgres";

const PASSWORD: &str = "secret";

/// A PostgreSQL server with a cluster of its own. Its data outlive a crash, but not the handle.
///
/// Over TCP it asks for passwords (SCRAM). The handle looks into it with `psql`, as an operator does.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: Port,
    folder: TempDir,
}

impl Postgres {
    /// Starts Debian's PostgreSQL on a free port.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start() -> Self {
        retry_ports(|| Self::try_start(&new_cluster(), None))
    }

    /// The same, taking clients with and without TLS.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start_tls(certificates: &Certificates) -> Self {
        retry_ports(|| Self::try_start(&new_cluster(), Some(certificates)))
    }

    /// Starts a replica, which follows `primary` and can only be read.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn replica_of(primary: &Self) -> Self {
        retry_ports(|| {
            Self::try_start(
                &|data| {
                    let mut copy = programs::command("pg_basebackup");
                    copy.arg("--pgdata").arg(data).args(["--write-recovery-conf", "--checkpoint", "fast"]);
                    copy.arg("--no-sync");
                    primary.connect(&mut copy);
                    copy
                },
                None,
            )
        })
    }

    fn try_start(fill: &dyn Fn(&Path) -> Command, tls: Option<&Certificates>) -> Result<Self, StartError> {
        let folder = tempfile::tempdir().unwrap();
        programs::give_away(folder.path());
        let data = folder.path().join("data");
        succeed(fill(&data), b"");
        let port = Port::claim();
        let number = port.number().to_string();
        let place = folder.path().display().to_string();
        let mut launch = programs::launch("postgres", folder.path().join("postgres.log"))
            .args(["-D".as_ref(), data.as_os_str()])
            .args(["-h", "127.0.0.1", "-p", &number, "-k", &place])
            // What a killed process has written is in the files; only a machine that loses power needs more.
            .args(["-F", "-c", "full_page_writes=off"])
            // Outside the folder it would be left behind by a crash.
            .args(["-c", "dynamic_shared_memory_type=mmap"])
            // A replica soon finds a primary that is there again.
            .args(["-c", "wal_retrieve_retry_interval=100ms"]);
        if let Some(tls) = tls {
            let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
            fs::copy(tls.server_certificate(), &certificate).unwrap();
            fs::copy(tls.server_key(), &key).unwrap();
            // It takes no key that others can read.
            fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
            programs::give_away(&certificate);
            programs::give_away(&key);
            launch = launch
                .args(["-c", "ssl=on", "-c", &format!("ssl_cert_file={}", certificate.display())])
                .args(["-c", &format!("ssl_key_file={}", key.display())]);
        }
        let postgres = Self { process: launch.start(), port, folder };
        postgres.answers().map(|()| postgres)
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// How clients reach it as somebody who may do everything.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{SUPERUSER}:{PASSWORD}@{}/postgres", self.address())
    }

    /// Its process id; another one after a restart.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Makes it hang, with all its sockets open, until [`resume`](Self::resume).
    pub fn pause(&self) {
        family::pause(&self.process);
    }

    /// Lets it run on.
    pub fn resume(&self) {
        family::resume(&self.process);
    }

    /// Ends it at once, as a crash does, and waits until it is gone.
    pub fn kill(&self) {
        family::kill(&self.process);
        programs::remove_memory(&self.data());
    }

    /// Kills it if it runs, and starts it again with the same data on the same port.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self) {
        self.kill();
        self.process.restart();
        self.answers().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs SQL, and commands of `psql`, and returns what that prints: values separated by `|`, without headings.
    ///
    /// # Panics
    /// If that fails: the message has its words.
    #[track_caller]
    pub fn psql(&self, sql: &str) -> String {
        succeed(self.psql_command(), sql.as_bytes())
    }

    fn psql_command(&self) -> Command {
        let mut psql = programs::command("psql");
        psql.args(["--no-psqlrc", "--no-align", "--tuples-only", "--quiet", "--dbname", "postgres"]);
        psql.args(["--set", "ON_ERROR_STOP=1"]).env("PGCONNECT_TIMEOUT", "10");
        self.connect(&mut psql);
        psql
    }

    /// Lets a program connect to it, past all passwords.
    fn connect(&self, command: &mut Command) {
        command.arg("--host").arg(self.folder.path());
        command.args(["--port", &self.port.number().to_string(), "--username", SUPERUSER, "--no-password"]);
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Waits until the server answers.
    fn answers(&self) -> Result<(), StartError> {
        let ready = wait::poll(START, || match self.process.is_running() {
            true => run(self.psql_command(), b"SELECT 1").status.success().then_some(true),
            false => Some(false),
        });
        if ready == Some(true) { Ok(()) } else { Err(StartError::of(&self.process)) }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Fills a folder with an empty cluster.
fn new_cluster() -> impl Fn(&Path) -> Command {
    |data| {
        let mut command = programs::command("initdb");
        let password = data.with_file_name("password");
        fs::write(&password, PASSWORD).unwrap();
        programs::give_away(&password);
        command.arg("--pgdata").arg(data).arg("--pwfile").arg(password);
        command.args(["--username", SUPERUSER, "--auth-local", "trust", "--auth-host", "scram-sha-256"]);
        command.args(["--encoding", "UTF8", "--no-locale", "--no-sync"]);
        command
    }
}

#[track_caller]
fn succeed(command: Command, input: &[u8]) -> String {
    let name = format!("{command:?}");
    let output = run(command, input);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // It may end without reading; why, it says elsewhere.
    child.stdin.take().unwrap().write_all(input).ok();
    child.wait_with_output().unwrap()
}
