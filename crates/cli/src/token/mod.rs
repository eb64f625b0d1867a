//! `tidegate token`: named tokens for the admin listener.

mod file;

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tidegate_server::{NamedToken, Role};

use crate::failure::{Failure, Outcome};

/// More than any token has.
const MAX_INPUT_BYTES: u64 = 4096;

/// What to do about tokens.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and show it, once, with the line for the file of --admin-tokens
    #[command(after_help = NEW_EXAMPLES)]
    New(NewArgs),
    /// Print the line for a token that there is already, which is read from standard input
    #[command(after_help = HASH_EXAMPLES)]
    Hash(Owner),
}

const NEW_EXAMPLES: &str = "\
The token is printed first and kept nowhere; the line that follows has only its hash. With --append the line goes into the \
file instead, which a running server reads again by itself.

Examples:
  tidegate token new --name alice --role write
  tidegate token new --name grafana --role read --append /etc/tidegate/tokens > grafana.token
  tidegate token new --name ci --role write --json";

const HASH_EXAMPLES: &str = "\
Examples:
  tidegate token hash --name alice --role write < alice.token
  vault read -field=token secret/tidegate | tidegate token hash --name ci --role read >> tokens";

/// The arguments of `tidegate token new`.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    #[command(flatten)]
    owner: Owner,

    /// The file to add the line to; it is made if there is none
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,

    /// Print it for programs
    #[arg(long)]
    json: bool,
}

/// Whose a token is, and what it allows.
#[derive(Debug, clap::Args)]
pub(crate) struct Owner {
    /// Whose it is: what the server calls whoever sends it
    #[arg(long, value_name = "NAME")]
    name: String,

    /// What it allows: to look at everything, or also to change things
    #[arg(long, value_name = "ROLE", value_parser = role())]
    role: Role,
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(["read", "write"]).try_map(|text| text.parse::<Role>())
}

impl Owner {
    fn token(&self, secret: &str) -> Result<NamedToken, Failure> {
        NamedToken::new(&self.name, self.role, secret).map_err(|message| Failure::Usage(message.to_owned()))
    }
}

/// Does it.
pub(crate) fn run(command: &TokenCommand) -> Outcome {
    match command {
        TokenCommand::New(args) => new(args)?,
        TokenCommand::Hash(owner) => writeln!(io::stdout(), "{}", owner.token(read()?.trim())?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn new(args: &NewArgs) -> Result<(), Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::Failed(format!("the system gives no randomness: {error}")))?;
    let secret = NamedToken::secret(random);
    let token = args.owner.token(&secret)?;
    // First of all: a token that is in no file is of no use to whoever gets to see it.
    if let Some(path) = &args.append {
        file::append(path, &token)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        let (name, role) = (token.name(), token.role().to_string());
        let shown = json!({ "name": name, "role": role, "token": secret, "line": token.to_string() });
        return Ok(writeln!(out, "{shown}")?);
    }
    writeln!(out, "{secret}")?;
    match &args.append {
        Some(path) => {
            anstream::eprintln!("The token is kept nowhere else; its hash is in {}.", path.display());
        }
        None => {
            writeln!(out, "{token}")?;
            anstream::eprintln!(
                "The token is kept nowhere else; the second line is for the file of --admin-tokens."
            );
        }
    }
    Ok(())
}

/// What there is on standard input.
fn read() -> Result<String, Failure> {
    let input = io::stdin();
    if input.is_terminal() {
        anstream::eprintln!("Paste the token, press Enter, then Ctrl-D.");
    }
    let mut text = String::new();
    let read = input.lock().take(MAX_INPUT_BYTES).read_to_string(&mut text);
    read.map_err(|error| Failure::Failed(format!("cannot read the token from standard input: {error}")))?;
    Ok(text)
}
