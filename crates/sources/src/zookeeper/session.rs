//! A session with ZooKeeper, and asking in it.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Client, Error, OneshotWatcher, Stat};

use super::trouble::{self, Trouble};
use super::url::ZookeeperUrl;

/// How long a server may take to answer one request.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long the servers are to keep a session that they do not hear of. A connection is given up after two fifths of it
/// without a sign of life.
const SESSION: Duration = Duration::from_secs(10);

/// Whom to ask, and about what.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) url: ZookeeperUrl,
    pub(super) client: Client,
}

impl Session {
    /// Opens one with any of the servers.
    pub(super) async fn open(url: &ZookeeperUrl) -> Result<Self, Trouble> {
        let mut connector = Client::connector().with_session_timeout(SESSION).with_fail_eagerly();
        if let Some((user, password)) = &url.login {
            connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
        }
        match timeout(PATIENCE, connector.connect(&url.servers)).await {
            Ok(Ok(client)) => Ok(Self { url: url.clone(), client }),
            Ok(Err(error)) => Err(trouble::of(url, &url.path, &error)),
            Err(_) => Err(trouble::silent(url)),
        }
    }

    pub(super) async fn read_child(
        &self,
        path: String,
    ) -> Result<Option<(Vec<u8>, Stat, OneshotWatcher)>, Trouble> {
        self.find(&path, self.client.get_and_watch_data(&path)).await
    }

    /// Waits for an answer about a znode, but not for ever; nothing if there is no such znode.
    pub(super) async fn find<T>(
        &self,
        path: &str,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Trouble> {
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(Error::NoNode)) => Ok(None),
            Ok(Err(error)) => Err(trouble::of(&self.url, path, &error)),
            Err(_) => Err(trouble::silent(&self.url)),
        }
    }

    /// The same where there need not be such a znode.
    pub(super) async fn ask<T>(
        &self,
        path: &str,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Trouble> {
        let answer = self.find(path, answer).await?;
        answer.ok_or_else(|| trouble::of(&self.url, path, &Error::NoNode))
    }
}
