//! The command line of Tidegate.
//!
//! A library, because cargo compiles a library beside the crates that it depends on, and a binary only after them.

mod args;
mod banner;
mod check;
mod client;
mod cluster;
mod completions;
mod config_file;
mod decision;
mod explain;
mod failure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod launch;
mod login;
mod options;
mod request;
mod rules;
mod runtime;
mod sample;
mod serve;
mod servers;
mod settings;
mod signals;
mod simulate;
mod source;
mod store;
mod suggest;
mod table;
mod telemetry;
mod terminal;
mod tiers;
mod token;
mod top;

use std::process::ExitCode;

use args::Command;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let (command, given) = args::parse();
    let outcome = match command {
        Command::Serve(args) => serve::run(&args, &given),
        Command::Gateway(args) => gateway::run(&args, &given),
        Command::Check(args) => check::run(&args, &given),
        Command::Explain(args) => explain::run(&args),
        Command::Rules(command) => rules::run(&command),
        Command::Tiers(command) => tiers::run_tiers(&command),
        Command::Plans(command) => tiers::run_plans(&command),
        Command::Simulate(args) => simulate::run(&args),
        Command::Store(command) => servers::run(&command),
        Command::Token(command) => token::run(&command),
        Command::Cluster(command) => cluster::run(&command),
        Command::Top(args) => top::run(&args),
        Command::Completions(args) => completions::run(&args),
    };
    outcome.unwrap_or_else(failure::Failure::report)
}
