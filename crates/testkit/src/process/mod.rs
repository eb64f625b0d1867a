//! Processes that do not outlive the test that started them.

mod spawner;

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, kill_process};

use crate::program::find_program;
use crate::wait;

pub use rustix::process::Signal;

const SOON: Duration = crate::wait::HANG_LIMIT;

/// How much of a log a failure shows.
const TAIL: usize = 20;

/// Says how wrong a clock is.
const CLOCK: &str = "FAKETIME";

/// What to start, and how. Restarting starts the same again.
#[derive(Debug, Clone)]
pub struct Launch {
    program: PathBuf,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    log: PathBuf,
}

impl Launch {
    /// Starts this program with all that it prints going into the log file.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), variables: Vec::new(), log: log.into() }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Gives the process a wall clock that is wrong by this much, such as `+1d` or `-30s`. Durations stay
    /// true.
    ///
    /// This loads what the program `faketime` loads but not that program, which would stay in between as a
    /// parent.
    #[must_use]
    pub fn clock_offset(self, offset: &str) -> Self {
        let folder = format!("/usr/lib/{}-linux-gnu/faketime", std::env::consts::ARCH);
        let library = Path::new(&folder).join("libfaketimeMT.so.1");
        assert!(library.is_file(), "faketime is not installed; apt-get install faketime");
        self.variable("LD_PRELOAD", library)
            .variable(CLOCK, offset)
            .variable("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }

    /// Starts it. That it is ready is for the caller to find out.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(self) -> Process {
        let child = self.spawn();
        Process { launch: self, child: Mutex::new(child) }
    }

    fn spawn(&self) -> Child {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.unwrap_or_else(|error| panic!("{}: {error}", self.log.display()));
        // `setpriv` becomes the program, so that the process id is the program's.
        let mut command = Command::new(find_program("setpriv", "util-linux"));
        command.args(["--pdeathsig", "KILL"]).arg(&self.program).args(&self.args);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        spawner::spawn(command).unwrap_or_else(|error| panic!("{}: {error}", self.program.display()))
    }

    /// Removes the shared memory of a process with a wrong clock, which it cannot do itself when it is
    /// killed.
    fn clean_up(&self, pid: u32) {
        if self.variables.iter().any(|(name, _)| name == CLOCK) {
            for name in ["faketime_shm_", "sem.faketime_sem_"] {
                fs::remove_file(format!("/dev/shm/{name}{pid}")).ok();
            }
        }
    }
}

/// A running process, killed when this is dropped and when the test process dies.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    child: Mutex<Child>,
}

impl Process {
    /// Its process id; another one after a restart.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Whether it has not ended. A paused process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.child().try_wait(), Ok(None))
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        let mut child = self.child();
        // Once waited for, the number may be another process's.
        if matches!(child.try_wait(), Ok(None)) {
            kill_process(Pid::from_child(&child), signal).expect("a child takes signals");
        }
    }

    /// Stops it from running at all, with all its sockets open: a hang. Returns when it stands still.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let state = format!("/proc/{}/stat", self.pid());
        wait::until("the process stands still", SOON, || {
            let state = fs::read_to_string(&state).ok()?;
            // The state follows the name, which is in parentheses and may contain any.
            state.rsplit_once(") ")?.1.starts_with(['T', 'Z']).then_some(())
        });
    }

    /// Lets it run on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it at once, as a crash does, and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.child();
        // Fails only for a child that was waited for already.
        child.kill().ok();
        child.wait().ok();
        self.launch.clean_up(child.id());
    }

    /// Waits for it to end by itself, or by a signal sent before; nothing if it does not in time.
    #[must_use]
    pub fn wait(&self, within: Duration) -> Option<ExitStatus> {
        wait::poll(within, || self.child().try_wait().ok().flatten())
    }

    /// Kills it if it runs, and starts it again the same way.
    pub fn restart(&self) {
        self.kill();
        *self.child() = self.launch.spawn();
    }

    /// All that it has printed so far, over all restarts.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.launch.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of its log, for messages.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
