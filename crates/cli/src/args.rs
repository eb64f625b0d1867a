//! What can be asked for on the command line.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::check::CheckArgs;
use crate::cluster::ClusterCommand;
use crate::completions::CompletionsArgs;
use crate::explain::ExplainArgs;
use crate::login::hide_logins;
use crate::options::{GatewayArgs, ServeArgs};
use crate::rules::RulesCommand;
use crate::servers::StoreCommand;
use crate::simulate::SimulateArgs;
use crate::tiers::{PLANS_EXAMPLES, PlansCommand, TIERS_EXAMPLES, TiersCommand};
use crate::token::TokenCommand;
use crate::top::TopArgs;

/// An exact, fast rate limiter: rules, tiers, four algorithms
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One thing to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run the decision service
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Run a reverse proxy that forwards what rules allow
    #[command(after_help = GATEWAY_EXAMPLES)]
    Gateway(Box<GatewayArgs>),
    /// Ask a running server whether a request may go ahead; if it may, it has been counted
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Box<CheckArgs>),
    /// Show which rules apply to a request and where they stand; counts nothing
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArgs>),
    /// Watch a running server: rates, latency, modes, hot keys, as they change
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Look at rules and change them; check and convert rule files
    #[command(subcommand, after_help = RULES_EXAMPLES)]
    Rules(Box<RulesCommand>),
    /// Look at users' tiers and change them
    #[command(subcommand, after_help = TIERS_EXAMPLES)]
    Tiers(TiersCommand),
    /// Look at tenants' plans and change them
    #[command(subcommand, after_help = PLANS_EXAMPLES)]
    Plans(PlansCommand),
    /// Replay recorded traffic against rules, before they go live
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Look at the servers that hold shared counters
    #[command(subcommand, after_help = STORE_EXAMPLES)]
    Store(StoreCommand),
    /// Look at the nodes that know each other
    #[command(subcommand, after_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterCommand),
    /// Make tokens for those who may ask the admin listener
    #[command(subcommand, after_help = TOKEN_EXAMPLES)]
    Token(TokenCommand),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
}

const EXAMPLES: &str = "\
Examples:
  tidegate serve                                       try it with example rules
  tidegate serve --rules rules.yaml                    with your own; changes take effect at once
  tidegate gateway --upstream http://127.0.0.1:9000    forward to a back end what rules allow
  tidegate check --user alice --method GET /orders/7   ask the running server
  tidegate top                                         watch it
  tidegate simulate --rules rules.yaml access.log      see whom rules would refuse";

const CLUSTER_EXAMPLES: &str = "\
Nodes that share a store and are told of each other with `serve --cluster` let one of them count each key when the store is away, \
so that many nodes never hand out more than one limit.

Examples:
  tidegate serve --store redis://10.0.0.1:6379 --cluster 10.0.0.7:8083 --peers 10.0.0.8:8083 --cluster-secret secret
  tidegate cluster members                             who is there, as the node on this machine sees it";

const SERVE_EXAMPLES: &str = "\
Without any option it keeps counters in memory, applies a few example rules, and listens on this machine only. \
SIGTERM and SIGINT end it once the requests in flight are answered; a second one ends it at once.

Every option can also be set in the environment and in the file given with --config, where --max-keys is \
TIDEGATE_MAX_KEYS and max_keys. The command line counts first, then the environment, then the file.

Examples:
  tidegate serve
  tidegate serve --rules rules.yaml --max-keys 5000000
  tidegate serve --rules etcd://127.0.0.1:2379/tidegate
  tidegate serve --rules zookeeper://127.0.0.1:2181/config/ratelimit/rules
  tidegate serve --rules rules.yaml --store redis://127.0.0.1:6379   (one limit for all nodes that do so)
  tidegate serve --http 0.0.0.0:8080 --allow-networks 10.0.0.0/8 --token-file /run/secrets/token
  tidegate serve --admin 0.0.0.0:8082 --admin-tokens /etc/tidegate/tokens   (see `tidegate token new --help`)
  TIDEGATE_LOG=json tidegate serve --config tidegate.yaml";

const GATEWAY_EXAMPLES: &str = "\
Requests are decided like those of `tidegate serve`. What is allowed is forwarded, with the rate limit headers in its answer; what is \
not is answered with 429 and never reaches a back end. Identity comes from tokens, API keys, client certificates or trusted \
proxies; whatever a client claims otherwise is removed.

Every option can also be set in the environment and in the file given with --config, where --max-body is TIDEGATE_MAX_BODY and \
max_body. The command line counts first, then the environment, then the file.

