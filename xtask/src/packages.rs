//! What the tests need from the operating system.

use std::path::Path;
use std::process::Command;

use crate::steps::run;

/// A program the tests start, and the Debian package that brings it.
struct Needed {
    program: &'static str,
    package: &'static str,
}

const NEEDED: [Needed; 4] = [
    // The start-up message of `tidegate serve` shows a curl command; a test pastes it.
    Needed { program: "curl", package: "curl" },
    // Signals are sent to the processes under test as an operator would send them.
    Needed { program: "kill", package: "procps" },
    // Callers from outside this machine come from a network namespace.
    Needed { program: "ip", package: "iproute2" },
    Needed { program: "unshare", package: "util-linux" },
];

/// Installs what is missing, and says so.
pub(crate) fn install_missing() -> Result<(), String> {
    let missing: Vec<&str> =
        NEEDED.iter().filter(|needed| !is_there(needed.program)).map(|needed| needed.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("xtask: installing {}", missing.join(", "));
    let help = |error: String| format!("{error}\nInstall it by hand: apt-get install {}", missing.join(" "));
    run(Command::new("apt-get").args(["update", "-qq"])).map_err(help)?;
    let install = ["install", "-y", "-qq", "--no-install-recommends"];
    run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(install).args(&missing))
        .map_err(help)
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].into_iter().map(Into::into);
    std::env::split_paths(&path).chain(system).any(|folder| Path::new(&folder).join(program).is_file())
}
