//! Staying connected, and telling what there is to tell.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use zookeeper_client::SessionState;

use super::link::Link;
use super::nodes::{VERSIONS, version_of};
use super::trouble::{self, Trouble};
use super::url::ZookeeperUrl;
use crate::following::{Follower, Gone, Teller};

/// How long the client may look for another server before that is trouble.
const GRACE: Duration = Duration::from_secs(3);

/// How often everything is read although no watch has fired: nothing is to depend on watches alone.
const COMPARE: Duration = Duration::from_secs(30);

/// How many times longer than the reading the time between two of them is at least, so that many rules do not keep the
/// servers busy.
const REST: u32 = 20;

/// Follows the znodes of one URL.
pub(super) struct ZookeeperFollower {
    url: ZookeeperUrl,
    teller: Teller,
}

impl ZookeeperFollower {
    pub(super) fn new(url: ZookeeperUrl, teller: Teller) -> Self {
        Self { url, teller }
    }

    /// Tells the documents, now and after every change, until the servers are lost. A listener who is slow gets several
    /// changes as one. `took` is how long reading everything takes.
    async fn stay(&mut self, mut link: Link, took: Duration) -> Result<Trouble, Gone> {
        let mut states = link.states();
        let mut lost = matches!(states.state(), SessionState::Disconnected).then(Instant::now);
        let mut compare = Instant::now() + rest(took);
        let mut news = true;
        loop {
            let patience = lost.map(|since| since + GRACE);
            let changed = tokio::select! {
                room = self.teller.room(), if news => {
                    room?;
                    news = false;
                    let (documents, zxid) = (link.nodes().documents(), link.nodes().zxid());
                    self.teller.news(documents, |last| next_version(last, zxid)).await?;
                    continue;
                }
                state = states.changed() => match state {
                    SessionState::Disconnected => {
                        lost = Some(Instant::now());
                        continue;
                    }
                    state if state.is_terminated() => return Ok(trouble::lost(&self.url)),
                    // Another server, or the same again: what happened in between may have gone unheard.
                    _ => {
                        lost = None;
                        link.read_again().await
                    }
                },
                () = sleep_until(patience.unwrap_or(compare)), if patience.is_some() => {
                    return Ok(trouble::lost(&self.url));
                }
                fired = link.hear(), if lost.is_none() => link.apply(fired).await,
                () = sleep_until(compare), if lost.is_none() => {
                    let begun = Instant::now();
                    let changed = link.read_again().await;
                    compare = Instant::now() + rest(begun.elapsed());
                    changed
                }
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
}

impl Follower for ZookeeperFollower {
    type Link = (Link, Duration);
    // A session costs the ensemble two writes.
    const LAST_PAUSE: Duration = Duration::from_secs(5);

    async fn open(&mut self) -> Result<(Link, Duration), Trouble> {
        let opening = Instant::now();
        let link = Link::open(&self.url).await?;
        Ok((link, opening.elapsed()))
    }

    async fn follow(&mut self, (link, took): (Link, Duration)) -> Result<Trouble, Gone> {
        self.stay(link, took).await
    }

    fn teller(&mut self) -> &mut Teller {
        &mut self.teller
    }
}

/// How long to wait until everything is read again.
fn rest(took: Duration) -> Duration {
    COMPARE.max(took * REST)
}

/// The transaction's id, as long as that does not go back: a backup that was put back has an old one, and is news all the
/// same.
///
/// The high 32 bits of an id count elections. After two million of them it no longer fits: then its low 53 bits count,
/// and if they are less than the last version, that is counted on.
fn next_version(last: u64, zxid: i64) -> u64 {
    match version_of(zxid) {
        zxid if zxid >= last => zxid,
        _ => (last + 1).min(VERSIONS - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_grow_and_stay_below_2_to_the_53() {
        let last = (1 << 53) - 1;
        assert_eq!(
            [(0, 5), (5, 5), (5, 9), (9, 3), (7, (1 << 53) + 8), (7, (1 << 53) + 3), (last, 1 << 53)]
                .map(|(last, new)| next_version(last, new)),
            [5, 5, 9, 10, 8, 8, last]
        );
        assert_eq!(next_version((1 << 32) + 7, (2 << 32) + 1), (2 << 32) + 1, "a new leader begins anew");
    }

    #[test]
    fn many_rules_are_compared_less_often() {
        assert_eq!(rest(Duration::from_millis(20)), COMPARE);
        assert_eq!(rest(Duration::from_secs(6)), Duration::from_secs(120));
    }
}
