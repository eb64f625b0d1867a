//! `tidegate tiers` and `tidegate plans`: who has which tier or plan, in the database that nodes look them up in.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};

use crate::client::{Address, Connect};
use crate::failure::{Failure, Outcome};
use crate::terminal::safe;

/// What to do with users' tiers.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TiersCommand {
    /// Show the tier of a user
    #[command(after_help = GET_TIER)]
    Get(UserArgs),
    /// Set the tier of a user; in force on all nodes within a second
    #[command(after_help = SET_TIER)]
    Set {
        #[command(flatten)]
        user: UserArgs,

        /// A tier or plan of the rules in force
        #[arg(value_name = "TIER")]
        tier: String,
    },
    /// Remove the tier of a user, who then has that of the tenant, or the default
    #[command(after_help = REMOVE_TIER)]
    Remove(UserArgs),
}

/// What to do with tenants' plans.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PlansCommand {
    /// Show the plan of a tenant
    #[command(after_help = GET_PLAN)]
    Get(TenantArgs),
    /// Set the plan of a tenant; in force on all nodes within a second
    #[command(after_help = SET_PLAN)]
    Set {
        #[command(flatten)]
        tenant: TenantArgs,

        /// A plan or tier of the rules in force
        #[arg(value_name = "PLAN")]
        plan: String,
    },
    /// Remove the plan of a tenant, which then has the default
    #[command(after_help = REMOVE_PLAN)]
    Remove(TenantArgs),
}

const GET_TIER: &str = "\
Examples:
  tidegate tiers get alice
  tidegate tiers get alice --tenant acme --json | jq -r .tier";

const SET_TIER: &str = "\
Examples:
  tidegate tiers set alice premium
  tidegate tiers set alice free --tenant acme          only for the alice of acme";

const REMOVE_TIER: &str = "\
Examples:
  tidegate tiers remove alice
  TIDEGATE_TOKEN=$(cat writer.token) tidegate tiers remove alice --admin http://10.0.0.7:8082";

const GET_PLAN: &str = "\
Examples:
  tidegate plans get acme --json | jq -r .plan";

const SET_PLAN: &str = "\
Examples:
  tidegate plans set acme PREMIUM
  TIDEGATE_TOKEN=$(cat writer.token) tidegate plans set acme PREMIUM --admin http://10.0.0.7:8082";

const REMOVE_PLAN: &str = "\
Examples:
  tidegate plans remove acme";

pub(crate) const TIERS_EXAMPLES: &str = "\
The tiers are those in the database of `serve --tiers`. Listed users (`users` in rule documents) come before it.

Examples:
  tidegate tiers set alice premium
  tidegate tiers set alice free --tenant acme          only for the alice of acme
  tidegate tiers get alice --json | jq -r .tier
  TIDEGATE_TOKEN=$(cat writer.token) tidegate tiers remove alice --admin http://10.0.0.7:8082";

pub(crate) const PLANS_EXAMPLES: &str = "\
The plans are those in the database of `serve --tiers`. Listed tenants (`tenants` in rule documents) come before it.

Examples:
  tidegate plans set acme PREMIUM
  tidegate plans get acme --json | jq -r .plan
  TIDEGATE_TOKEN=$(cat writer.token) tidegate plans remove acme --admin http://10.0.0.7:8082";

/// A user, and the server to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct UserArgs {
    /// The user, as requests name it
    #[arg(value_name = "USER")]
    user: String,

    /// The tenant within which the tier is meant [default: all tenants]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

/// A tenant, and the server to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct TenantArgs {
    /// The tenant, as requests name it
    #[arg(value_name = "TENANT")]
    tenant: String,

    #[command(flatten)]
    server: ServerArgs,
}

/// The server to ask.
#[derive(Debug, clap::Args)]
struct ServerArgs {
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,

    /// The node's admin listener
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8082", help_heading = "Server")]
    admin: Address,

    #[command(flatten)]
    connect: Connect,
}

/// Runs `tidegate tiers`.
pub(crate) fn run_tiers(command: &TiersCommand) -> Outcome {
    let (args, method, body) = match command {
        TiersCommand::Get(user) => (user, Method::GET, None),
        TiersCommand::Set { user, tier } => (user, Method::PUT, Some(json!({"tier": tier}))),
        TiersCommand::Remove(user) => (user, Method::DELETE, None),
    };
    let mut path = format!("/v1/users/{}/tier", encoded(&args.user));
    if let Some(tenant) = &args.tenant {
        path += &format!("?tenant={}", encoded(tenant));
    }
    let who = match &args.tenant {
        Some(tenant) => format!("{}/{}", safe(tenant), safe(&args.user)),
        None => safe(&args.user).to_string(),
    };
    args.server.ask(method, &path, body, |answer| describe(&who, "tier", answer))
}

/// Runs `tidegate plans`.
pub(crate) fn run_plans(command: &PlansCommand) -> Outcome {
    let (args, method, body) = match command {
        PlansCommand::Get(tenant) => (tenant, Method::GET, None),
        PlansCommand::Set { tenant, plan } => (tenant, Method::PUT, Some(json!({"plan": plan}))),
        PlansCommand::Remove(tenant) => (tenant, Method::DELETE, None),
    };
    let path = format!("/v1/tenants/{}/plan", encoded(&args.tenant));
    let who = safe(&args.tenant).to_string();
    args.server.ask(method, &path, body, |answer| describe(&who, "plan", answer))
}

impl ServerArgs {
    fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        describe: impl FnOnce(&Value) -> String,
    ) -> Outcome {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let answer = self.connect.call(method, (&self.admin, path), body, "--admin")?;
        let text = String::from_utf8_lossy(&answer.body);
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if !answer.status.is_success() {
            let message = told["message"].as_str().unwrap_or(&text);
            return Err(Failure::Failed(format!("{} answers: {}", self.admin, safe(message))));
        }
        let mut out = io::stdout();
        if self.json {
            writeln!(out, "{text}")?;
        } else {
            writeln!(out, "{}", describe(&told))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Describes an answer in a line, such as `alice: premium (before: free)`.
fn describe(who: &str, field: &str, answer: &Value) -> String {
    let name = |field: &str| answer[field].as_str().map(|name| safe(name).to_string());
    let present = name(field).unwrap_or_else(|| format!("no {field}"));
    match name("previous") {
        Some(previous) if previous != present => format!("{who}: {present} (before: {previous})"),
        _ => format!("{who}: {present}"),
    }
}

/// Encodes a name as one segment of a path, or one value of a query.
fn encoded(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(char::from(byte)),
            // `.` too: a segment of dots would be resolved on the way.
            byte => drop(write!(text, "%{byte:02X}")),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way() {
        assert_eq!(encoded("alice-1_~"), "alice-1_~");
        assert_eq!(encoded("a/b ?&\u{e9}.."), "a%2Fb%20%3F%26%C3%A9%2E%2E");
    }

    #[test]
    fn an_answer_in_a_line() {
        let line = |answer: Value| describe("alice", "tier", &answer);
        assert_eq!(line(json!({"tier": "gold", "previous": null})), "alice: gold");
        assert_eq!(line(json!({"tier": "gold", "previous": "free"})), "alice: gold (before: free)");
        assert_eq!(line(json!({"tier": null, "previous": "free"})), "alice: no tier (before: free)");
        assert_eq!(line(json!({"tier": null})), "alice: no tier");
    }
}
