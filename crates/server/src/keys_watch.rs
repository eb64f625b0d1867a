//! Noticing that there are more counters than there is room for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::store::MemoryStore;
use tokio::time::sleep;

use crate::alerts::Severity;
use crate::health::Concern;
use crate::live::Kind;
use crate::node::Node;

/// Interval between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Time without an eviction after which it is over.
const CALM: Duration = Duration::from_secs(60);

/// Keeps the node's health true to its memory store, for as long as this runs, if it has one.
pub(crate) async fn watch(node: Arc<Node>) {
    let Some(memory) = node.limiter.memory() else { return };
    let mut before = short_of_room(memory);
    let mut last: Option<Instant> = None;
    loop {
        sleep(LOOK).await;
        let now = short_of_room(memory);
        let full = now > before;
        before = now;
        match (full, last) {
            (true, None) => {
                let reason = reason(memory);
                tracing::warn!(reason, "counters are evicted");
                node.write_down(Kind::Store, Severity::Warning, "counters are evicted", &reason);
                node.note(Concern::Keys, vec![reason]);
            }
            (false, Some(last)) if last.elapsed() < CALM => continue,
            (false, Some(_)) => {
                tracing::info!("there is room for all counters again");
                node.write_down(Kind::Store, Severity::Info, "room for all counters again", "");
                node.note(Concern::Keys, Vec::new());
            }
            _ => {}
        }
        last = full.then(Instant::now);
    }
}

/// Returns how often a counter had to make room, or there was none.
pub(crate) fn short_of_room(memory: &MemoryStore) -> u64 {
    memory.evicted().saturating_add(memory.overflowed())
}

fn reason(memory: &MemoryStore) -> String {
    format!(
        "keys: all {} counters are in use, and those used least make room for new ones; see whether clients make up \
         identities, or raise `--max-keys`",
        memory.max_keys()
    )
}
