//! `cargo xtask sim`: builds the simulator with optimisations and hands it the options.

use crate::steps::{self, cargo};

const HELP: &str = "\
Runs the failover protocol under random faults in virtual time. Each seed draws a fleet, its features and its faults; the
first violation of an invariant is printed as the sequence of events that leads to it.

Usage: cargo xtask sim [OPTIONS]

Options:
  --seeds N     seeds to run, from 0 on [default: 2000]
  --minutes M   runs seeds for M minutes instead
  --seed S      runs one seed; if it fails, leaves out the faults that it does not need to fail
  --trace       prints everything that happens in that seed
  --mistakes    plants every known mistake in turn and says which seed finds it

Examples:
  cargo xtask sim --seeds 200000
  cargo xtask sim --minutes 30
  cargo xtask sim --seed 1120 --trace
  cargo xtask sim --mistakes --seeds 10000
";

/// Runs the simulator.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    if options.iter().any(|option| ["help", "--help", "-h"].contains(option)) {
        print!("{HELP}");
        return Ok(());
    }
    run_command(options).map_err(|error| format!("{error}\n\n`cargo xtask sim --help` explains the options"))
}

fn run_command(options: &[&str]) -> Result<(), String> {
    let arguments = ["run", "--quiet", "--release", "--package", "tidegate-sim", "--"];
    steps::run(cargo().args(arguments).args(options))
}
