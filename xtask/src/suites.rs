//! The test binaries of the workspace: builds them, and says how to run each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use crate::jobs::Job;
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
#[derive(Clone, Debug, PartialEq)]
struct TestBinary {
    /// Package and target, as in `tidegate-cli cli`; of a package's own code just the package.
    name: String,
    program: PathBuf,
    /// The package's folder, which tests run in.
    folder: PathBuf,
}

/// Tests of one binary that run together.
#[derive(Debug)]
struct Suite {
    binary: TestBinary,
    /// In the order in which the test harness starts them.
    tests: Vec<String>,
    /// True if these are all tests of the binary.
    whole: bool,
}

/// All suites, in the order in which they start.
#[derive(Debug)]
pub(crate) struct Suites {
    together: Vec<Suite>,
    alone: Vec<Suite>,
}

impl Suites {
    /// Builds all test binaries, and takes the tests that one of the filters lets through; all if there is no filter.
    pub(crate) fn build(filters: &[String]) -> Result<Self, String> {
        let mut binaries = build_binaries()?;
        let place = |binary: &TestBinary| SLOWEST_FIRST.iter().position(|name| *name == binary.name);
        binaries.sort_by_key(|binary| place(binary).unwrap_or(SLOWEST_FIRST.len()));
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for binary in binaries {
            let all = binary.tests()?;
            let wanted: Vec<&String> =
                all.iter().filter(|test| is_wanted(filters, &binary.name, test)).collect();
            let (by_itself, beside): (Vec<&String>, _) =
                wanted.iter().partition(|test| needs_quiet(&binary.name, test));
            for (list, tests) in [(&mut together, beside), (&mut alone, by_itself)] {
                if !tests.is_empty() {
                    let whole = tests.len() == all.len();
                    let tests = tests.into_iter().cloned().collect();
                    list.push(Suite { binary: binary.clone(), tests, whole });
                }
            }
        }
        if together.is_empty() && alone.is_empty() {
            return Err(format!("no suite or test has a name that contains `{}`", filters.join("` or `")));
        }
        Ok(Self { together, alone })
    }

    /// Returns those that run side by side.
    pub(crate) fn together(&self) -> Vec<Job> {
        // Most tests wait for servers most of the time: twice as many at once as there are cores keep them busy.
        self.together.iter().map(|suite| suite.job(2 * cores())).collect()
    }

    /// Returns those that run with nothing else going on.
    pub(crate) fn alone(&self) -> Vec<Job> {
        self.alone.iter().map(|suite| suite.job(cores())).collect()
    }
}

/// Returns whether a filter lets a test through: by the name of its suite, by its own, or by both with a space in between.
fn is_wanted(filters: &[String], suite: &str, test: &str) -> bool {
    let wants = |filter: &String| match filter.strip_prefix(suite).and_then(|rest| rest.strip_prefix(' ')) {
        Some(rest) => test.contains(rest),
        None => suite.contains(filter) || test.contains(filter),
    };
    filters.is_empty() || filters.iter().any(wants)
}

fn needs_quiet(suite: &str, test: &str) -> bool {
    suite == ALONE.0 && ALONE.1.iter().any(|prefix| test.starts_with(prefix))
}

/// Number of cores that can be used.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(2, usize::from)
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

impl Suite {
    fn job(&self, threads: usize) -> Job {
        let mut command = self.binary.command();
        command.arg(format!("--test-threads={threads}"));
        if !self.whole {
            command.arg("--exact").args(&self.tests);
        }
        Job { name: self.binary.name.clone(), command, tests: self.tests.clone(), threads }
    }
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

    /// Lists its tests.
    fn tests(&self) -> Result<Vec<String>, String> {
        let could_not = |error| format!("{} could not be run: {error}", self.program.display());
        let listed = self.command().arg("--list").output().map_err(could_not)?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        Ok(listed.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder);
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
    fn filters_select_by_suite_by_test_or_by_both() {
        let wanted = |filter: &str| {
            let all =
                [("tidegate", "tiers::a"), ("tidegate-server http", "tiers::b"), ("tidegate-redis", "c")];
            let filters = [filter.to_owned()];
            all.map(|(suite, test)| is_wanted(&filters, suite, test))
        };
        assert!(is_wanted(&[], "tidegate", "a"));
        assert_eq!(wanted("tiers::"), [true, true, false]);
        assert_eq!(wanted("http"), [false, true, false]);
        assert_eq!(wanted("tidegate tiers::"), [true, false, false]);
        assert_eq!(wanted("tidegate-server http tiers::b"), [false, true, false]);
        assert_eq!(wanted("nothing"), [false, false, false]);
    }

    #[test]
    fn packages_named_like_their_folder_are_named_by_it() {
        assert_eq!(package_name("path+file:///w/xtask#0.1.0", Path::new("/w/xtask")), "xtask");
    }
}
