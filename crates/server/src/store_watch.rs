//! Noticing that a shared store fails, and that it is back.

use std::sync::Arc;
use std::time::Duration;

use tidegate::store::{Shard, Store};
use tokio::time::sleep;

use crate::alerts::Severity;
use crate::health::Concern;
use crate::live::{Breakers, Kind};
use crate::node::{MAX_REASONS, Node};

/// How often to look: what the store says of itself is at hand.
const LOOK: Duration = Duration::from_millis(100);

/// Keeps the node's health true to its store, for as long as this runs.
pub(crate) async fn watch(node: Arc<Node>) {
    let Some(store) = node.limiter.shared() else { return };
    let unwell = || node.health.condition().store_unwell_since.is_some();
    let mut breakers = Breakers::default();
    loop {
        // First of all, too: a store that has just been set up is about to connect.
        sleep(LOOK).await;
        let shards = store.shards();
        for entry in breakers.look(&shards, node.now()) {
            node.live.journal.note(entry);
        }
        let problems = problems(store, shards);
        let (was_unwell, shown) = (unwell(), problems.join("; "));
        node.note_store(problems);
        match (was_unwell, unwell()) {
            (false, true) => {
                tracing::warn!(problems = shown, "store failed; on_store_failure decides what it cannot");
                node.write_down(Kind::Store, Severity::Critical, "store failed", &shown);
            }
            (true, false) => {
                tracing::info!("store usable again");
                node.write_down(Kind::Store, Severity::Info, "store usable again", "");
            }
            _ => {}
        }
        if let Some(cluster) = &node.cluster {
            let problem = cluster.fleet().cluster().problem();
            node.note(
                Concern::Cluster,
                problem.map(|problem| format!("cluster: {problem}")).into_iter().collect(),
            );
        }
        node.limiter.tend().await;
    }
}

/// All that is wrong with a store and its parts.
fn problems(store: &dyn Store, shards: Vec<Shard>) -> Vec<String> {
    let mut problems: Vec<String> = shards.into_iter().filter_map(of_shard).collect();
    let more = problems.len().saturating_sub(MAX_REASONS);
    problems.truncate(MAX_REASONS);
    if more > 0 {
        problems.push(format!("store: {more} more problems"));
    }
    // What is wrong with the whole is often what is wrong with a part.
    if let Some(problem) = store.problem().filter(|whole| !problems.iter().any(|part| part.ends_with(whole)))
    {
        problems.push(format!("store: {problem}"));
    }
    problems
}

fn of_shard(Shard { name, problem, .. }: Shard) -> Option<String> {
    let problem = problem?;
    let named = problem.starts_with(&name);
    Some(if named { format!("store: {problem}") } else { format!("store: {name}: {problem}") })
}
