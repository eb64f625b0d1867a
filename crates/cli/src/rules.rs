//! `tidegate rules`: rule documents, without a server.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_core::RuleSet;
use tidegate_rules::{Problem, Problems, Source, decode, json_schema};
use tidegate_sources::{Event, FileSource, RuleSource};

use crate::failure::{Failure, Outcome};
use crate::terminal::{BAD, FAINT, GOOD, count, safe, safe_lines};

/// A text and what to call it in messages.
struct NamedText {
    name: String,
    text: String,
}

/// What to do with rules.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RulesCommand {
    /// Check rule files and show everything that is wrong with them
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate(ValidateArgs),
    /// Print rule files, such as those of Envoy's rate limit service, as one file in Tidegate's own form
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(ConvertArgs),
    /// Print the JSON Schema of rule files, for editors
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

const VALIDATE_EXAMPLES: &str = "\
Each file or folder is read by itself, as `tidegate serve --rules` would read it. Exits with 1 if any has a mistake.

Examples:
  tidegate rules validate rules.yaml
  tidegate rules validate --json rules/*.yaml";

const CONVERT_EXAMPLES: &str = "\
All files are read together, as `tidegate serve --rules` would read a folder of them, which takes files of Envoy's rate \
limit service as they are. What is printed means exactly the same. Exits with 1 if there is any mistake.

Examples:
  tidegate rules convert ratelimit/config/ > rules.yaml
  tidegate rules convert messaging.yaml mongo.yaml --output rules.yaml";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  tidegate rules schema > rules.schema.json
  # then, as the first line of a rule file, for editors with a YAML language server:
  # yaml-language-server: $schema=rules.schema.json";

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

/// Does it.
pub(crate) fn run(command: &RulesCommand) -> Outcome {
    match command {
        RulesCommand::Validate(args) => validate(args),
        RulesCommand::Convert(args) => convert(args),
        RulesCommand::Schema => {
            writeln!(io::stdout(), "{:#}", json_schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The rules of a file or a folder, or why there are none.
pub(crate) fn load(path: &Path) -> Result<RuleSet, Failure> {
    read(path).map_err(|problems| unusable(&problems))
}

/// How rules that cannot be used are complained about.
pub(crate) fn unusable(problems: &Problems) -> Failure {
    Failure::Failed(format!("the rules cannot be used\n{problems}"))
}

fn read(path: &Path) -> Result<RuleSet, Problems> {
    tidegate_rules::load(&sources(&read_texts(path)?), 1)
}

fn read_texts(path: &Path) -> Result<Vec<NamedText>, Problem> {
    if let Some((scheme, _)) = path.to_str().and_then(|text| text.split_once("://"))
        && !path.exists()
    {
        // What follows the scheme may have a password in it.
        let why = "only `tidegate serve` reads rules from there; give the path of a rule file";
        return Err(Problem::whole(&format!("{scheme}://\u{2026}"), why.to_owned()));
    }
    if path.is_dir() { read_folder(path) } else { Ok(vec![read_file(path)?]) }
}

fn sources(texts: &[NamedText]) -> Vec<Source<'_>> {
    texts.iter().map(|NamedText { name, text }| Source { name, text }).collect()
}

fn read_file(path: &Path) -> Result<NamedText, Problem> {
    let name = path.display().to_string();
    let bytes =
        fs::read(path).map_err(|error| Problem::whole(&name, format!("cannot read the file: {error}")))?;
    let text = decode(&name, &bytes)?.to_owned();
    Ok(NamedText { name, text })
}

/// Which files of a folder count, and in what order, is for the source to say that serves them.
fn read_folder(path: &Path) -> Result<Vec<NamedText>, Problem> {
    let failed = |why: String| Problem::whole(&path.display().to_string(), why);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(format!("cannot start: {error}")))?;
    match runtime.block_on(FileSource::new(path).next()) {
        Event::Loaded(snapshot) => {
            let documents = snapshot.documents.into_iter();
            documents
                .map(|document| Ok(NamedText { name: document.name, text: document.text.map_err(failed)? }))
                .collect()
        }
        Event::Failed(why) => Err(failed(why)),
    }
}

fn validate(args: &ValidateArgs) -> Outcome {
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

fn complain(out: &mut impl Write, problems: &Problems) -> io::Result<()> {
    for line in safe_lines(&problems.to_string()).lines() {
        let quoted = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).starts_with("| ");
        let style = if quoted { FAINT } else { BAD };
        writeln!(out, "{style}{line}{style:#}")?;
    }
    Ok(())
}

fn convert(args: &ConvertArgs) -> Outcome {
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
