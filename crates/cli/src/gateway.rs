//! `tidegate gateway`: a reverse proxy with the limiter inside.

use std::io::{self, Write};

use clap::ArgMatches;
use tidegate_core::RuleSet;
use tidegate_gateway::{Gateway, GatewayAddresses, GatewayError, Routes};

use crate::banner;
use crate::failure::{Failure, Outcome};
use crate::launch::{self, Parts, explain};
use crate::options::{GatewayArgs, LogFormat};
use crate::settings::GatewaySettings;
use crate::telemetry::Telemetry;
use crate::terminal::{FAINT, STRONG, count, safe};

/// The most groups of back ends that are named.
const NAMED: usize = 4;

/// Forwards until told to end; `given` is what the command line and the environment say.
pub(crate) fn run(args: &GatewayArgs, given: &ArgMatches) -> Outcome {
    let settings = GatewaySettings::new(args, given)?;
    launch::run(&settings.node, async |telemetry| Box::pin(serve(&settings, telemetry)).await)
}

async fn serve(settings: &GatewaySettings, telemetry: &Telemetry) -> Outcome {
    let signals = launch::signals()?;
    let routes = settings.to.feed()?;
    let Parts { config, rules, store } = Parts::new(&settings.node, telemetry).await?;
    let bound = Gateway::bind(settings.gateway.clone(), config, rules, routes).await;
    let gateway = bound.map_err(|error| match &error {
        GatewayError::Start(error) => explain(error),
        GatewayError::Tls(_) => Failure::Usage(error.to_string()),
        GatewayError::Routes(_) | GatewayError::Identity(_) | GatewayError::AccessLog(_) => {
            Failure::Failed(error.to_string())
        }
    })?;
    let (at, rules, routes) = (gateway.addresses(), gateway.rules(), gateway.routes().load_full());
    let announced = async {
        let store = banner::store(&settings.node, launch::problem_of(store.as_deref()).await.as_deref());
        announce(at, settings, &rules, &routes, &store);
    };
    Box::pin(launch::until_told(&signals, gateway.run(signals.told(1)), announced)).await
}

/// Says where everything is: to people on standard output, to programs in the log.
fn announce(at: GatewayAddresses, settings: &GatewaySettings, rules: &RuleSet, routes: &Routes, store: &str) {
    let curl = curl(at, settings);
    match settings.node.log {
        LogFormat::Human => launch::print(|out| {
            write(out, at, settings, routes)?;
            writeln!(out, "  rules   {}", safe(&banner::describe(&settings.node, rules)))?;
            writeln!(out, "  store   {}", safe(store))?;
            writeln!(out, "\nTry it:\n  {}\n", safe(&curl))
        }),
        LogFormat::Json => {
            let (routes, rules) = (routes.routes().len(), rules.len());
            tracing::info!(gateway = %at.listen, admin = %at.admin, rules, routes, store, curl, "listening");
        }
    }
}

/// Says where it listens.
fn write(
    out: &mut dyn Write,
    at: GatewayAddresses,
    settings: &GatewaySettings,
    routes: &Routes,
) -> io::Result<()> {
    writeln!(out, "{STRONG}Tidegate {}{STRONG:#}", env!("CARGO_PKG_VERSION"))?;
    let lines = [
        ("listen", url(at, settings), describe(routes)),
        ("admin", format!("http://{}", at.admin), "the dashboard, /health, /metrics, /v1/rules".to_owned()),
    ];
    let width = lines.iter().map(|(_, place, _)| place.len()).max().unwrap_or_default();
    for (name, place, what) in lines {
        writeln!(out, "  {name:<6}  {STRONG}{place:<width$}{STRONG:#}  {FAINT}{}{FAINT:#}", safe(&what))?;
    }
    Ok(())
}

fn url(at: GatewayAddresses, settings: &GatewaySettings) -> String {
    let scheme = if settings.gateway.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}", at.listen)
}

/// Where requests go.
fn describe(routes: &Routes) -> String {
    let groups = routes.groups();
    let servers = |group: &tidegate_gateway::upstream::Group| {
        let urls: Vec<String> = group.members().iter().map(|server| server.origin().to_string()).collect();
        urls.join(", ")
    };
    let mut shown: Vec<String> = groups.iter().take(NAMED).map(|group| servers(group)).collect();
    if groups.len() > NAMED {
        shown.push("\u{2026}".to_owned());
    }
    format!("{} to {}", count(routes.routes().len() as u64, "route"), shown.join(" | "))
}

/// A command that works when it is pasted.
fn curl(at: GatewayAddresses, settings: &GatewaySettings) -> String {
    let to = GatewayAddresses { listen: banner::reachable(at.listen), ..at };
    let insecure = if settings.gateway.tls.is_some() { " --insecure" } else { "" };
    // The built-in rules are about something; others may be about anything.
    let (path, who) = match settings.node.rules {
        None => ("orders/7", " -H 'X-User-Id: alice'"),
        Some(_) => ("", ""),
    };
    format!("curl -si{insecure}{who} {}/{path}", url(to, settings))
}
