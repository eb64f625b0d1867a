//! The memory store runs the suite every store runs.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_store::conformance::{Subject, run};
use tidegate_store::{ManualClock, MemoryStore, Store};

struct Memory {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl Subject for Memory {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}

#[tokio::test]
async fn memory() {
    run(async |_| {
        let clock = Arc::new(ManualClock::default());
        Memory { store: MemoryStore::new(100_000, clock.clone()), clock }
    })
    .await;
}
