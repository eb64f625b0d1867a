//! A connection over which all keys have been read, and are watched from there on.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use super::client::{Client, Failure, Watch};
use super::keys::{self, Keys, MAX_KEYS};
use super::message::{RangeRequest, WatchCreate, WatchResponse, end_of};
use super::trouble::Trouble;
use super::url::EtcdUrl;

/// How long a server may take to answer one request.
const PATIENCE: Duration = Duration::from_secs(5);

/// All keys, and how they change.
#[derive(Debug)]
pub(super) struct Link {
    address: String,
    prefix: String,
    client: Client,
    watch: Watch,
    keys: Keys,
    /// When the keys were as they are in `keys`.
    revision: i64,
}

impl Link {
    /// Reads everything from one of the URL's servers.
    pub(super) async fn open(url: &EtcdUrl, address: &str) -> Result<Self, Trouble> {
        let place = Place { address, prefix: &url.prefix };
        let mut client = place.patiently(Client::connect(url, address)).await?;
        let (watch, keys, revision) = place.load(&mut client).await?;
        let (address, prefix) = (address.to_owned(), url.prefix.clone());
        Ok(Self { address, prefix, client, watch, keys, revision })
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Waits for what the server has to say. Giving up waiting loses nothing.
    pub(super) async fn hear(&mut self) -> Result<WatchResponse, Trouble> {
        self.watch.next().await.map_err(|error| Trouble::of(&self.address, &self.prefix, &error))
    }

    /// Applies what was heard; says whether that changes the documents.
    pub(super) async fn apply(&mut self, heard: WatchResponse) -> Result<bool, Trouble> {
        if heard.canceled {
            if heard.compact_revision == 0 {
                return Err(self.place().canceled(&heard));
            }
            let place = Place { address: &self.address, prefix: &self.prefix };
            (self.watch, self.keys, self.revision) = place.load(&mut self.client).await?;
            return Ok(true);
        }
        let mut changed = false;
        for change in &heard.events {
            let Some(kv) = &change.kv else { continue };
            let news = if change.is_put() { self.keys.put(kv)? } else { self.keys.delete(&kv.key) };
            if news {
                self.revision = self.revision.max(kv.mod_revision);
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Makes sure that there will be something to hear.
    pub(super) fn ask_for_progress(&self) {
        self.watch.ask_for_progress();
    }

    /// What it means that there is nothing to hear nevertheless.
    pub(super) fn silent(&self) -> Trouble {
        self.place().silent()
    }

    fn place(&self) -> Place<'_> {
        Place { address: &self.address, prefix: &self.prefix }
    }
}

/// What is asked, and whom; both are named when it goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) address: &'a str,
    pub(super) prefix: &'a str,
}

impl Place<'_> {
    /// Reads all keys at one revision, and watches from the next.
    async fn load(self, client: &mut Client) -> Result<(Watch, Keys, i64), Trouble> {
        let (keys, revision) = self.read(client).await?;
        // The range is a little too wide, so that one watch sees all changes of one revision together.
        let request = WatchCreate {
            key: self.prefix.into(),
            range_end: end_of(&format!("{}/", self.prefix)),
            start_revision: revision + 1,
        };
        let mut watch = self.patiently(client.watch(request)).await?;
        let created = self.patiently(watch.next()).await?;
        // If the next revision is forgotten by now, a second message will say so, to whoever follows the changes.
        if created.canceled { Err(self.canceled(&created)) } else { Ok((watch, keys, revision)) }
    }

    /// All keys at one revision, and which that is.
    pub(super) async fn read(self, client: &mut Client) -> Result<(Keys, i64), Trouble> {
        let mut keys = Keys::new(self.prefix);
        let first = RangeRequest { key: self.prefix.into(), ..RangeRequest::default() };
        let answer = self.patiently(client.range(first)).await?;
        let revision = answer.header.unwrap_or_default().revision;
        for kv in &answer.kvs {
            keys.put(kv)?;
        }
        for folder in Keys::folders(self.prefix) {
            let mut page = RangeRequest::of_all(&folder, revision);
            loop {
                let answer = self.patiently(client.range(page.clone())).await?;
                // Known before the rest is read.
                if usize::try_from(answer.count).is_ok_and(|count| count > MAX_KEYS) {
                    return Err(keys::too_many(self.prefix));
                }
                for kv in &answer.kvs {
                    keys.put(kv)?;
                }
                match page.after(&answer) {
                    Some(next) => page = next,
                    None => break,
                }
            }
        }
        Ok((keys, revision))
    }

    /// Waits for an answer, but not for ever.
    pub(super) async fn patiently<T, E>(
        self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Trouble>
    where
        E: Into<Failure>,
    {
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let error: &(dyn Error + Send + Sync) = &*error.into();
                Err(Trouble::of(self.address, self.prefix, error))
            }
            Err(_) => Err(self.silent()),
        }
    }

    fn silent(self) -> Trouble {
        Trouble::said(self.address, self.prefix, "there is no answer")
    }

    fn canceled(self, heard: &WatchResponse) -> Trouble {
        let reason = match heard.cancel_reason.as_str() {
            "" => "it has ended the watch",
            reason => reason,
        };
        Trouble::said(self.address, self.prefix, &reason.replace("PermissionDenied", "permission denied"))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::Etcd;

    use super::*;

    /// A watch that lags behind what etcd still remembers is ended by it.
    #[tokio::test]
    async fn a_watch_of_forgotten_revisions_reads_everything_again() {
        let etcd = Etcd::start();
        etcd.put("t/rules/a", "one");
        let address = etcd.address().to_string();
        let mut link = Link::open(&format!("etcd://{address}/t").parse().unwrap(), &address).await.unwrap();
        let lagging = WatchCreate { key: b"t".to_vec(), range_end: b"t0".to_vec(), start_revision: 1 };
        etcd.put("t/rules/a", "two");
        etcd.compact();
        link.watch = link.client.watch(lagging).await.unwrap();
        let text = |link: &Link| link.keys().documents().unwrap()[0].text.clone().unwrap();

        let created = link.hear().await.unwrap();
        assert!(created.created && !link.apply(created).await.unwrap());
        let ended = link.hear().await.unwrap();
        assert!(ended.canceled && ended.compact_revision > 0, "{ended:?}");
        assert!(link.apply(ended).await.unwrap());
        assert_eq!((text(&link), u64::try_from(link.revision())), ("two".to_owned(), Ok(etcd.revision())));

        etcd.put("t/rules/a", "three");
        while text(&link) != "three" {
            let heard = timeout(PATIENCE, link.hear()).await.unwrap().unwrap();
            link.apply(heard).await.unwrap();
        }
    }
}
