//! `cargo xtask test`: everything that must hold before a change lands.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::busy::BusyProcesses;
use crate::failures::Failures;
use crate::jobs::{self, Job, Queue, Report};
use crate::packages::{self, workspace};
use crate::steps::{self, LINTS, cargo};
use crate::suites::{Suites, cores};
use crate::test_options::{HELP, TestOptions};

/// Runs the command.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    if arguments.iter().any(|argument| ["--help", "-h"].contains(argument)) {
        print!("{HELP}");
        return Ok(());
    }
    let options = TestOptions::read(arguments)?;
    let start = Instant::now();
    let reports = run_rounds(&options)?;
    let result = steps::errors(&reports);
    println!("{} in {:.0} s", if result.is_ok() { "done" } else { "failed" }, start.elapsed().as_secs_f64());
    println!("\n{}", steps::total(&reports));
    result
}

/// Installs what is missing while cargo builds, and runs all rounds.
fn run_rounds(options: &TestOptions) -> Result<Vec<Report>, String> {
    let TestOptions { busy, rounds, ref filters } = *options;
    if filters.is_empty() {
        steps::formatting()?;
    }
    let suites = thread::scope(|scope| {
        let installing = scope.spawn(|| packages::install_missing().inspect_err(|error| stop(error)));
        let suites = steps::timed("test binaries", || Suites::build(filters));
        installing.join().map_err(|_| "installing packages panicked".to_owned())?.and(suites)
    })?;
    let _busy = BusyProcesses::start(busy * cores())?;
    let mut failures = Failures::new(failures_folder(), rounds)?;
    let mut reports = Vec::new();
    for round in 1..=rounds {
        if rounds > 1 {
            println!("\n== round {round} of {rounds}, {} busy processes beside it", busy * cores());
        }
        let checks = if round == 1 && filters.is_empty() { checks()? } else { Vec::new() };
        let finished = run_round(&suites, checks);
        finished.iter().try_for_each(|report| failures.add(round, report))?;
        print_slowest(&finished);
        reports.extend(finished);
    }
    if rounds > 1 {
        print!("\n{failures}");
    }
    Ok(reports)
}

/// Runs all suites once.
///
/// Suites, which mostly wait, start first; checks, which need nothing but the processor, use what the last suites leave. Tests that
/// need a quiet machine come last.
fn run_round(suites: &Suites, checks: Vec<Job>) -> Vec<Report> {
    println!("\n== tests, lints and documentation");
    let jobs = suites.together().into_iter().chain(checks).collect();
    let mut reports = jobs::run(Queue { jobs, at_once: cores() + 1 });
    println!("\n== tests that need a quiet machine");
    reports.extend(jobs::run(Queue { jobs: suites.alone(), at_once: 1 }));
    reports
}

/// Ends the run at once: nothing that is still being built could be tested.
fn stop(error: &str) {
    eprintln!("xtask: {error}");
    std::process::exit(1);
}

/// Returns where the output of suites that failed is kept.
fn failures_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| workspace().join("target")).join("test-failures")
}

/// Checks that need cargo, which has one of them wait while another uses the target folder, and the dashboard's.
fn checks() -> Result<Vec<Job>, String> {
    let mut documentation = cargo();
    documentation.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    let mut documentation_tests = cargo();
    documentation_tests.args(["test", "--workspace", "--no-fail-fast", "--doc"]);
    let mut lints = cargo();
    lints.args(LINTS);
    let mut checks = vec![
        Job::new("lints", lints),
        Job::new("documentation", documentation),
        Job::new("documentation tests", documentation_tests),
    ];
    checks.extend(steps::dashboard_jobs()?);
    Ok(checks)
}

fn print_slowest(reports: &[Report]) {
    let mut tests: Vec<&(String, Duration)> = reports.iter().flat_map(|report| &report.tests).collect();
    tests.sort_by_key(|(_, took)| Reverse(*took));
    println!("\nThe slowest tests:");
    for (name, took) in tests.iter().take(10) {
        println!("{:>7.1} s  {name}", took.as_secs_f64());
    }
    let sum: Duration = reports.iter().map(|report| report.took).sum();
    println!("{:>7.1} s  all suites and checks together", sum.as_secs_f64());
}
