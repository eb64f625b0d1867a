//! PostgreSQL's programs, as somebody whom they agree to run for: they refuse to be root.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::process::Launch;
use crate::program::find_program;

/// Where Debian puts them, by version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The user and the group of this number own nothing on any Debian.
const NOBODY: u32 = 65_534;

/// What to run `name` by, for a little while.
pub(super) fn command(name: &str) -> Command {
    let program = find(name);
    let mut command = if geteuid().is_root() {
        let mut setpriv = Command::new(find_program("setpriv", "util-linux"));
        setpriv.args(become_nobody()).arg(program);
        setpriv
    } else {
        Command::new(program)
    };
    // Where it may not look up its own folder, it complains.
    command.current_dir("/");
    command
}

/// The same for a server.
pub(super) fn launch(name: &str, log: PathBuf) -> Launch {
    let program = find(name);
    if !geteuid().is_root() {
        return Launch::new(program, log);
    }
    // Becoming somebody else forgets with whom the process is to die.
    Launch::new(find_program("setpriv", "util-linux"), log)
        .args(become_nobody())
        .args(["--pdeathsig", "KILL"])
        .args([program])
}

fn become_nobody() -> [String; 3] {
    [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]
}

/// Lets the programs own a file or a folder.
pub(super) fn give_away(path: &Path) {
    if geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Removes what a killed server leaves in the memory of the machine, a few bytes that say that its data are in use.
pub(super) fn remove_memory(data: &Path) {
    // The seventh line: key and number.
    let lock = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let number = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
    if let Some(number) = number {
        let mut ipcrm = Command::new(find_program("ipcrm", "util-linux"));
        // The server may have removed it itself.
        ipcrm.args(["--shmem-id", number]).stderr(Stdio::null()).status().ok();
    }
}

fn find(name: &str) -> PathBuf {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().filter_map(Result::ok);
    let number = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let found = versions.map(|entry| entry.path()).filter(|folder| folder.join("bin").join(name).is_file());
    match found.max_by_key(number) {
        Some(folder) => folder.join("bin").join(name),
        None => panic!("{name} is not installed; apt-get install postgresql"),
    }
}
