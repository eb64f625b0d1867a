//! A machine's network, without the machine.

use std::fs::{self, File};
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{Launch, Process};
use crate::program::find_program;
use crate::wait;

const SOON: Duration = crate::wait::HANG_LIMIT;

/// What keeps a namespace there as long as it runs.
const KEEPER: &str = "sleep";

/// A network namespace. It is there as long as this, or anything that was started in it, and has no name that could be left
/// behind.
#[derive(Debug)]
pub struct Namespace {
    keeper: Process,
}

impl Namespace {
    /// Makes one in which nothing is but loopback.
    ///
    /// # Panics
    /// If namespaces cannot be made.
    pub(super) fn new(log: PathBuf) -> Self {
        let unshare = find_program("unshare", "util-linux");
        let keeper = Launch::new(unshare, log).args(["--net", KEEPER, "infinity"]).start();
        let name = format!("/proc/{}/comm", keeper.pid());
        wait::until("there is a network namespace", SOON, || {
            assert!(
                keeper.is_running(),
                "cannot make a network namespace; this takes root, or CAP_SYS_ADMIN and CAP_NET_ADMIN: {}",
                keeper.log_tail()
            );
            // It becomes what keeps the namespace once it is in there.
            fs::read_to_string(&name).is_ok_and(|name| name.trim_end() == KEEPER).then_some(())
        });
        let namespace = Self { keeper };
        namespace.ip("link set lo up\n");
        namespace
    }

    /// The process that others know it by.
    pub(super) fn pid(&self) -> u32 {
        self.keeper.pid()
    }

    /// What to run a program by, for it to be in there.
    pub(crate) fn launcher(&self) -> (PathBuf, String) {
        (find_program("nsenter", "util-linux"), format!("--net={}", self.path().display()))
    }

    fn path(&self) -> PathBuf {
        Path::new("/proc").join(self.pid().to_string()).join("ns/net")
    }

    /// Runs commands of `ip`, one a line.
    ///
    /// # Panics
    /// If one fails.
    #[track_caller]
    pub(super) fn ip(&self, script: &str) {
        let ip = find_program("ip", "iproute2");
        let (nsenter, net) = self.launcher();
        let mut command = Command::new(nsenter);
        command.arg(net).arg(ip).args(["-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("nsenter can be started");
        // If it has ended, it says why.
        child.stdin.take().unwrap().write_all(script.as_bytes()).ok();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cannot set up a network (this takes root): {said}of\n{script}");
    }

    /// Takes the calling thread in there, until what this returns is dropped: the sockets that it opens, the processes and threads
    /// that it starts are in there, too.
    ///
    /// # Panics
    /// If it may not.
    #[must_use]
    pub fn enter(&self) -> Inside {
        let open =
            |path: &Path| File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let outside = open(Path::new("/proc/thread-self/ns/net"));
        go_to(&open(&self.path()));
        Inside { outside, _this_thread: PhantomData }
    }
}

/// The calling thread is in a namespace as long as this is there.
#[derive(Debug)]
pub struct Inside {
    outside: File,
    /// Another thread is elsewhere.
    _this_thread: PhantomData<*const ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        go_to(&self.outside);
    }
}

fn go_to(namespace: &File) {
    use std::os::fd::AsFd;

    let entered = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
    entered.unwrap_or_else(|error| panic!("cannot enter a network namespace (this takes root): {error}"));
}
