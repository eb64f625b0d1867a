//! `tidegate serve`: the decision service.

use clap::ArgMatches;
use tidegate_core::RuleSet;
use tidegate_server::{Addresses, Server};

use crate::banner;
use crate::failure::Outcome;
use crate::launch::{self, Parts, explain};
use crate::options::{LogFormat, ServeArgs};
use crate::settings::Settings;
use crate::telemetry::Telemetry;

/// Serves until told to end; `given` is what the command line and the environment say.
pub(crate) fn run(args: &ServeArgs, given: &ArgMatches) -> Outcome {
    let settings = Settings::serve(args, given)?;
    launch::run(&settings, async |telemetry| Box::pin(serve(&settings, telemetry)).await)
}

async fn serve(settings: &Settings, telemetry: &Telemetry) -> Outcome {
    let signals = launch::signals()?;
    let Parts { config, rules, store } = Parts::new(settings, telemetry).await?;
    let server = Server::bind(config, rules).await.map_err(|error| explain(&error))?;
    let (at, rules) = (server.addresses(), server.rules());
    let announced = async {
        let store = banner::store(settings, launch::problem_of(store.as_deref()).await.as_deref());
        announce(at, settings, &rules, &store);
    };
    Box::pin(launch::until_told(&signals, server.run(signals.told(1)), announced)).await
}

/// Says where everything is: to people on standard output, to programs in the log.
fn announce(at: Addresses, settings: &Settings, rules: &RuleSet, store: &str) {
    match settings.log {
        LogFormat::Human => launch::print(|out| banner::write(out, at, settings, rules, store)),
        LogFormat::Json => {
            let curl = banner::curl(at.http, settings, rules);
            tracing::info!(
                http = %at.http, grpc = %at.grpc, admin = %at.admin, rules = rules.len(), store, curl, "listening"
            );
        }
    }
}
