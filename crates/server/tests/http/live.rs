//! A node as those see it who look at it live.

mod events;
mod fleet;
mod journal;
mod page;
mod stream;

pub(crate) use journal::entry;
pub(crate) use stream::Stream;
