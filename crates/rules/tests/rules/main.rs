//! Rule documents from outside: good ones, bad ones, hostile ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bad;
mod convert;
mod costs;
mod edit;
mod envoy;
mod good;
mod plans;
mod robust;
mod schema;
mod together;
mod write;

use std::fs;
use std::path::{Path, PathBuf};

/// A folder of this crate.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Compares `actual` with a committed file, or rewrites the file when asked to.
fn check_committed(path: &Path, actual: &str) -> Result<(), String> {
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        return fs::write(path, actual).map_err(|error| format!("{}: {error}", path.display()));
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected == actual {
        return Ok(());
    }
    Err(format!(
        "{} is not what it should be.\n--- expected\n{expected}\n--- actual\n{actual}\n\
         If the change is meant, run the tests once with TIDEGATE_BLESS=1 and read what changed.",
        path.display()
    ))
}
