//! Real servers for tests and benchmarks.
//!
//! Everything runs on free ports of the loopback interface (or in a [`Network`] of its own), in a temporary folder, and is gone when its
//! handle is dropped or the test process dies, however it dies. Starting blocks until the server can be used.
//! What cannot be started fails at once, with the end of the server's log or the command that installs it.
//!
//! ```no_run
//! use tidegate_testkit::Redis;
//!
//! let redis = Redis::start();
//! redis.query::<()>(&["SET", "a", "1"]);
//! redis.pause(); // hangs, as a stuck server does
//! ```

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot have its server has failed")]

mod backend;
mod browser;
mod cluster;
mod etcd;
mod network;
mod pieces;
mod ports;
mod postgres;
mod process;
mod program;
mod prometheus;
mod promtool;
mod proxy;
mod redis;
mod reverse_proxy;
mod scripted;
mod sentinel;
mod start;
mod tls;
pub mod wait;
mod zookeeper;

pub use crate::backend::Backend;
pub use crate::browser::{Browser, ConsoleMessage};
pub use crate::cluster::{Cluster, ClusterOptions, Migration};
pub use crate::etcd::Etcd;
pub use crate::network::{Inside, Namespace, Network, Wire};
pub use crate::pieces::{Feeder, Pieces};
pub use crate::ports::Port;
pub use crate::postgres::Postgres;
pub use crate::process::{Launch, Process, Signal};
pub use crate::program::{Program, find_program, from_npm};
pub use crate::prometheus::{Prometheus, Sample, Target};
pub use crate::promtool::check_metrics;
pub use crate::proxy::Proxy;
pub use crate::redis::{Redis, RedisOptions};
pub use crate::reverse_proxy::{Place, ReverseProxy};
pub use crate::scripted::Scripted;
pub use crate::sentinel::{Sentinel, SentinelOptions};
pub use crate::tls::{Certificates, ClientCertificates};
pub use crate::zookeeper::Zookeeper;
