//! `tidegate check`: asks a running server, and counts.

mod answer;
mod descriptors;
mod grpc;
mod place;
mod progress;
mod rate;
mod repeat;
mod service;
mod summary;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::str::FromStr;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::client::Connect;
use crate::decision::{self, Decision};
use crate::failure::{Failure, Outcome};
use crate::request::RequestArgs;
use crate::terminal::{BAD, GOOD};
use grpc::GrpcArgs;
use place::TlsFiles;

const HTTP_SERVER: &str = "http://127.0.0.1:8080";
const GRPC_SERVER: &str = "127.0.0.1:8081";

/// The arguments of `tidegate check`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "tidegate check [OPTIONS] <RESOURCE>\n       \
        tidegate check --grpc --domain <DOMAIN> --descriptors <ENTRIES>... [OPTIONS]",
    // Others share the description of a request and have no way to do without it.
    mut_arg("resource", |arg| arg.required(false).required_unless_present("grpc"))
)]
pub(crate) struct CheckArgs {
    /// Ask Envoy's rate limit service by --domain and --descriptors, instead of the check API about a RESOURCE
    #[arg(long, requires_all = ["domain", "descriptors"], conflicts_with = "RequestArgs")]
    grpc: bool,

    /// Print the server's answer as it is; of many requests, the summary as JSON
    #[arg(long)]
    json: bool,

    /// Where decisions are asked for [default: http://127.0.0.1:8080]; with --grpc HOST:PORT or https://HOST:PORT,
    /// whatever the environment says [default: 127.0.0.1:8081]
    #[arg(long, value_name = "URL", env = "TIDEGATE_SERVER", help_heading = "Server")]
    server: Option<String>,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    tls: TlsFiles,

    #[command(flatten)]
    request: Option<RequestArgs>,

    #[command(flatten)]
    about: Option<GrpcArgs>,
}

/// Asks, and says what the answer is; `given` is what the command line and the environment say.
pub(crate) fn run(args: &CheckArgs, given: &ArgMatches) -> Outcome {
    match (&args.request, &args.about) {
        (Some(request), None) => check(args, request),
        (None, Some(about)) => {
            // What is in the environment is where HTTP is spoken.
            let given = given.value_source("server") == Some(ValueSource::CommandLine);
            let server = args.server.as_deref().filter(|_| given).unwrap_or(GRPC_SERVER);
            grpc::run(about, &read(server)?, &args.tls, &args.connect, args.json)
        }
        _ => Err(Failure::Usage("ask either about a RESOURCE or with --grpc; see --help".to_owned())),
    }
}

/// An address, complained about as any other argument is.
fn read<T: FromStr<Err: Display>>(server: &str) -> Result<T, Failure> {
    server
        .parse()
        .map_err(|why| Failure::Usage(format!("invalid value '{server}' for '--server <URL>': {why}")))
}

fn check(args: &CheckArgs, request: &RequestArgs) -> Outcome {
    let server = read(args.server.as_deref().unwrap_or(HTTP_SERVER))?;
    let answer = args.connect.post(&server, "/v1/check", request.body(), "--server")?;
    let decision = decision::show(&answer, args.json, write)?;
    Ok(if decision.allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(out: &mut dyn Write, decision: &Decision) -> io::Result<()> {
    let (style, word) = if decision.allowed { (GOOD, "allowed") } else { (BAD, "refused") };
    write!(out, "{style}{word}{style:#}")?;
    decision.write_reason(out)?;
    if decision.rules.len() > 1 || decision.rules.iter().any(|rule| rule.shadow) {
        writeln!(out)?;
        decision.table().write(out)?;
    }
    Ok(())
}
