//! Znodes in ZooKeeper, read and watched in one step each.
//!
//! The work is done by a task, so that the session is watched over whether or not somebody waits for news. A watch of
//! ZooKeeper fires once: it is set anew by the very request that reads what has changed, so that nothing can change
//! unseen between the two. Whatever it cannot be sure of (a connection that was lost, a session that has expired) ends
//! in reading everything again, which is done now and then anyway.

mod archive;
mod follow;
mod link;
mod nodes;
mod session;
mod trouble;
mod url;

use crate::following::{Following, keep_following};
use crate::{Next, Pulse, RuleSource};

use follow::ZookeeperFollower;

pub use archive::ZookeeperArchive;
pub use url::{ZookeeperUrl, ZookeeperUrlError};

/// Rules from ZooKeeper: one document per znode.
///
/// Documents are the data of the URL's path, unless it is empty, and of each znode right below it, joined in this
/// order. Version and stamp are the id of the transaction (zxid) that was the last to change any of them. Needs a Tokio
/// runtime with input, output and time enabled.
#[derive(Debug)]
pub struct ZookeeperSource {
    url: ZookeeperUrl,
    following: Option<Following>,
    pulse: Pulse,
}

impl ZookeeperSource {
    /// A source of the znodes that `url` names. Nothing is connected yet.
    pub fn new(url: ZookeeperUrl) -> Self {
        Self { url, following: None, pulse: Pulse::new() }
    }
}

impl RuleSource for ZookeeperSource {
    fn next(&mut self) -> Next<'_> {
        let url = &self.url;
        Box::pin(Following::next(&mut self.following, "ZooKeeper", &self.pulse, |teller| {
            keep_following(ZookeeperFollower::new(url.clone(), teller))
        }))
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.pulse.clone())
    }
}
