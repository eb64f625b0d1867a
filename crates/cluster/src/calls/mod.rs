//! How one node asks another: calls that wait together, sealed, over HTTP/2.
//!
//! [`Caller`] asks and [`CallServer`] answers. What travels is gRPC (`tidegate.cluster.v1.Peer/Ask`) with one sealed message
//! each way, so that the network sees when nodes talk and how much, and nothing else; whoever does not know the fleet's
//! secret can neither ask nor answer.
//!
//! How long a caller waits travels with its call as a duration, since clocks differ.

mod client;
mod connection;
mod desk;
mod figures;
mod grpc;
mod link;
pub(crate) mod message;
mod peer;
mod response;
mod seals;
mod server;

pub use client::Caller;
pub use figures::CallFigures;
pub use server::CallServer;