Examples:
  tidegate gateway --upstream http://127.0.0.1:9000
  tidegate gateway --upstream http://10.0.0.1:9000,http://10.0.0.2:9000 --rules rules.yaml --store redis://10.0.0.9:6379
  tidegate gateway --routes routes.yaml --rules rules.yaml --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem
  tidegate gateway --routes routes.yaml --jwks https://id.example.com/.well-known/jwks.json --tier-claim plan
  tidegate gateway --upstream http://127.0.0.1:9000 --access-log -";

const CHECK_EXAMPLES: &str = "\
Exits with 0 if the request may go ahead, with 1 if it may not or the server cannot be asked, with 2 if the question \
makes no sense. Of many requests, all have to go ahead.

Examples:
  tidegate check --user alice --method GET /orders/7
  tidegate check --ip 203.0.113.7 --method POST /auth/login && echo welcome
  tidegate check --json --tenant acme --user bob --cost 5 /api/search

As Envoy asks, about one descriptor, about two, and often:
  tidegate check --grpc --domain edge --descriptors remote_address=203.0.113.7,path=/login
  tidegate check --grpc --domain edge --descriptors path=/login --descriptors user=alice --hits 5
  tidegate check --grpc --domain edge --descriptors path=/login --repeat 1000 --rate 50/s
  tidegate check --grpc --server https://limiter:8081 --ca ca.pem --domain a --descriptors 'b=1\\,5'";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  tidegate explain --user alice --method GET /orders/7
  tidegate explain --rules rules.yaml --ip 203.0.113.7 --method POST /auth/login   (needs no server)
  tidegate explain --json --user alice /api/search";

const TOP_EXAMPLES: &str = "\
Needs 80 columns and 24 lines to show everything, shows more on larger terminals, and works over ssh. Keys: Tab and 1 to 5 for \
overview, rules, hot keys, fleet and events; p to hold, ? for help, q to end. Without a server it says so and keeps asking. \
NO_COLOR is obeyed.

Examples:
  tidegate top
  tidegate top --admin http://10.0.0.7:8082            with TIDEGATE_TOKEN in the environment
  ssh -t limiter-1 tidegate top
  tidegate top --once | mail -s limits ops@example.com";

const RULES_EXAMPLES: &str = "\
Examples:
  tidegate rules list --rules etcd://127.0.0.1:2379/tidegate
  tidegate rules apply --rules etcd://127.0.0.1:2379/tidegate rules.yaml
  tidegate rules history --rules rules.yaml orders
  tidegate rules validate rules.yaml
  tidegate rules convert ratelimit/config/ > rules.yaml
  tidegate rules schema > rules.schema.json";

const SIMULATE_EXAMPLES: &str = "\
Every request is decided at the time it was recorded, by the same engine that serves. REQUESTS are lines of JSON, with \
the fields of a check and the time as at_ms (Unix milliseconds) or at (RFC 3339), or an access log in combined format:
  {\"at_ms\":1704067200000,\"user\":\"alice\",\"method\":\"GET\",\"resource\":\"/orders/7\"}
  203.0.113.7 - alice [01/Jan/2024:00:00:00 +0000] \"GET /orders/7 HTTP/1.1\" 200 512 \"-\" \"curl\"

Examples:
  tidegate simulate --rules rules.yaml requests.jsonl
  tidegate simulate --rules rules.yaml --skip-bad-lines /var/log/nginx/access.log.2.gz
  zcat access.log.*.gz | tidegate simulate --rules rules.yaml -
  tidegate simulate --rules rules.yaml --store redis://127.0.0.1:6379 requests.jsonl
  tidegate simulate --rules rules.yaml --json requests.jsonl | jq -c 'select(.allowed | not)'";

const STORE_EXAMPLES: &str = "\
Examples:
  tidegate store ping --store redis://127.0.0.1:6379
  tidegate store stats --store redis+cluster://10.0.0.1:6379,10.0.0.2:6379
  TIDEGATE_STORE=redis://127.0.0.1:6379 tidegate store ping --json";

const TOKEN_EXAMPLES: &str = "\
Examples:
  tidegate token new --name alice --role write --append tokens
  tidegate token hash --name bob --role read < bob.token >> tokens
  tidegate serve --admin-tokens tokens                 with both, and whoever is added later";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish";

/// What was asked for, and what exactly was given with it. Ends the process with 2 if it makes no sense.
pub(crate) fn parse() -> (Command, ArgMatches) {
    let mut matches = command().try_get_matches().unwrap_or_else(|error| complain(&error));
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => (cli.command, matches.remove_subcommand().map(|(_, given)| given).unwrap_or_default()),
        Err(error) => complain(&error),
    }
}

/// Shows help, or what is wrong, and ends the process.
fn complain(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    anstream::eprint!("{}", hide_logins(&error.render().ansi().to_string()));
    std::process::exit(error.exit_code())
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn look(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{path} has no examples");
            command.get_subcommands().for_each(|sub| look(sub, &path));
        }
        look(&command(), "");
    }
}
