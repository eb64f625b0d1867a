//! Sources as people and programs change what is in them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod archive;
mod etcd;
mod file;
mod postgres;
mod scene;
mod zookeeper;
