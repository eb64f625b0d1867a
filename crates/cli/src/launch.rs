//! What all that serve have in common: how they are put together, started and ended.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{RedisStore, ServerReport};
use tidegate_rules::EXAMPLE;
use tidegate_server::{
    Config, DataPlane, RulesFeed, RunError, SharedStore, StartError, StoreReport, StoreReporter, UserTiers,
};
use tidegate_sources::PostgresTiers;

use crate::failure::{Failure, Outcome};
use crate::rules;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::store::Store;
use crate::telemetry::Telemetry;

/// What the built-in rules are called in messages.
const EXAMPLE_NAME: &str = "built-in rules";

/// Threads of the control plane: one goes on while the other is busy.
const CONTROL_THREADS: usize = 2;

/// Runs something that serves to its end.
pub(crate) fn run(settings: &Settings, serve: impl AsyncFnOnce(&Telemetry) -> Outcome) -> Outcome {
    let mut control = tokio::runtime::Builder::new_multi_thread();
    let runtime = control.worker_threads(CONTROL_THREADS).thread_name("control").enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(async {
        let telemetry = Telemetry::start(settings)?;
        settings.threads.warn_if_too_many();
        settings.secret_files.warn();
        // Ends with the runtime.
        tokio::spawn(settings.threads.watch());
        let outcome = serve(&telemetry).await;
        telemetry.end().await;
        outcome
    });
    // Whatever still runs has been waited for as long as was allowed.
    runtime.shutdown_background();
    outcome
}

/// Listens for being told to end.
pub(crate) fn signals() -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| Failure::Failed(format!("cannot listen for signals: {error}")))
}

/// How long a node that does not start without its store waits for it.
const REQUIRED_WITHIN: Duration = Duration::from_secs(10);

/// How long it takes at most to tell people where everything is, because it is not known yet whether the store is there.
const LOOKED_FOR: Duration = Duration::from_secs(1);

/// What a node is made of.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) rules: RulesFeed,
    /// The store that nodes share, if there is one.
    pub(crate) store: Option<Arc<RedisStore>>,
}

impl Parts {
    pub(crate) async fn new(settings: &Settings, telemetry: &Telemetry) -> Result<Self, Failure> {
        let rules = match &settings.rules {
            None => RulesFeed::fixed(EXAMPLE_NAME, EXAMPLE),
            Some(source) => source.feed(settings.rules_primary.as_ref()),
        };
        let tiers = settings.tiers.clone().map(PostgresTiers::new);
        let data_plane = DataPlane::start(settings.threads.count);
        let data_plane =
            data_plane.map_err(|error| Failure::Failed(format!("cannot start threads: {error}")))?;
        let store = shared_store(settings, &data_plane)?;
        // Before others count on this node.
        if let Some(store) = store.as_ref().filter(|_| settings.require_store) {
            require(store).await?;
        }
        let cluster = match &settings.together {
            Some(together) => Some(together.join().await?),
            None => None,
        };
        let shared = |store: &Arc<RedisStore>| {
            SharedStore::new("redis", Arc::clone(store) as _).reporting(reporter(store))
        };
        let config = Config {
            store: store.as_ref().map(shared),
            data_plane: Some(data_plane),
            cluster,
            tiers: tiers.map(|tiers| UserTiers::postgres(tiers, settings.tier_options)),
            traces: telemetry.traces.clone(),
            log: Some(telemetry.log.clone()),
            ..settings.config.clone()
        };
        Ok(Self { config, rules, store })
    }
}

/// Waits for the end of what is served, which a first signal asks for and a second does not wait for. Meanwhile `announced` is
/// done.
pub(crate) async fn until_told(
    signals: &Signals,
    serving: impl Future<Output = Result<(), RunError>>,
    announced: impl Future<Output = ()>,
) -> Outcome {
    let announced = async {
        announced.await;
        std::future::pending().await
    };
    tokio::select! {
        never = announced => never,
        ended = serving => {
            ended.map_err(|error| Failure::Failed(error.to_string()))?;
            Ok(ExitCode::SUCCESS)
        }
        () = signals.told(2) => Err(Failure::Failed("told to end twice; requests in flight are lost".to_owned())),
    }
}

