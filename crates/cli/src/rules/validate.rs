//! `tidegate rules validate`: what is wrong with rule files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_core::RuleSet;
use tidegate_rules::{Problem, Problems};

use super::texts::{complain, read};
use crate::failure::Outcome;
use crate::terminal::{GOOD, count, safe};

pub(super) const EXAMPLES: &str = "\
Each file or folder is read by itself, as `tidegate serve --rules` would read it. Exits with 1 if any has a mistake.

Examples:
  tidegate rules validate rules.yaml
  tidegate rules validate --json rules/*.yaml";

/// The arguments of `tidegate rules validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    /// The files, or folders of files, to check
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print one JSON object for all files
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ValidateArgs) -> Outcome {
    let results: Vec<_> = args.files.iter().map(|path| (path.as_path(), read(path))).collect();
    let valid = results.iter().all(|(_, result)| result.is_ok());
    let mut out = anstream::stdout().lock();
    if args.json {
        writeln!(out, "{}", describe(&results))?;
    } else {
        results.iter().try_for_each(|(path, result)| show(&mut out, path, result))?;
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(out: &mut impl Write, path: &Path, result: &Result<RuleSet, Problems>) -> io::Result<()> {
    let name = path.display().to_string();
    match result {
        Ok(rules) => writeln!(out, "{GOOD}{}{GOOD:#}: {}", safe(&name), summary(rules)),
        Err(problems) => complain(out, problems),
    }
}

/// How many rules there are, and the domains that some of them are about.
fn summary(rules: &RuleSet) -> String {
    let mut said = count(rules.len() as u64, "rule");
    let domains = domains(rules);
    if !domains.is_empty() {
        let names: Vec<_> = domains.iter().map(|name| safe(name)).collect();
        said += &format!(", {}: {}", count(domains.len() as u64, "domain"), names.join(", "));
    }
    said
}

fn domains(rules: &RuleSet) -> Vec<&str> {
    let mut names: Vec<_> = rules.domains().collect();
    names.sort_unstable();
    names
}

fn describe(results: &[(&Path, Result<RuleSet, Problems>)]) -> Value {
    let problems = || results.iter().filter_map(|(_, result)| result.as_ref().err());
    let errors: Vec<&Problem> = problems().flat_map(Problems::list).collect();
    let more: usize = problems().map(Problems::more).sum();
    let files = results.iter().map(|(path, result)| {
        let rules = result.as_ref().ok();
        json!({
            "file": path.display().to_string(),
            "valid": rules.is_some(),
            "rules": rules.map(RuleSet::len),
            "domains": rules.map(domains),
        })
    });
    json!({ "valid": errors.is_empty(), "files": files.collect::<Vec<_>>(), "errors": errors, "more": more })
}
