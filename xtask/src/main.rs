//! The one door: `cargo xtask test` does everything that must hold before a change lands.
//!
//! No dependencies, so that it builds in a moment on a fresh machine.

mod busy;
mod dashboard;
mod failures;
mod fuzz;
mod jobs;
mod npm;
mod packages;
#[cfg(test)]
mod protobuf;
mod sim;
mod steps;
mod suites;
mod test_command;
mod test_options;
mod test_output;

use std::env;
use std::process::ExitCode;

const HELP: &str = "\
The one door to this repository.

Usage: cargo xtask COMMAND

Commands:
  test [OPTIONS] [FILTER]...
          everything: installs what is missing, checks formatting, lints, tests, docs (what CI runs);
          `cargo xtask test --help` tells how to run some tests, repeatedly, or on a busy machine
  lint    formatting and clippy only
  dashboard
          the tests of the dashboard's scripts, and of its files that are from elsewhere, only
  sim [OPTIONS]
          runs the failover protocol under random faults in virtual time (`cargo xtask sim --help`)
  fuzz [--minutes M] [TARGET]...
          looks for bytes that make a reader of untrusted input fail (`cargo xtask fuzz --help`)
  bench [--profile PROFILE] [NAME]...
          benchmarks, ratio first: those named, or all; built with `dist` unless another profile is named
  screenshots
          takes the pictures of the dashboard anew (docs/screenshots); look at them before they are committed
  bless   rewrites the committed outputs (protobuf code, JSON Schema, OpenAPI, expected messages) from the code

Examples:
  cargo xtask test
  cargo xtask test --busy --repeat
  cargo xtask bench in_process
  cargo xtask bench --profile release rate_limit
  cargo xtask sim --seeds 200000
  cargo xtask fuzz --minutes 1 request_heads
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["test", arguments @ ..] => test_command::run(arguments),
        [busy::SPIN] => busy::spin(),
        ["lint"] => steps::lint(),
        [steps::VENDORED] => dashboard::check_vendored(&dashboard::folder()),
        ["dashboard"] => packages::install_missing().and_then(|()| steps::dashboard()),
        ["sim", options @ ..] => sim::run(options),
        ["fuzz", options @ ..] => fuzz::run(options),
        ["bench", names @ ..] => packages::install_missing().and_then(|()| steps::bench(names)),
        ["screenshots"] => packages::install_missing().and_then(|()| steps::screenshots()),
        ["bless"] => steps::bless(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [other, ..] => Err(format!("there is no command `{other}`\n\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
