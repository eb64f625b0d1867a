//! `tidegate store`: a look at the servers that hold shared counters.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::Style;
use serde::Serialize;
use tidegate::redis::{Problem, RedisStore, ServerReport};
use tidegate_core::Span;

use crate::failure::{Failure, Outcome};
use crate::runtime::block_on;
use crate::store::Store;
use crate::table::{Align, Table};
use crate::terminal::{BAD, GOOD, STRONG, millis, number, safe};

/// What to find out about a store.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Show whether a store can be used, and how far away it is
    #[command(after_help = PING_EXAMPLES)]
    Ping(StoreArgs),
    /// Show how full a store is, and what it may forget
    #[command(after_help = STATS_EXAMPLES)]
    Stats(StoreArgs),
}

const PING_EXAMPLES: &str = "\
Exits with 0 if every server can be used, with 1 if not.

Examples:
  tidegate store ping --store redis://127.0.0.1:6379
  tidegate store ping --store redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster --timeout 5s";

const STATS_EXAMPLES: &str = "\
Examples:
  tidegate store stats --store redis://127.0.0.1:6379
  tidegate store stats --json --store redis+cluster://10.0.0.1:6379,10.0.0.2:6379";

/// The arguments of both.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// Which store: redis://…, redis+sentinel://… or redis+cluster://…
    #[arg(long, value_name = "URL", env = "TIDEGATE_STORE", hide_env_values = true)]
    store: Store,

    /// How long to try
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    timeout: Span,

    /// Print it for programs
    #[arg(long)]
    json: bool,
}

/// A server by name, and what it says about itself.
type Server = (String, Result<ServerReport, Problem>);

/// Says something about servers.
type Writer = fn(&mut dyn Write, &[Server]) -> io::Result<()>;

pub(crate) fn run(command: &StoreCommand) -> Outcome {
    let (args, write): (_, Writer) = match command {
        StoreCommand::Ping(args) => (args, write_ping),
        StoreCommand::Stats(args) => (args, write_stats),
    };
    let servers = ask(args)?;
    let mut out = anstream::stdout().lock();
    if args.json {
        let servers: Vec<ServerJson<'_>> = servers.iter().map(ServerJson::new).collect();
        serde_json::to_writer(&mut out, &servers).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{STRONG}{}{STRONG:#}", safe(&args.store.to_string()))?;
        write(&mut out, &servers)?;
        for (name, server) in &servers {
            if let Err(problem) = server {
                writeln!(out, "  {BAD}{}{BAD:#}  {}", safe(name), safe(&problem.text))?;
            }
        }
    }
    out.flush()?;
    let usable = servers.iter().all(|(_, server)| server.is_ok());
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits until the store can be used, and asks its servers whether or not it can.
fn ask(args: &StoreArgs) -> Result<Vec<Server>, Failure> {
    let Store::Redis(url) = &args.store else {
        let why = "counters in memory are nobody else's; give a shared store, such as redis://127.0.0.1:6379";
        return Err(Failure::Usage(why.to_owned()));
    };
    let failed = |why: &dyn std::fmt::Display| Failure::Failed(why.to_string());
    block_on(async {
        let store = RedisStore::builder((**url).clone()).start().map_err(|problem| failed(&problem))?;
        let patience = Duration::from_millis(args.timeout.as_millis());
        // In vain or not, the servers are asked: they know best what is wrong.
        tokio::time::timeout(patience, store.ready()).await.ok();
        let mut servers = store.inspect().await;
        if let Some(problem) = store.problem().filter(|_| servers.iter().all(|(_, server)| server.is_ok())) {
            servers.push((args.store.to_string(), Err(problem)));
        }
        Ok(servers)
    })?
}

fn good(servers: &[Server]) -> impl Iterator<Item = &ServerReport> {
    servers.iter().filter_map(|(_, server)| server.as_ref().ok())
}

fn write_ping(out: &mut dyn Write, servers: &[Server]) -> io::Result<()> {
    if good(servers).next().is_none() {
        return Ok(());
    }
    let columns =
        [("server", Align::Left), ("is", Align::Left), ("fastest", Align::Right), ("slowest", Align::Right)];
    let mut table = Table::new(&columns);
    for server in good(servers) {
        let (fastest, slowest) = server.round_trip;
        table.row([
            (server.address.clone(), Style::new()),
            (format!("master, {}", server.version), GOOD),
            (millis(fastest), Style::new()),
            (millis(slowest), Style::new()),
        ]);
    }
    table.write(out)
}

fn write_stats(out: &mut dyn Write, servers: &[Server]) -> io::Result<()> {
    if good(servers).next().is_none() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("server", Align::Left),
        ("is", Align::Left),
        ("keys", Align::Right),
        ("memory", Align::Right),
        ("of", Align::Right),
        ("when full", Align::Left),
        ("clients", Align::Right),
        ("replicas behind", Align::Left),
        ("on disk", Align::Left),
        ("up", Align::Right),
    ]);
    for server in good(servers) {
        let forgets = server.eviction_policy != "noeviction";
        let up = Span::from_secs(server.uptime.as_secs() / 60 * 60);
        let cells = [
            (server.address.clone(), Style::new()),
            (server.version.clone(), Style::new()),
            (number(server.keys), Style::new()),
            (bytes(server.used_memory), Style::new()),
            (
                if server.max_memory == 0 { "no limit".to_owned() } else { bytes(server.max_memory) },
                Style::new(),
            ),
            (server.eviction_policy.clone(), if forgets { BAD } else { GOOD }),
            (number(server.clients), Style::new()),
            (lags(&server.replicas), Style::new()),
            (server.persistence.clone(), Style::new()),
            (
                if server.uptime.as_secs() < 60 {
                    format!("{}s", server.uptime.as_secs())
                } else {
                    up.to_string()
                },
                Style::new(),
            ),
        ];
        table.row(cells);
    }
    table.write(out)?;
    if let Some(server) = good(servers).find(|server| server.eviction_policy != "noeviction") {
        writeln!(
            out,
            "\n{} forgets counters when it is full: set maxmemory-policy to noeviction",
            safe(&server.address)
        )?;
    }
    Ok(())
}

