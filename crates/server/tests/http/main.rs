//! The server as its callers see it: real connections, whole answers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod access;
mod admin;
mod alerts;
mod authorize;
mod bad_input;
mod batch;
mod change;
mod check;
mod client;
mod connections;
mod drain;
mod etcd;
mod grpc;
mod gzip;
mod insight;
mod live;
mod log_level;
mod metrics;
mod openapi;
mod protocol;
mod rate_limit;
mod reload;
mod shared_store;
mod threads;
mod tiers;
mod waiting;
