//! Processes that do nothing but keep the processor busy, so that tests are run as on a machine with other work to do.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;

/// The hidden command that such a process runs.
pub(crate) const SPIN: &str = "spin";

/// Busy processes, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct BusyProcesses(Vec<Child>);

impl BusyProcesses {
    /// Starts a number of them.
    pub(crate) fn start(count: usize) -> Result<Self, String> {
        let could_not = |error| format!("a busy process could not be started: {error}");
        let program = std::env::current_exe().map_err(could_not)?;
        let mut processes = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(&program);
            command.arg(SPIN).stdin(Stdio::piped()).stdout(Stdio::null());
            processes.0.push(command.spawn().map_err(could_not)?);
        }
        Ok(processes)
    }
}

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for process in &mut self.0 {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// Keeps one core busy until standard input ends, as it does when the process that started this one is gone, however it ended.
pub(crate) fn spin() -> ! {
    thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new()).ok();
    std::process::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_processes_end_with_their_owner() {
        // The test harness takes `spin` for a filter that no test's name contains, and ends by itself: what counts is that
        // every process is waited for.
        let processes = BusyProcesses::start(2).unwrap();
        let ids: Vec<u32> = processes.0.iter().map(Child::id).collect();
        drop(processes);
        for id in ids {
            assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "process {id} is still there");
        }
    }
}