/// Writes to people on standard output.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut out = anstream::stdout().lock();
    let written = write(&mut out).and_then(|()| out.flush());
    // Nobody may be there to read it, and yet somebody wants to be served.
    if let Err(error) = written {
        tracing::warn!(%error, "standard output cannot be written");
    }
}

/// The store that nodes share, if there is one. It is connected to as soon as it can be.
fn shared_store(settings: &Settings, data_plane: &DataPlane) -> Result<Option<Arc<RedisStore>>, Failure> {
    let Store::Redis(url) = &settings.store else { return Ok(None) };
    let mut store = RedisStore::builder((**url).clone())
        .timeout(settings.config.store_timeout)
        .event_loops(data_plane.event_loops())
        .breaker(settings.breaker.settings());
    if let Some(together) = &settings.together {
        store = store.offer_secret(together.secret().bytes());
    }
    let store =
        store.start().map_err(|problem| Failure::Failed(format!("cannot use the store: {problem}")))?;
    if settings.nodes_unsaid {
        tracing::warn!(
            "this node knows of no others: when the store is away, it hands out whole limits; if others share the store, say \
             where they are (--cluster) or how many (--nodes)"
        );
    }
    Ok(Some(Arc::new(store)))
}

/// Waits for a store without which the node is not to start.
async fn require(store: &RedisStore) -> Result<(), Failure> {
    store.ready_within(REQUIRED_WITHIN).await.map_err(|problem| {
        Failure::Failed(format!(
            "the store cannot be used, and --require-store says not to start without it: {problem}"
        ))
    })
}

/// Waits a moment for the store, and returns why it cannot be used yet, if it cannot.
pub(crate) async fn problem_of(store: Option<&RedisStore>) -> Option<String> {
    let problem = store?.ready_within(LOOKED_FOR).await.err()?;
    Some(problem.to_string())
}

/// Tells how busy the servers of a store are.
fn reporter(store: &Arc<RedisStore>) -> StoreReporter {
    let store = Arc::clone(store);
    StoreReporter::new(move || {
        let store = Arc::clone(&store);
        Box::pin(async move {
            let servers = store.inspect().await.into_iter();
            servers.filter_map(|(name, said)| Some((name, load(&said.ok()?)))).collect()
        })
    })
}

fn load(said: &ServerReport) -> StoreReport {
    let of = |used: u64, most: u64| (most > 0).then_some((used, most));
    StoreReport {
        cpu_time: Some(said.cpu_time),
        memory: Some(said.used_memory),
        max_memory: (said.max_memory > 0).then_some(said.max_memory),
        connections: of(said.clients, said.max_clients),
        // Replicas report every second, in whole seconds: up to one of them says nothing.
        replication_lag: said.replicas.iter().max().map(|lag| Duration::from_secs(lag.saturating_sub(1))),
    }
}

/// Why the server does not start, with the options that help.
pub(crate) fn explain(error: &StartError) -> Failure {
    match error {
        StartError::Rules(problems) => rules::unusable(problems),
        StartError::Unprotected { listener, .. } => {
            let named = if *listener == "admin" { "--admin-tokens FILE, " } else { "" };
            Failure::Usage(format!(
                "{error}\nUse {named}--token-file FILE, --allow-networks 10.0.0.0/8, or --{listener} 127.0.0.1:PORT."
            ))
        }
        StartError::AdminLocal => Failure::Usage(format!(
            "{error}\nUse --admin-tokens FILE, --token-file FILE, or --admin-local allow."
        )),
        StartError::AdminTokens(_) => Failure::Failed(error.to_string()),
        StartError::Token | StartError::Tls(_) => Failure::Usage(error.to_string()),
        StartError::Bind { listener, .. } => {
            Failure::Failed(format!("{error}\nUse --{listener} ADDRESS, or end what listens there."))
        }
        StartError::Source(_) | StartError::Limiter(_) | StartError::Reflection(_) => {
            Failure::Failed(error.to_string())
        }
    }
}
