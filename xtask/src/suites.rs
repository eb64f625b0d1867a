//! The test binaries of the workspace: builds them, and says how to run each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use crate::jobs::{Job, Queue};
use crate::steps::cargo;

/// Suites that wait longest. They start first, so that none of them is left over at the end.
const SLOWEST_FIRST: [&str; 6] = [
    "tidegate-redis redis",
    "tidegate-cli cli",
    "tidegate-sources sources",
    "tidegate-server http",
    "tidegate-gateway gateway",
    "tidegate-testkit servers",
];

/// Tests that need a quiet machine, by the beginning of their names: they hold the failover to figures that its messages must be
/// fast for.
const ALONE: (&str, [&str; 3]) = ("tidegate-cli cli", ["outage::", "owner::", "partition::"]);

/// A test binary that cargo has built.
#[derive(Debug, PartialEq)]
struct TestBinary {
    /// Package and target, as in `tidegate-cli cli`; of a package's own code just the package.
    name: String,
    program: PathBuf,
    /// The package's folder, which tests run in.
    folder: PathBuf,
}

/// All tests, by how they can be run.
#[derive(Debug)]
pub(crate) struct Suites {
    /// Side by side.
    pub(crate) together: Queue,
    /// With nothing else going on.
    pub(crate) alone: Queue,
}

/// Builds all test binaries and plans how to run them.
pub(crate) fn build() -> Result<Suites, String> {
    let mut binaries = build_binaries()?;
    let place = |binary: &TestBinary| SLOWEST_FIRST.iter().position(|name| *name == binary.name);
    binaries.sort_by_key(|binary| place(binary).unwrap_or(SLOWEST_FIRST.len()));
    let cores = available_parallelism().map_or(2, usize::from);
    // Most tests wait for servers most of the time: twice as many at once as there are cores keep them busy.
    let threads = 2 * cores;
    let mut together = Vec::new();
    let mut alone = Vec::new();
    for binary in &binaries {
        let (suite, prefixes) = ALONE;
        if binary.name == suite {
            let skip: Vec<&str> = prefixes.iter().flat_map(|prefix| ["--skip", *prefix]).collect();
            together.extend(binary.job("", &skip, threads)?);
            alone.extend(binary.job(", alone", &prefixes, cores)?);
        } else {
            together.extend(binary.job("", &[], threads)?);
        }
    }
    Ok(Suites {
        together: Queue { jobs: together, at_once: cores },
        alone: Queue { jobs: alone, at_once: 1 },
    })
}

fn build_binaries() -> Result<Vec<TestBinary>, String> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--no-run", "--lib", "--bins", "--tests", "--examples"]);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = build.output().map_err(|error| format!("{build:?} could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("{build:?} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(TestBinary::read).collect())
}

impl TestBinary {
    /// Reads one message of cargo's, which is a binary only if it has an executable and was built with the test harness.
    fn read(message: &str) -> Option<Self> {
        let (_, profile) = message.split_once("\"profile\":{")?;
        let (profile, _) = profile.split_once('}')?;
        if !profile.contains("\"test\":true") {
            return None;
        }
        let program = PathBuf::from(text(message, "\"executable\":")?);
        let manifest = PathBuf::from(text(message, "\"manifest_path\":")?);
        let folder = manifest.parent()?.to_owned();
        let (_, target) = message.split_once("\"target\":")?;
        let (kind, target) = (text(target, "\"kind\":[")?, text(target, "\"name\":")?);
        let package = package_name(&text(message, "\"package_id\":")?, &folder);
        let own = matches!(kind.as_str(), "lib" | "bin");
        let name = if own { package } else { format!("{package} {target}") };
        Some(Self { name, program, folder })
    }

    /// Returns how to run it, unless it has no test that the filters let through.
    fn job(&self, suffix: &str, filters: &[&str], threads: usize) -> Result<Option<Job>, String> {
        let could_not = |error| format!("{} could not be run: {error}", self.program.display());
        let listed = self.command(filters).arg("--list").output().map_err(could_not)?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let tests: Vec<String> =
            listed.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect();
        if tests.is_empty() {
            return Ok(None);
        }
        let mut command = self.command(filters);
        command.arg(format!("--test-threads={threads}"));
        Ok(Some(Job { name: format!("{}{suffix}", self.name), command, tests, threads }))
    }

    fn command(&self, filters: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(filters).current_dir(&self.folder);
        command
    }
}

/// Returns the first text after a key in a line of JSON.
fn text(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(key)?;
    let mut text = String::new();
    let mut characters = rest.strip_prefix('"')?.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

/// Returns the name in an id such as `path+file:///folder/core#tidegate-core@0.1.0`, where it may be left out if it is the folder's.
fn package_name(id: &str, folder: &Path) -> String {
    let last = id.rsplit('#').next().unwrap_or_default();
    match last.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, name: &str, test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/cli#tidegate-cli@0.1.0","manifest_path":"/w/crates/cli/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"{name}","src_path":"/w/crates/cli/x.rs","edition":"2024","doc":false,"doctest":false,"test":true}},"profile":{{"opt_level":"0","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":{test}}},"features":[],"filenames":[],"executable":{executable},"fresh":true}}"#
        )
    }

    #[test]
    fn test_binaries_are_found_among_messages() {
        let binary =
            TestBinary::read(&message("test", "cli", true, r#""/w/target/debug/deps/cli-1""#)).unwrap();
        assert_eq!(binary.name, "tidegate-cli cli");
        assert_eq!(binary.program, Path::new("/w/target/debug/deps/cli-1"));
        assert_eq!(binary.folder, Path::new("/w/crates/cli"));
        let own = TestBinary::read(&message("bin", "tidegate", true, r#""/w/a \"b\"""#)).unwrap();
        assert_eq!((own.name.as_str(), own.program.as_path()), ("tidegate-cli", Path::new("/w/a \"b\"")));
    }

    #[test]
    fn what_is_no_test_binary_is_left_out() {
        assert_eq!(TestBinary::read(&message("bin", "tidegate", false, r#""/w/tidegate""#)), None);
        assert_eq!(TestBinary::read(&message("lib", "tidegate", true, "null")), None);
        assert_eq!(TestBinary::read(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn packages_named_like_their_folder_are_named_by_it() {
        assert_eq!(package_name("path+file:///w/xtask#0.1.0", Path::new("/w/xtask")), "xtask");
    }
}
