//! Who is there: SWIM, by `foca`, with what it lacks.
//!
//! [`machine`] is the state machine, which knows neither sockets nor clocks nor secrets; `udp` drives it. Beside foca's
//! own messages there are a few of ours ([`message`]): nodes say hello to addresses, because before they meet they know
//! of each other nothing else, and goodbye when they leave, so that whoever is silent without it is *lost*: it may be
//! counting on the other side of a cut.

mod effects;
mod identity;
pub(crate) mod lookout;
mod machine;
mod message;
mod peers;
mod roster;
mod seeds;
#[cfg(test)]
mod tests;
mod timing;
pub(crate) mod udp;
mod words;

pub use machine::Machine;
pub use peers::{PeerName, PeerNameError};
pub use timing::Timing;
