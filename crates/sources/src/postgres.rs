//! Rows in PostgreSQL, read all at one moment and again whenever their common version has changed.
//!
//! The work is done by a task, so that a connection is watched over whether or not somebody waits for news. Notifications
//! make it quick, and asking for the version every half second makes it sure: nothing depends on notifications alone,
//! which a replica does not have. Triggers give out the versions (`migrations/`), so that rows changed by hand count.

mod archive;
mod follow;
mod link;
mod migrate;
mod place;
mod records;
mod rows;
mod session;
mod tiers;
mod trouble;
mod url;

use crate::following::{Following, keep_following};
use crate::{Next, Pulse, RuleSource};

use follow::PostgresFollower;

pub use archive::PostgresArchive;
pub use tiers::{PostgresTiers, TierChange, TierChanges};
pub use url::{PostgresUrl, PostgresUrlError};

/// Rules from PostgreSQL: one document per row.
///
/// Documents are the rows of `tidegate_rules`, in the order of their names. Version and stamp are the number of the
/// transaction that was the last to change any of them, as `tidegate_state` counts them. Needs a Tokio runtime with
/// input, output and time enabled.
#[derive(Debug)]
pub struct PostgresSource {
    url: PostgresUrl,
    following: Option<Following>,
    pulse: Pulse,
}

impl PostgresSource {
    /// A source of the rows in the database that `url` names. Nothing is connected yet.
    pub fn new(url: PostgresUrl) -> Self {
        Self { url, following: None, pulse: Pulse::new() }
    }
}

impl RuleSource for PostgresSource {
    fn next(&mut self) -> Next<'_> {
        let url = &self.url;
        Box::pin(Following::next(&mut self.following, "PostgreSQL", &self.pulse, |teller| {
            keep_following(PostgresFollower::new(url.clone(), teller))
        }))
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.pulse.clone())
    }
}
