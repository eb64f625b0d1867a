//! Nodes that know each other without the store: who is there, who counts what, and how they ask each other.

pub mod calls;
mod cluster;
mod fleet;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod keyring;
mod member;
mod membership;
mod rendezvous;
mod seal;
mod start;
mod view;

pub use cluster::{Cluster, Settings};
pub use fleet::{Fleet, Origins, Serving};
pub use keyring::{Keyring, KeyringError, SharedKeyring};
pub use member::{Member, MemberInfo, State, UNHEARD};
pub use membership::udp::Refused;
pub use membership::{Machine, PeerName, PeerNameError, Timing};
pub use seal::{Opener, Purpose, Sealer, Unopened};
pub use start::StartError;
pub use view::View;
