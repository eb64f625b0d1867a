//! The process that starts the browser and speaks for it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::ports::Port;
use crate::process::{Launch, Process};
use crate::program::find_program;
use crate::start::{StartError, retry_ports};
use crate::wait;

const START: Duration = crate::wait::HANG_LIMIT;

/// Chromium's WebDriver server, and all processes of the browser that it starts.
///
/// Those are many, in sessions of their own, and would outlive a driver that is killed. So the driver is the first process of a
/// process namespace: with it, the kernel ends all others in there, however it ends.
#[derive(Debug)]
pub(super) struct Driver {
    // In this order: the process goes first, then its port and folder.
    process: Process,
    port: Port,
    folder: TempDir,
}

impl Driver {
    /// Starts Debian's on a free port.
    pub(super) fn start() -> Self {
        retry_ports(Self::try_start)
    }

    fn try_start() -> Result<Self, StartError> {
        let (port, folder) = (Port::claim(), tempfile::tempdir().unwrap());
        let log = folder.path().join("driver.log");
        let mut launch = Launch::new(find_program("unshare", "util-linux"), log);
        if !rustix::process::geteuid().is_root() {
            launch = launch.args(["--user", "--map-root-user"]);
        }
        let launch = launch
            .args(["--pid", "--fork", "--kill-child"])
            .args([find_program("chromedriver", "chromium-driver")])
            .args([format!("--port={}", port.number())])
            // Whatever is written goes with the folder.
            .variable("HOME", folder.path())
            .variable("TMPDIR", folder.path());
        let driver = Self { process: launch.start(), port, folder };
        // By its own words: something else may answer on the port.
        let ready = wait::poll(START, || match driver.process.is_running() {
            true => driver.process.log().contains("started successfully").then_some(true),
            false => Some(false),
        });
        if ready == Some(true) { Ok(driver) } else { Err(StartError::of(&driver.process)) }
    }

    /// Where clients reach it.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Where the browser keeps what it remembers.
    pub(super) fn profile(&self) -> PathBuf {
        self.folder.path().join("profile")
    }

    pub(super) fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

impl Drop for Driver {
    /// Waits until all processes are gone, so that none writes into the folder any more.
    fn drop(&mut self) {
        let pid = self.process.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        self.process.kill();
        // The first process of a namespace ends after all others.
        for child in children.split_whitespace() {
            wait::poll(START, || ended(child).then_some(()));
        }
    }
}

/// Whether nothing of a process runs any more. It may look dead and have threads that are not, one of which ends the others of the
/// namespace.
fn ended(pid: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may contain any.
    threads <= 1 && stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
}
