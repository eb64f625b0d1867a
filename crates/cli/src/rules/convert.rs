//! `tidegate rules convert`: rule files of any kind, as one in Tidegate's own form.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_rules::Problems;

use super::texts::{complain, read_texts, sources};
use crate::failure::{Failure, Outcome};

pub(super) const EXAMPLES: &str = "\
All files are read together, as `tidegate serve --rules` would read a folder of them, which takes files of Envoy's rate \
limit service as they are. What is printed means exactly the same. Exits with 1 if there is any mistake.

Examples:
  tidegate rules convert ratelimit/config/ > rules.yaml
  tidegate rules convert messaging.yaml mongo.yaml --output rules.yaml";

/// The arguments of `tidegate rules convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    /// The files, or folders of files, to convert
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Where to write the result; printed if not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &ConvertArgs) -> Outcome {
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for path in &args.files {
        match read_texts(path) {
            Ok(read) => texts.extend(read),
            Err(problem) => problems.push(Problems::from(problem)),
        }
    }
    let converted = tidegate_rules::convert(&sources(&texts)).map_err(|found| problems.push(found));
    let Some(text) = converted.ok().filter(|_| problems.is_empty()) else {
        // Not among what is printed, which may be on its way into a file.
        let mut err = anstream::stderr().lock();
        problems.iter().try_for_each(|problems| complain(&mut err, problems))?;
        return Ok(ExitCode::FAILURE);
    };
    match &args.output {
        Some(path) => fs::write(path, text)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?,
        None => io::stdout().write_all(text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
