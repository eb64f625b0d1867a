//! The built binary, used as a user would.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say so and stop")]

mod check_grpc;
mod client;
mod collector;
mod config;
mod dashboard;
mod drain;
mod etcd;
mod examples;
mod fleet;
mod gateway;
mod geoip;
mod help;
mod log_level;
mod outage;
mod owner;
mod partition;
mod prometheus;
mod reload;
mod rules;
mod rules_change;
mod serve;
mod shared_store;
mod simulate;
mod support;
mod threads;
mod tiers;
mod together;
mod token;
mod top;
mod traces;
mod zookeeper;
