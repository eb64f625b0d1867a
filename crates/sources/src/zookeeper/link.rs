//! A session in which all znodes have been read, and are watched from there on.

use std::future::Future;
use std::pin::Pin;

use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use zookeeper_client::{OneshotWatcher, StateWatcher};

use super::nodes::Nodes;
use super::session::Session;
use super::trouble::Trouble;
use super::url::ZookeeperUrl;

/// How many znodes to ask for at once.
const AT_ONCE: usize = 64;

/// How often to look for changes to what was just read. Somebody who never stops changing it must not keep it from being
/// told.
const ROUNDS: usize = 10;

/// All znodes, and how they change.
pub(super) struct Link {
    session: Session,
    nodes: Nodes,
    watches: Watches,
}

/// What a watch was set on.
#[derive(Debug)]
pub(super) enum Fired {
    /// The path itself: its data, and whether it is there.
    Path,
    /// Which children it has.
    Children,
    /// The data of this child.
    Child(String),
}

type Watches = FuturesUnordered<Pin<Box<dyn Future<Output = Fired> + Send>>>;

impl Link {
    /// Reads everything in a new session.
    pub(super) async fn open(url: &ZookeeperUrl) -> Result<Self, Trouble> {
        Self::over(Session::open(url).await?).await
    }

    /// Reads everything in this session.
    pub(super) async fn over(session: Session) -> Result<Self, Trouble> {
        let nodes = Nodes::new(&session.url.path);
        let mut link = Self { session, nodes, watches: Watches::new() };
        link.read_again().await?;
        Ok(link)
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Tells when the connection is lost or found again.
    pub(super) fn states(&self) -> StateWatcher {
        self.session.client.state_watcher()
    }

    /// Waits for a watch to fire. Giving up waiting loses nothing.
    pub(super) async fn hear(&mut self) -> Fired {
        match self.watches.next().await {
            Some(fired) => fired,
            // There always is a watch, on the path at least.
            None => std::future::pending().await,
        }
    }

    /// Reads what has changed; says whether that changes the documents.
    pub(super) async fn apply(&mut self, fired: Fired) -> Result<bool, Trouble> {
        let before = self.nodes.mark();
        let mut all = vec![fired];
        self.hear_more(&mut all);
        self.read(all).await?;
        self.settle().await?;
        Ok(self.nodes.mark() != before)
    }

    /// Reads everything; says whether it differs from what was known.
    pub(super) async fn read_again(&mut self) -> Result<bool, Trouble> {
        let before = self.nodes.mark();
        self.read_all().await?;
        self.settle().await?;
        Ok(self.nodes.mark() != before)
    }

    /// Goes on until nothing has changed while it was read. A watch is heard before any answer that is newer than what it
    /// tells of, so that the znodes then are as they once were together.
    async fn settle(&mut self) -> Result<(), Trouble> {
        for _ in 0..ROUNDS {
            let mut fired = Vec::new();
            self.hear_more(&mut fired);
            if fired.is_empty() {
                break;
            }
            self.read(fired).await?;
        }
        Ok(())
    }

    /// Adds what can be heard without waiting.
    fn hear_more(&mut self, fired: &mut Vec<Fired>) {
        while let Some(Some(next)) = self.watches.next().now_or_never() {
            fired.push(next);
        }
    }

    /// Reads what watches have fired for.
    async fn read(&mut self, fired: Vec<Fired>) -> Result<(), Trouble> {
        let (mut names, mut listed) = (Vec::new(), false);
        for one in fired {
            match one {
                Fired::Path if !self.nodes.is_there() || !self.read_own().await? => {
                    return self.read_all().await;
                }
                Fired::Path => {}
                Fired::Children => listed = true,
                Fired::Child(name) => names.push(name),
            }
        }
        self.read_children(names).await?;
        if listed && !self.read_list().await? { self.read_all().await } else { Ok(()) }
    }

    async fn read_all(&mut self) -> Result<(), Trouble> {
        let session = self.session.clone();
        let path = &session.url.path;
        // The server may lag behind the others, even behind what an earlier session has seen.
        session.ask(path, session.client.sync(path)).await?;
        self.nodes = Nodes::new(path);
        // Ended only when the new ones are set: a znode whose last watch is ended is not watched for a moment.
        let _old = std::mem::take(&mut self.watches);
        while !(self.read_own().await? && self.read_list().await?) {
            self.nodes = Nodes::new(path);
            let (stat, watcher) = session.ask(path, session.client.check_and_watch_stat(path)).await?;
            if stat.is_none() {
                self.watch(watcher, Fired::Path);
                break;
            }
        }
        Ok(())
    }

    /// Reads the path's own data; says whether it is there.
    async fn read_own(&mut self) -> Result<bool, Trouble> {
        let path = &self.session.url.path;
        let answer = self.session.find(path, self.session.client.get_and_watch_data(path)).await?;
        let Some((data, stat, watcher)) = answer else { return Ok(false) };
        // Known before they are listed.
        self.nodes.check_count(usize::try_from(stat.num_children).unwrap_or_default())?;
        self.nodes.put_own(&data, stat.mzxid)?;
        self.watch(watcher, Fired::Path);
        Ok(true)
    }

    /// Reads which children there are, and those that are new; says whether the path is there.
    async fn read_list(&mut self) -> Result<bool, Trouble> {
        let path = &self.session.url.path;
        let answer = self.session.find(path, self.session.client.get_and_watch_children(path)).await?;
        let Some((names, stat, watcher)) = answer else { return Ok(false) };
        let new = self.nodes.list(names, stat.pzxid)?;
        self.watch(watcher, Fired::Children);
        self.read_children(new).await?;
        Ok(true)
    }

    async fn read_children(&mut self, names: Vec<String>) -> Result<(), Trouble> {
        for some in names.chunks(AT_ONCE) {
            let session = &self.session;
            let answers =
                join_all(some.iter().map(|name| session.read_child(self.nodes.path_of(name)))).await;
            for (name, answer) in some.iter().zip(answers) {
                match answer? {
                    Some((data, stat, watcher)) => {
                        self.nodes.put(name, &data, stat.mzxid)?;
                        self.watch(watcher, Fired::Child(name.clone()));
                    }
                    // The watch on the list of children fires, too. Should it be there again by then, it is read as new.
                    None => self.nodes.delete(name),
                }
            }
        }
        Ok(())
    }

    fn watch(&mut self, watcher: OneshotWatcher, what: Fired) {
        // It fires at the end of the session, too, when there is nobody left to ask: asking then tells why.
        self.watches.push(Box::pin(watcher.changed().map(|_| what)));
    }
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::Zookeeper;
    use tokio::time::timeout;

    use super::super::session::PATIENCE;
    use super::*;

    /// The safety net: what is compared every now and then does not depend on watches, and sets them again.
    #[tokio::test]
    async fn what_no_watch_has_told_is_found_by_comparing() {
        let zookeeper = Zookeeper::start();
        zookeeper.put("/t/a", "one");
        let url = format!("zookeeper://{}/t", zookeeper.address()).parse().unwrap();
        let mut link = Link::open(&url).await.unwrap();
        assert_eq!(link.read_again().await, Ok(false));
        let text = |link: &Link| link.nodes().documents().unwrap()[0].text.clone().unwrap();

        link.watches = Watches::new();
        zookeeper.put("/t/a", "two");
        assert_eq!((link.read_again().await, text(&link)), (Ok(true), "two".to_owned()));
        assert_eq!(link.read_again().await, Ok(false));

        zookeeper.put("/t/a", "three");
        while text(&link) != "three" {
            let fired = timeout(PATIENCE, link.hear()).await.expect("a watch fires");
            link.apply(fired).await.unwrap();
        }
    }
}
