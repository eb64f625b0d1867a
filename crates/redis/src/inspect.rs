//! A look at the servers, for people: who they are, how far away, how full.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tidegate_store::Failure;
use tidegate_store::deadline::within;

use crate::connect::CONNECT_LIMIT;
use crate::problem::Problem;
use crate::shard::Shard;
use crate::store::RedisStore;

/// How often the round trip is measured.
const PINGS: usize = 10;

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerReport {
    /// Where it is.
    pub address: String,
    /// `redis` or `valkey`, and the version.
    pub version: String,
    /// The shortest and the longest of a few round trips.
    pub round_trip: (Duration, Duration),
    /// How many keys it has, ours or not.
    pub keys: u64,
    /// What it uses of its memory, in bytes.
    pub used_memory: u64,
    /// What it may use, in bytes; 0 is no limit of its own.
    pub max_memory: u64,
    /// What it does when that is used up; anything but `noeviction` may forget counters.
    pub eviction_policy: String,
    /// Its connections.
    pub clients: u64,
    /// How many it may have; 0 if it does not say.
    pub max_clients: u64,
    /// The time that it has used processors for since it started.
    pub cpu_time: Duration,
    /// Its replicas, and by how many seconds each lags behind.
    pub replicas: Vec<u64>,
    /// Whether it writes to disk: `none`, `snapshots`, `append-only file` or both.
    pub persistence: String,
    /// How long it has been running.
    pub uptime: Duration,
}

impl RedisStore {
    /// Asks every master about itself.
    pub fn inspect(&self) -> BoxFuture<'_, Vec<(String, Result<ServerReport, Problem>)>> {
        Box::pin(self.inspect_each())
    }

    async fn inspect_each(&self) -> Vec<(String, Result<ServerReport, Problem>)> {
        let mut reports = Vec::new();
        for shard in self.servers.shards() {
            reports.push((shard.name().to_owned(), inspect(&shard).await));
        }
        if reports.is_empty()
            && let Some(problem) = self.problem()
        {
            reports.push((self.url().to_string(), Err(problem)));
        }
        reports
    }
}

async fn inspect(shard: &Shard) -> Result<ServerReport, Problem> {
    let mut connection = shard.connection()?;
    let address = shard.address().map_or_else(|| shard.name().to_owned(), |address| address.to_string());
    let asked = async {
        let mut trips = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let start = Instant::now();
            redis::cmd("PING").query_async::<()>(&mut connection).await?;
            trips.push(start.elapsed());
        }
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        let keys: u64 = redis::cmd("DBSIZE").query_async(&mut connection).await?;
        Ok((trips, info, keys))
    };
    let (trips, info, keys) = match within(CONNECT_LIMIT, asked).await {
        Ok(asked) => asked.map_err(|error| Problem::of(&error, &address))?,
        Err(_) => return Err(Problem::new(Failure::Connection, format!("{address}: it does not answer"))),
    };
    let round_trip =
        (trips.iter().min().copied().unwrap_or_default(), trips.iter().max().copied().unwrap_or_default());
    Ok(report(address, &info, keys, round_trip))
}

fn report(address: String, info: &str, keys: u64, round_trip: (Duration, Duration)) -> ServerReport {
    let fields: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let text = |name: &str| fields.get(name).copied().unwrap_or_default();
    let number = |name: &str| text(name).parse().unwrap_or(0);
    let seconds =
        |name: &str| Duration::try_from_secs_f64(text(name).parse().unwrap_or(0.0)).unwrap_or_default();
    let version = match text("valkey_version") {
        "" => format!("redis {}", text("redis_version")),
        valkey => format!("valkey {valkey}"),
    };
    let lag = |index: u64| {
        let replica = fields.get(format!("slave{index}").as_str())?;
        replica.split(',').find_map(|part| part.strip_prefix("lag="))?.parse().ok()
    };
    let snapshots = !text("rdb_last_save_time").is_empty() && number("rdb_saves") > 0;
    let persistence = match (number("aof_enabled") == 1, snapshots) {
        (true, true) => "append-only file and snapshots",
        (true, false) => "append-only file",
        (false, true) => "snapshots",
        (false, false) => "none so far",
    };
    ServerReport {
        address,
        version,
        round_trip,
        keys,
        used_memory: number("used_memory"),
        max_memory: number("maxmemory"),
        eviction_policy: text("maxmemory_policy").to_owned(),
        clients: number("connected_clients"),
        max_clients: number("maxclients"),
        cpu_time: seconds("used_cpu_user") + seconds("used_cpu_sys"),
        replicas: (0..number("connected_slaves")).filter_map(lag).collect(),
        persistence: persistence.to_owned(),
        uptime: Duration::from_secs(number("uptime_in_seconds")),
    }
}
