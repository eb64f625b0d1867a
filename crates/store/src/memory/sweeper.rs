//! Forgetting keys at rest in the background.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::MemoryStore;

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_secs(1);

/// Sweeps a store in a thread of its own until dropped.
#[derive(Debug)]
pub struct Sweeper {
    _stop: Sender<()>,
}

impl Sweeper {
    /// Starts sweeping `store`.
    pub fn start(store: &Arc<MemoryStore>) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let store = Arc::downgrade(store);
        thread::Builder::new().name("tidegate-sweep".into()).spawn(move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                match store.upgrade() {
                    Some(store) => store.sweep(),
                    None => return,
                }
            }
        })?;
        Ok(Self { _stop: stop })
    }
}