fn lags(replicas: &[u64]) -> String {
    if replicas.is_empty() {
        return "no replicas".to_owned();
    }
    replicas.iter().map(|lag| format!("{lag}s")).collect::<Vec<_>>().join(", ")
}

fn bytes(count: u64) -> String {
    match count {
        0..=1_048_575 => format!("{} KiB", count / 1_024),
        1_048_576..=1_073_741_823 => format!("{} MiB", count / 1_048_576),
        _ => format!("{}.{} GiB", count / 1_073_741_824, count % 1_073_741_824 * 10 / 1_073_741_824),
    }
}

/// A server, for programs.
#[derive(Serialize)]
struct ServerJson<'s> {
    server: &'s str,
    usable: bool,
    problem: Option<&'s str>,
    #[serde(flatten)]
    report: Option<ReportJson<'s>>,
}

#[derive(Serialize)]
struct ReportJson<'s> {
    address: &'s str,
    version: &'s str,
    round_trip_ms: [f64; 2],
    keys: u64,
    used_memory: u64,
    max_memory: u64,
    eviction_policy: &'s str,
    clients: u64,
    replica_lag_seconds: &'s [u64],
    persistence: &'s str,
    uptime_seconds: u64,
}

impl<'s> ServerJson<'s> {
    fn new((server, report): &'s Server) -> Self {
        let problem = report.as_ref().err().map(|problem| problem.text.as_str());
        let report = report.as_ref().ok().map(|report| ReportJson {
            address: &report.address,
            version: &report.version,
            round_trip_ms: [report.round_trip.0, report.round_trip.1]
                .map(|time| time.as_secs_f64() * 1_000.0),
            keys: report.keys,
            used_memory: report.used_memory,
            max_memory: report.max_memory,
            eviction_policy: &report.eviction_policy,
            clients: report.clients,
            replica_lag_seconds: &report.replicas,
            persistence: &report.persistence,
            uptime_seconds: report.uptime.as_secs(),
        });
        Self { server, usable: report.is_some(), problem, report }
    }
}
