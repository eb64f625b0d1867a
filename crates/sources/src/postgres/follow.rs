//! Staying connected, and telling what there is to tell.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::link::Link;
use super::place::Place;
use super::trouble::{self, Trouble};
use super::url::PostgresUrl;
use crate::following::{Follower, Gone, Teller};

/// How often the version is asked for although nothing was heard.
const POLL: Duration = Duration::from_millis(500);

/// Follows the rows of one URL.
pub(super) struct PostgresFollower {
    url: PostgresUrl,
    teller: Teller,
    /// Which server to ask next.
    turn: usize,
    /// The newest version that was read.
    newest: u64,
}

impl PostgresFollower {
    pub(super) fn new(url: PostgresUrl, teller: Teller) -> Self {
        Self { url, teller, turn: 0, newest: 0 }
    }

    /// Asks one server after the other. If none will do, the most telling reason is returned.
    async fn open_any(&mut self) -> Result<Link, Trouble> {
        let mut worst = None;
        for place in Place::all(&self.url, self.turn % self.url.servers.len().max(1)) {
            match Link::open(place).await {
                Ok(link) => {
                    self.turn = place.server;
                    return Ok(link);
                }
                Err(trouble) => worst = Some(Trouble::more_telling(worst, trouble)),
            }
        }
        Err(trouble::worst(worst))
    }

    /// Tells the documents, now and after every change, until the connection is lost. A listener who is slow gets
    /// several changes as one.
    async fn stay(&mut self, mut link: Link) -> Result<Trouble, Gone> {
        let mut poll = interval_at(Instant::now() + POLL, POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut news = true;
        loop {
            let changed = tokio::select! {
                room = self.teller.room(), if news => {
                    room?;
                    news = false;
                    self.tell(&link).await?;
                    continue;
                }
                heard = link.hear() => match heard {
                    Ok(()) => link.refresh().await,
                    Err(trouble) => Err(trouble),
                },
                _ = poll.tick() => link.refresh().await,
            };
            match changed {
                Ok(changed) => {
                    self.teller.beat();
                    news |= changed;
                }
                Err(trouble) => return Ok(trouble),
            }
        }
    }

    async fn tell(&mut self, link: &Link) -> Result<(), Gone> {
        let version = link.rows().version;
        let documents = if link.is_replica() && version < self.newest {
            Err(behind(link.place()))
        } else {
            self.newest = version;
            link.rows().documents(&self.url)
        };
        self.teller.news(documents, |last| next_version(last, version)).await
    }
}

impl Follower for PostgresFollower {
    type Link = Link;
    const LAST_PAUSE: Duration = Duration::from_secs(3);

    async fn open(&mut self) -> Result<Link, Trouble> {
        self.open_any().await
    }

    async fn follow(&mut self, link: Link) -> Result<Trouble, Gone> {
        let trouble = self.stay(link).await?;
        self.turn += 1;
        Ok(trouble)
    }

    fn teller(&mut self) -> &mut Teller {
        &mut self.teller
    }
}

/// A replica that has not yet got what another server had.
fn behind(place: Place<'_>) -> Trouble {
    let address = place.url.address(place.server);
    Trouble::data(format!(
        "the replica of PostgreSQL at {address} is behind what was read before; see that it follows its primary, \
         or restart this node if a backup was put back"
    ))
}

/// The version, as long as that does not go back: a backup that was put back has an old one, and is news all the same.
fn next_version(last: u64, version: u64) -> u64 {
    if version >= last { version } else { last + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_grow() {
        assert_eq!(
            [(0, 5), (5, 5), (5, 9), (9, 3)].map(|(last, new)| next_version(last, new)),
            [5, 5, 9, 10]
        );
    }
}
