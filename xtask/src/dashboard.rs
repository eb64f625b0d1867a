//! The dashboard's own tests, and whether its files from elsewhere are what they say they are.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::npm::NpmPackage;
use crate::packages::workspace;

/// The oldest Node.js that has a test runner which tells what it did.
const LEAST_NODE: u32 = 18;

/// A file that was copied from a package.
#[derive(Debug, PartialEq)]
struct Vendored<'a> {
    /// Its name in the dashboard's folder.
    file: &'a str,
    package: &'a str,
    version: &'a str,
    /// Where it is in the package.
    path: &'a str,
    sha256: &'a str,
}

/// Writes the list of them as lines. Node.js is here anyway, and reads JSON.
const LIST: &str = "const read = require('node:fs').readFileSync(process.argv[1], 'utf8');
for (const one of JSON.parse(read))
    console.log([one.file, one.package, one.version, one.path, one.sha256].join('\\t'));";

/// Where the dashboard is.
pub(crate) fn folder() -> PathBuf {
    workspace().join("dashboard")
}

/// The command that runs the tests of the scripts.
pub(crate) fn script_tests(folder: &Path) -> Result<Command, String> {
    let help = "install a newer one: apt-get install nodejs";
    let version = Command::new("node").arg("--version").output();
    let version = version.map_err(|error| format!("node cannot be started: {error}; {help}"))?.stdout;
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    if major(&version).is_none_or(|major| major < LEAST_NODE) {
        return Err(format!("Node.js {LEAST_NODE} or later is needed, and this is `{version}`; {help}"));
    }
    // By name: what a folder stands for is not the same in all versions.
    let files = test_files(&folder.join("tests"))?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=spec"]).args(files);
    Ok(node)
}

/// The number before the first dot of a version such as `v20.1.2`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn test_files(tests: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(tests).map_err(|error| format!("{}: {error}", tests.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_test = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        [".test.js", ".test.mjs"].iter().any(|end| name.ends_with(end))
    };
    let mut files: Vec<PathBuf> = paths.filter(is_test).collect();
    files.sort();
    if files.is_empty() {
        return Err(format!("there is no test (*.test.js, *.test.mjs) in {}", tests.display()));
    }
    Ok(files)
}

/// Compares each file that is from elsewhere with what it was copied from.
pub(crate) fn check_vendored(folder: &Path) -> Result<(), String> {
    let list = folder.join("vendor.json");
    let about = |error: &dyn Display| format!("{}: {error}", list.display());
    let output = Command::new("node").args(["--eval", LIST]).arg(&list).output();
    let output = output.map_err(|error| about(&error))?;
    if !output.status.success() {
        return Err(about(&String::from_utf8_lossy(&output.stderr)));
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    let all: Result<Vec<Vendored<'_>>, String> = lines.lines().map(Vendored::read).collect();
    let all = all.map_err(|error| about(&error))?;
    let wrong: Vec<String> = all.iter().filter_map(|one| check(folder, one).err()).collect();
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    println!("{} files are as they were published", all.len());
    Ok(())
}

impl<'a> Vendored<'a> {
    /// One line of the list; none of its parts may be missing.
    fn read(line: &'a str) -> Result<Self, String> {
        let parts: Vec<&str> = line.split('\t').collect();
        match parts[..] {
            [file, package, version, path, sha256] if !parts.contains(&"") => {
                Ok(Self { file, package, version, path, sha256 })
            }
            _ => Err(format!("each has file, package, version, path and sha256, but not `{line}`")),
        }
    }
}

fn check(folder: &Path, vendored: &Vendored<'_>) -> Result<(), String> {
    let Vendored { file, package, version, path, sha256 } = *vendored;
    let published = NpmPackage { name: package, version }.fetch()?.join(path);
    let own = folder.join(file);
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let restore = format!("restore it: cp {} {}", published.display(), own.display());
    let wanted = read(&published)?;
    let there = read(&own).map_err(|error| format!("{error}; {restore}"))?;
    if there != wanted {
        return Err(format!("{} is not {path} of {package} {version}; {restore}", own.display()));
    }
    match digest(&own)? {
        digest if digest == sha256 => Ok(()),
        digest => Err(format!("{file}: vendor.json says that its SHA-256 is {sha256}, and it is {digest}")),
    }
}

fn digest(file: &Path) -> Result<String, String> {
    let output =
        Command::new("sha256sum").arg(file).output().map_err(|error| format!("sha256sum: {error}"))?;
    // Names with odd characters in them come after a backslash.
    let text = String::from_utf8_lossy(&output.stdout).trim_start_matches('\\').to_owned();
    text.split_whitespace()
        .next()
        .map(str::to_owned)
        .ok_or_else(|| format!("no digest of {}", file.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn versions_are_compared_by_their_first_number() {
        assert_eq!(["v18.0.0", "v9.1", "18.0.0", ""].map(major), [Some(18), Some(9), None, None]);
    }

    #[test]
    fn a_folder_without_tests_is_no_success() {
        let folder = std::env::temp_dir().join(format!("tidegate-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("helper.js"), "").unwrap();
        assert!(test_files(&folder).unwrap_err().contains("there is no test"));
        for name in ["b.test.js", "a.test.mjs"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let names = test_files(&folder).unwrap();
        assert_eq!(names, [folder.join("a.test.mjs"), folder.join("b.test.js")]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn no_part_of_an_entry_may_be_missing() {
        let entry = Vendored::read("a.js\ta\t1.0.0\tdist/a.js\t00").unwrap();
        assert_eq!((entry.file, entry.path, entry.sha256), ("a.js", "dist/a.js", "00"));
        for line in ["", "a.js\ta\t1.0.0\tdist/a.js", "a.js\t\t1.0.0\tdist/a.js\t00"] {
            assert!(Vendored::read(line).unwrap_err().contains("sha256"), "{line}");
        }
    }
}
