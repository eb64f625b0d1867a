//! Deleting all that is ours.

use futures_util::future::BoxFuture;
use redis::Value;
use tidegate_store::Failure;
use tokio::time::timeout;

use crate::connect::CONNECT_LIMIT;
use crate::problem::Problem;
use crate::shard::Shard;
use crate::store::RedisStore;

/// How many keys are looked at in one step.
const STEP: u32 = 1_000;

impl RedisStore {
    /// Deletes every key that begins with the prefix, and so resets all limits. Goes through all keys of every
    /// server, a few at a time; meant for prefixes of one's own, as simulations have.
    pub fn delete_all(&self) -> BoxFuture<'_, Result<u64, Problem>> {
        Box::pin(async {
            let mut deleted = 0;
            for shard in self.servers.shards() {
                deleted += delete(&shard, &format!("{}:*", self.url().prefix)).await?;
            }
            Ok(deleted)
        })
    }
}

async fn delete(shard: &Shard, pattern: &str) -> Result<u64, Problem> {
    let mut connection = shard.connection()?;
    let (mut cursor, mut deleted) = (0_u64, 0_u64);
    loop {
        let step = async {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(STEP);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut connection).await?;
            if !keys.is_empty() {
                // One by one: keys of a Cluster may be in different slots.
                let mut unlink = redis::pipe();
                keys.iter().for_each(|key| {
                    unlink.cmd("UNLINK").arg(key);
                });
                unlink.query_async::<Vec<Value>>(&mut connection).await?;
            }
            Ok((next, keys.len() as u64))
        };
        let (next, count) = match timeout(CONNECT_LIMIT, step).await {
            Ok(step) => step.map_err(|error| Problem::of(&error, &shard.name()))?,
            Err(_) => {
                return Err(Problem::new(
                    Failure::Connection,
                    format!("{}: it does not answer", shard.name()),
                ));
            }
        };
        (cursor, deleted) = (next, deleted + count);
        if cursor == 0 {
            return Ok(deleted);
        }
    }
}
