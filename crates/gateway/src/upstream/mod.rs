//! Groups of back ends: who of them gets a request, how to connect to them, and how they are doing.
//!
//! A server is *down* when active checks say so, and *aside* when requests to it failed. Both are states of small
//! machines that are told the time ([`Checkup`], [`Passive`]); the rest is counting and connections.

mod balance;
mod checks;
mod concurrency;
mod connect;
mod group;
mod health;
mod origin;
mod passive;
mod pool;
mod server;
mod settings;
mod ticket;
mod tls;

pub use checks::Checks;
pub use concurrency::{LoadShedder, Shed, UpstreamPermit};
pub use connect::{Clients, Connector, GroupClient};
pub use group::{Group, GroupError};
pub use health::{Checkup, Turn};
pub use origin::{Origin, OriginError};
pub use passive::{Admission, Passive};
pub(crate) use pool::{Lease, Pool};
pub use server::{LastProblem, Server, ServerId, ServerStatus};
pub use settings::{
    Balance, Concurrency, ConcurrencyLimit, HealthCheck, Member, PassiveCheck, Protocol, Settings,
    StatusRange, Statuses, TlsFiles,
};
pub use ticket::{Failure, Ticket};
pub use tls::TlsError;

#[cfg(test)]
mod tests;
