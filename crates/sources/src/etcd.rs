//! Keys in etcd, read at one revision and followed from there.
//!
//! The work is done by a task, so that a connection is watched over whether or not somebody waits for news. It holds
//! all values in memory and applies changes to them. Whatever it cannot be sure of (a broken or silent connection, a
//! history that was compacted) ends in reading everything again: that is the one way to recover, and so a tried one.

mod archive;
mod client;
mod follow;
mod keys;
mod link;
mod message;
mod trouble;
mod url;

use crate::following::{Following, keep_following};
use crate::{Next, Pulse, RuleSource};

use follow::EtcdFollower;

pub use archive::EtcdArchive;
pub use url::{EtcdTls, EtcdUrl, EtcdUrlError};

/// Rules from etcd: one document per key.
///
/// Documents are the values of `<prefix>`, of `<prefix>/documents/<name>` and of `<prefix>/rules/<rule_id>`, joined in
/// this order. Version and stamp are the revision at which they were read or last changed. Needs a Tokio runtime with
/// input, output and time enabled.
#[derive(Debug)]
pub struct EtcdSource {
    url: EtcdUrl,
    following: Option<Following>,
    pulse: Pulse,
}

impl EtcdSource {
    /// A source of the keys that `url` names. Nothing is connected yet.
    pub fn new(url: EtcdUrl) -> Self {
        Self { url, following: None, pulse: Pulse::new() }
    }
}

impl RuleSource for EtcdSource {
    fn next(&mut self) -> Next<'_> {
        let url = &self.url;
        Box::pin(Following::next(&mut self.following, "etcd", &self.pulse, |teller| {
            keep_following(EtcdFollower::new(url.clone(), teller))
        }))
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.pulse.clone())
    }
}
