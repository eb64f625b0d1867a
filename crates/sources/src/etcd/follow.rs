//! Staying connected, and telling what there is to tell.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::link::Link;
use super::trouble::Trouble;
use super::url::EtcdUrl;
use crate::following::{Follower, Gone, Teller};

/// How often a watch has to show that it is alive. Keep-alive asks the connection; this asks what sits behind it.
const ASK: Duration = Duration::from_secs(5);

/// How long a watch may be silent although it was asked.
const SILENCE: Duration = Duration::from_secs(15);

/// Follows the keys of one URL.
pub(super) struct EtcdFollower {
    url: EtcdUrl,
    teller: Teller,
    /// Which server to ask next.
    turn: usize,
}

impl EtcdFollower {
    pub(super) fn new(url: EtcdUrl, teller: Teller) -> Self {
        Self { url, teller, turn: 0 }
    }

    /// Asks one server after the other. If none will do, the most telling reason is returned.
    async fn open_any(&mut self) -> Result<Link, Trouble> {
        let count = self.url.addresses.len();
        let mut worst: Option<Trouble> = None;
        for _ in 0..count {
            self.turn %= count;
            match Link::open(&self.url, &self.url.addresses[self.turn]).await {
                Ok(link) => return Ok(link),
                Err(trouble) => {
                    self.turn += 1;
                    worst = Some(Trouble::more_telling(worst, trouble));
                }
            }
        }
        Err(worst.unwrap_or_else(|| Trouble::away("there is no etcd to ask; name one".to_owned())))
    }

    /// Tells the documents, now and after every change, until the connection is lost. A listener who is slow gets
    /// several changes as one.
    async fn stay(&mut self, mut link: Link) -> Result<Trouble, Gone> {
        let mut ask = interval(ASK);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        let mut news = true;
        loop {
            tokio::select! {
                room = self.teller.room(), if news => {
                    room?;
                    news = false;
                    let (documents, revision) = (link.keys().documents(), link.revision());
                    self.teller.news(documents, |last| next_version(last, revision)).await?;
                }
                message = link.hear() => {
                    heard = Instant::now();
                    self.teller.beat();
                    let applied = match message {
                        Ok(message) => link.apply(message).await,
                        Err(trouble) => Err(trouble),
                    };
                    match applied {
                        Ok(changed) => news |= changed,
                        Err(trouble) => return Ok(trouble),
                    }
                }
                _ = ask.tick() => {
                    if heard.elapsed() > SILENCE {
                        return Ok(link.silent());
                    }
                    link.ask_for_progress();
                }
            }
        }
    }
}

impl Follower for EtcdFollower {
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

/// The revision, as long as that does not go back: a backup that was put back has an old one, and is news all the same.
fn next_version(last: u64, revision: i64) -> u64 {
    match u64::try_from(revision) {
        Ok(revision) if revision >= last => revision,
        _ => last + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_grow() {
        assert_eq!(
            [(0, 5), (5, 5), (5, 9), (9, 3), (10, -1)].map(|(last, new)| next_version(last, new)),
            [5, 5, 9, 10, 11]
        );
    }
}
