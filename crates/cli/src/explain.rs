//! `tidegate explain`: which rules apply to a request and where they stand, without counting it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hyper::StatusCode;
use tidegate::Limiter;
use tidegate_core::Mode;
use tidegate_wire::{CheckBody, ExplanationBody};

use crate::client::{Address, Answer, Connect};
use crate::decision::{self, Decision};
use crate::failure::{Failure, Outcome};
use crate::request::RequestArgs;
use crate::rules;
use crate::terminal::{BAD, GOOD};

/// The arguments of `tidegate explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// Ask these rules, with nothing counted yet, instead of a server
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    rules: Option<PathBuf>,

    /// Print the explanation as JSON
    #[arg(long)]
    json: bool,

    /// The server's admin listener
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8082", help_heading = "Server")]
    admin: Address,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    request: RequestArgs,
}

/// Asks a server, or a file.
pub(crate) fn run(args: &ExplainArgs) -> Outcome {
    let body = args.request.body();
    let answer = match &args.rules {
        Some(path) => explain(path, &body)?,
        None => args.connect.post(&args.admin, "/v1/explain", body, "--admin")?,
    };
    decision::show(&answer, args.json, write)?;
    Ok(ExitCode::SUCCESS)
}

/// What a server that has just been started with the rules of a file would answer.
fn explain(rules: &Path, body: &[u8]) -> Result<Answer, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("cannot explain: {error}"));
    let limiter = Limiter::new(rules::load(rules)?).map_err(|error| failed(&error))?;
    let check = CheckBody::parse(body).map_err(|error| Failure::Usage(error.message))?;
    let request = check.request();
    let usage = |error: tidegate::RequestError| Failure::Usage(error.to_string());
    let checked = limiter.try_explain(&request).map_err(usage)?;
    let identities = limiter.identities(&checked, &request).map_err(usage)?;
    let explanation = ExplanationBody::explain(&checked, checked.rules(), Mode::Normal, identities);
    let body = serde_json::to_vec(&explanation).map_err(|error| failed(&error))?;
    Ok(Answer { status: StatusCode::OK, body: body.into() })
}

fn write(out: &mut dyn Write, decision: &Decision) -> io::Result<()> {
    let (style, word) = if decision.allowed { (GOOD, "allowed") } else { (BAD, "refused") };
    write!(out, "would be {style}{word}{style:#}")?;
    decision.write_reason(out)?;
    if !decision.rules.is_empty() {
        writeln!(out)?;
        decision.explained().write(out)?;
    }
    Ok(())
}
