//! The commands of `cargo xtask`.

use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

use crate::dashboard;
use crate::jobs::{self, Job, Queue, Report};
use crate::packages::workspace;
use crate::test_output::Count;

/// The benchmarks, by the package that has them.
const BENCHES: [(&str, &str); 14] = [
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
    ("threads", "tidegate-cli"),
    ("pressure", "tidegate-cli"),
    ("simulate", "tidegate-cli"),
];

/// Rewrites committed outputs when set; see `bless`.
const BLESS: &str = "TIDEGATE_BLESS";

/// Where the pictures of the dashboard go when set; see `screenshots`.
const SCREENSHOTS: &str = "TIDEGATE_SCREENSHOTS";

/// Tests of the dashboard's scripts, and of its files that are from elsewhere.
pub(crate) fn dashboard_jobs() -> Result<Vec<Job>, String> {
    let folder = dashboard::folder();
    let scripts = Job::new("dashboard scripts", dashboard::script_tests(&folder)?);
    let mut vendored = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    vendored.arg(VENDORED);
    Ok(vec![scripts, Job::new("dashboard files from elsewhere", vendored)])
}

/// The command that compares the dashboard's files from elsewhere with what was published.
pub(crate) const VENDORED: &str = "dashboard-vendored";

/// Runs the dashboard's tests alone.
pub(crate) fn dashboard() -> Result<(), String> {
    let reports = jobs::run(Queue { jobs: dashboard_jobs()?, at_once: 1 });
    println!("\n{}", total(&reports));
    errors(&reports)
}

pub(crate) fn total(reports: &[Report]) -> Count {
    let mut total = Count::default();
    reports.iter().for_each(|report| total += report.count);
    total
}

pub(crate) fn errors(reports: &[Report]) -> Result<(), String> {
    let errors: Vec<&str> = reports.iter().filter_map(|report| report.error.as_deref()).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

pub(crate) const LINTS: [&str; 6] = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

/// Checks formatting and lints.
pub(crate) fn lint() -> Result<(), String> {
    formatting()?;
    step("lints", cargo().args(LINTS))
}

pub(crate) fn formatting() -> Result<(), String> {
    step("formatting", cargo().args(["fmt", "--all", "--check"]))
}

/// Runs the benchmarks named, or all of them, built with the profile that packages are built with unless another is named.
pub(crate) fn bench(arguments: &[&str]) -> Result<(), String> {
    let (profile, names) = match arguments {
        ["--profile", profile, names @ ..] => (*profile, names),
        names => ("dist", names),
    };
    if let Some(unknown) = names.iter().find(|name| !BENCHES.iter().any(|(known, _)| known == *name)) {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no benchmark `{unknown}`; there are {}", known.join(", ")));
    }
    for (name, package) in BENCHES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        step(
            name,
            cargo().args(["bench", "--profile", profile, "--quiet", "--package", package, "--bench", name]),
        )?;
    }
    Ok(())
}

/// Rewrites the committed outputs that tests compare with the code.
pub(crate) fn bless() -> Result<(), String> {
    // First, because the other packages do not compile with generated code that is out of date.
    step("protobuf code", cargo().args(["test", "--package", "xtask", "protobuf::"]).env(BLESS, "1"))?;
    let packages = ["--package", "tidegate-rules", "--package", "tidegate-server"];
    step("schemas and messages", cargo().arg("test").args(packages).env(BLESS, "1"))
}

/// Takes the pictures of the dashboard that the documentation has. The test that does it throws its own away otherwise.
pub(crate) fn screenshots() -> Result<(), String> {
    let test = ["test", "--package", "tidegate-cli", "--test", "cli", "--"];
    let only = ["--exact", "dashboard::screenshots::pictures_can_be_taken", "--nocapture"];
    let folder = workspace().join("docs/screenshots");
    step("screenshots", cargo().args(test).args(only).env(SCREENSHOTS, folder))
}

pub(crate) fn cargo() -> Command {
    Command::new(cargo_program())
}

pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs one step and says how long it took.
pub(crate) fn step(name: &str, command: &mut Command) -> Result<(), String> {
    timed(name, || run(command))
}

pub(crate) fn timed<T>(name: &str, action: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    println!("\n== {name}");
    let start = Instant::now();
    let result = action()?;
    println!("== {name}: done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(result)
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?} could not be started: {error}")),
    }
}
