//! Named tokens that may be replaced at any time.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::{Tokens, TokensError};
use crate::config::AdminTokens;
use crate::health::Concern;
use crate::node::Node;

/// How often the file is looked at: a token that was taken away should not be good for much longer.
const TICK: Duration = Duration::from_secs(1);

/// The tokens in use, and where they come from.
#[derive(Debug)]
pub(crate) struct WatchedTokens {
    source: AdminTokens,
    tokens: ArcSwap<Tokens>,
}

impl WatchedTokens {
    pub(crate) fn new(source: AdminTokens) -> Result<Self, TokensError> {
        let tokens = ArcSwap::from_pointee(Tokens::read(&source)?);
        Ok(Self { source, tokens })
    }

    /// Those in use.
    pub(crate) fn load(&self) -> Guard<Arc<Tokens>> {
        self.tokens.load()
    }

    /// Takes other tokens into use as they come; a file that cannot be used changes nothing, and health says so.
    pub(crate) async fn follow(&self, node: &Node) {
        if matches!(self.source, AdminTokens::Inline(_)) {
            return;
        }
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = Ok(self.tokens.load_full());
        loop {
            ticks.tick().await;
            let source = self.source.clone();
            // The file is small, and times of change are too coarse to tell two quick changes apart.
            let Ok(read) = spawn_blocking(move || Tokens::read(&source).map(Arc::new)).await else {
                continue;
            };
            if read != known {
                self.take(&read, node);
                known = read;
            }
        }
    }

    fn take(&self, read: &Result<Arc<Tokens>, TokensError>, node: &Node) {
        let reasons = match read {
            Ok(tokens) => {
                self.tokens.store(Arc::clone(tokens));
                tracing::info!(tokens = tokens.len(), "admin tokens in use");
                Vec::new()
            }
            Err(error) => {
                tracing::warn!("the admin tokens in use stay: {error}");
                let kept =
                    |problem| format!("admin tokens not loaded, the last good ones stay in use: {problem}");
                error.problems().map(kept).collect()
            }
        };
        node.note(Concern::Tokens, reasons);
    }
}
