//! Event loops that ask the store, each over connections of its own.
//!
//! A connection belongs to the event loop that it was made on. Asked from another, each call and each answer would have to wake that
//! one, which costs more than the call itself.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

/// Event loops with connections of their own. There is always a first one: that which the store was started on.
#[derive(Clone)]
pub(crate) struct EventLoops(Arc<[Handle]>);

impl EventLoops {
    /// Takes the present one, and `others`.
    ///
    /// Panics outside of a Tokio runtime.
    pub(crate) fn new(others: Vec<Handle>) -> Self {
        Self([Handle::current()].into_iter().chain(others).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Handle> {
        self.0.iter()
    }

    /// Returns the position of the one that this is called on. Callers that are on none of them use the first one's connections.
    pub(crate) fn current(&self) -> usize {
        if self.0.len() == 1 {
            return 0;
        }
        let position = |current: Handle| self.iter().position(|known| known.id() == current.id());
        Handle::try_current().ok().and_then(position).unwrap_or(0)
    }
}

impl fmt::Debug for EventLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventLoops").field(&self.0.len()).finish()
    }
}
