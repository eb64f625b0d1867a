//! What the commands do, one cargo call after the other.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::dashboard;
use crate::packages::workspace;

/// The benchmarks, by the package that has them.
const BENCHES: [(&str, &str); 12] = [
    ("in_process", "tidegate"),
    ("memory", "tidegate"),
    ("http", "tidegate-server"),
    ("rate_limit", "tidegate-server"),
    ("rules", "tidegate-server"),
    ("failure", "tidegate-server"),
    ("redis", "tidegate-redis"),
    ("calls", "tidegate-cluster"),
    // What watching costs each decision, and what watchers cost a node.
    ("observe", "tidegate-server"),
    ("observe", "tidegate-cli"),
    ("gateway", "tidegate-cli"),
    ("simulate", "tidegate-cli"),
];

/// Rewrites committed outputs when set; see `bless`.
const BLESS: &str = "TIDEGATE_BLESS";

/// Where the pictures of the dashboard go when set; see `screenshots`.
const SCREENSHOTS: &str = "TIDEGATE_SCREENSHOTS";

/// Everything that must hold before a change lands.
pub(crate) fn test() -> Result<(), String> {
    lint()?;
    step(
        "documentation",
        cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    let suites: [(&str, &[&str]); 2] =
        [("tests", &["--lib", "--bins", "--tests", "--examples"]), ("documentation tests", &["--doc"])];
    let mut count = Count::default();
    let mut ended = Ok(());
    for (name, targets) in suites {
        println!("\n== {name}");
        ended = ended.and(count.run(cargo().args(["test", "--workspace", "--no-fail-fast"]).args(targets)));
    }
    ended = both(ended, dashboard_tests(&mut count));
    println!("\n{count}");
    ended
}

/// The tests of the dashboard's scripts, and of its files that are from elsewhere.
fn dashboard_tests(count: &mut Count) -> Result<(), String> {
    let folder = dashboard::folder();
    println!("\n== dashboard scripts");
    let tested = dashboard::script_tests(&folder).and_then(|mut tests| count.run(&mut tests));
    println!("\n== dashboard files from elsewhere");
    both(tested, dashboard::check_vendored(&folder))
}

/// What went wrong in either.
fn both(one: Result<(), String>, other: Result<(), String>) -> Result<(), String> {
    match (one, other) {
        (Err(one), Err(other)) => Err(format!("{one}\n{other}")),
        (one, other) => one.and(other),
    }
}

/// The dashboard's tests alone.
pub(crate) fn dashboard() -> Result<(), String> {
    let mut count = Count::default();
    let ended = dashboard_tests(&mut count);
    println!("\n{count}");
    ended
}

/// Tests of all suites together.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Count {
    /// Runs a suite, passing on what it prints and adding up what it says at the end of each binary.
    fn run(&mut self, command: &mut Command) -> Result<(), String> {
        let could_not = |error| format!("the tests could not be run: {error}");
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(could_not)?;
        let output = child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines());
        for line in output.map_while(Result::ok) {
            println!("{line}");
            self.add(&line);
        }
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{command:?} ended with {status}")),
            Err(error) => Err(could_not(error)),
        }
    }

    /// Adds a line such as `test result: ok. 3 passed; 0 failed; …`, or `ℹ pass 3` as Node.js has it.
    fn add(&mut self, line: &str) {
        match line.strip_prefix("ℹ ").and_then(|figure| figure.split_once(' ')) {
            Some(("pass", number)) => self.passed += number.parse().unwrap_or(0),
            Some(("fail", number)) => self.failed += number.parse().unwrap_or(0),
            _ => {}
        }
        let result = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "));
        for figure in result.into_iter().flat_map(|(_, figures)| figures.split("; ")) {
            match figure.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// Formatting and lints.
pub(crate) fn lint() -> Result<(), String> {
    step("formatting", cargo().args(["fmt", "--all", "--check"]))?;
    step("lints", cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Runs the benchmarks named, or all of them.
pub(crate) fn bench(names: &[&str]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| !BENCHES.iter().any(|(known, _)| known == *name)) {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no benchmark `{unknown}`; there are {}", known.join(", ")));
    }
    for (name, package) in BENCHES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        step(name, cargo().args(["bench", "--quiet", "--package", package, "--bench", name]))?;
    }
    Ok(())
}

/// Rewrites the committed outputs that tests compare with the code.
pub(crate) fn bless() -> Result<(), String> {
    let packages = ["--package", "tidegate-rules", "--package", "tidegate-server"];
    step("bless", cargo().arg("test").args(packages).env(BLESS, "1"))
}

/// Takes the pictures of the dashboard that the documentation has. The test that does it throws its own away otherwise.
pub(crate) fn screenshots() -> Result<(), String> {
    let test = ["test", "--package", "tidegate-cli", "--test", "cli", "--"];
    let only = ["--exact", "dashboard::screenshots::pictures_can_be_taken", "--nocapture"];
    let folder = workspace().join("docs/screenshots");
    step("screenshots", cargo().args(test).args(only).env(SCREENSHOTS, folder))
}

/// Cargo, as this was started with.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs one step and says how long it took.
fn step(name: &str, command: &mut Command) -> Result<(), String> {
    println!("\n== {name}");
    let start = Instant::now();
    run(command)?;
    println!("== {name}: done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?} could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut count = Count::default();
        for line in [
            "test result: ok. 32 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.69s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.69s",
            "test a::b ... ok",
            "ℹ tests 7",
            "ℹ pass 6",
            "ℹ fail 1",
        ] {
            count.add(line);
        }
        assert_eq!(count.to_string(), "41 passed, 3 failed");
    }
}
