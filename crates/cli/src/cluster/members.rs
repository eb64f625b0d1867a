//! `tidegate cluster members`: who is there.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Deserialize;

use crate::client::{Address, Connect};
use crate::failure::{Failure, Outcome};
use crate::table::{Align, Table};
use crate::terminal::{BAD, FAINT, GOOD, safe};

/// The arguments of `tidegate cluster members`.
#[derive(Debug, clap::Args)]
pub(crate) struct MembersArgs {
    /// Print what the node says as JSON
    #[arg(long)]
    json: bool,

    /// The node's admin listener
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8082", help_heading = "Server")]
    admin: Address,

    #[command(flatten)]
    connect: Connect,
}

/// What a node says, as far as it is shown.
#[derive(Debug, Deserialize)]
struct Cluster {
    name: String,
    address: String,
    has_store: bool,
    unsettled: u64,
    members: Vec<Member>,
    problem: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Member {
    name: String,
    address: String,
    state: String,
    since: String,
    has_store: bool,
    owes: bool,
}

/// Asks a node, and shows what it says.
pub(crate) fn run(args: &MembersArgs) -> Outcome {
    let answer = args.connect.get(&args.admin, "/v1/cluster", "--admin")?;
    let text = String::from_utf8_lossy(&answer.body);
    if !answer.status.is_success() {
        let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let message = told["message"].as_str().unwrap_or(&text);
        return Err(Failure::Failed(format!("{} says: {}", args.admin, safe(message))));
    }
    let mut out = anstream::stdout().lock();
    if args.json {
        writeln!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let cluster: Cluster = serde_json::from_slice(&answer.body).map_err(|error| {
        Failure::Failed(format!("{} is no Tidegate that knows of others: {error}", args.admin))
    })?;
    cluster.write(&mut out)?;
    Ok(ExitCode::SUCCESS)
}

impl Cluster {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let columns = ["NODE", "ADDRESS", "STATE", "SINCE", "STORE", "OWES"].map(|name| (name, Align::Left));
        let mut table = Table::new(&columns);
        let plain = anstyle::Style::new();
        let store = |has: bool| if has { ("yes".to_owned(), GOOD) } else { ("no".to_owned(), BAD) };
        let owes = |owes: bool| if owes { ("yes".to_owned(), BAD) } else { ("no".to_owned(), plain) };
        table.row([
            (self.name.clone(), plain),
            (self.address.clone(), plain),
            ("this node".to_owned(), GOOD),
            (String::new(), FAINT),
            store(self.has_store),
            owes(self.unsettled > 0),
        ]);
        for member in &self.members {
            let style = if member.state == "alive" { GOOD } else { BAD };
            table.row([
                (member.name.clone(), plain),
                (member.address.clone(), plain),
                (member.state.clone(), style),
                (member.since.clone(), FAINT),
                store(member.has_store),
                owes(member.owes),
            ]);
        }
        table.write(out)?;
        if let Some(problem) = &self.problem {
            writeln!(out, "\n{BAD}problem{BAD:#}: {}", safe(problem))?;
        }
        Ok(())
    }
}
