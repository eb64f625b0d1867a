//! Sentinel: who is the master now.
//!
//! Every sentinel is asked all the time, and the one that has seen the latest election is believed. In a failover
//! that is forced, the old master goes on acknowledging for a while what nobody will ever see again: what is lost
//! is what was sent there until somebody told us, so we do not wait to be told.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError};
use tidegate_store::Failure;
use tidegate_store::deadline::within;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::connect::Connector;
use crate::problem::Problem;
use crate::shard::Shard;
use crate::url::Address;

/// How often each sentinel is asked.
const ASK: Duration = Duration::from_millis(100);

/// How long a sentinel may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);

/// How long a sentinel's word counts.
const BELIEVED: Duration = Duration::from_secs(10);

/// Keeps a shard pointed at the master.
pub(crate) struct Watch {
    master: String,
    shard: Arc<Shard>,
    connector: Arc<Connector>,
    views: Mutex<Vec<Option<View>>>,
    problem: Mutex<Option<Problem>>,
    /// Told when the master may have changed.
    doubt: Arc<Notify>,
}

/// What a sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    /// The election this is the result of.
    epoch: u64,
    address: Address,
    at: Instant,
}

impl Watch {
    /// Asks `sentinels` for the master called `master` from now on.
    pub(crate) fn start(
        sentinels: Vec<Address>,
        master: String,
        shard: Arc<Shard>,
        connector: Arc<Connector>,
        doubt: Arc<Notify>,
    ) -> Arc<Self> {
        let watch = Arc::new(Self {
            master,
            shard,
            connector,
            views: Mutex::new(vec![None; sentinels.len()]),
            problem: Mutex::new(None),
            doubt,
        });
        for (number, sentinel) in sentinels.into_iter().enumerate() {
            tokio::spawn(listen(Arc::downgrade(&watch), sentinel.clone()));
            tokio::spawn(ask(Arc::downgrade(&watch), number, sentinel));
        }
        watch
    }

    /// Why the master is not known, if it is not.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.problem.lock().clone().filter(|_| self.shard.address().is_none())
    }

    /// Takes note of what a sentinel says, and goes over to the master the latest election has made.
    fn believe(&self, number: usize, view: View) {
        let latest = {
            let mut views = self.views.lock();
            if let Some(known) = views.get_mut(number) {
                *known = Some(view);
            }
            let fresh = views.iter().flatten().filter(|view| view.at.elapsed() < BELIEVED);
            fresh.max_by_key(|view| view.epoch).cloned()
        };
        let Some(View { address, epoch, .. }) = latest else { return };
        if self.shard.address().as_ref() != Some(&address) {
            tracing::info!(master = self.master, %address, epoch, "store has a new master");
            self.shard.retarget(&address);
        }
    }

    /// What a sentinel says. The address is asked for by itself: the sentinel that leads a failover names the
    /// new master there as soon as it has promoted it, while its account of the master goes on with the old
    /// address under the new epoch. The epoch is asked for first, so that an address is never taken for that
    /// of a later election.
    async fn view(
        &self,
        connection: &mut MultiplexedConnection,
        sentinel: &Address,
    ) -> Result<View, Problem> {
        let asked = within(ANSWER_LIMIT, async {
            let account: Vec<String> = self.command("MASTER").query_async(connection).await?;
            let address: Option<(String, u16)> =
                self.command("GET-MASTER-ADDR-BY-NAME").query_async(connection).await?;
            Ok((account, address))
        });
        let (account, address) = match asked.await {
            Ok(asked) => asked.map_err(|error: RedisError| {
                if error.to_string().contains("No such master") {
                    let text = format!("{sentinel}: there is no master called {}", self.master);
                    return Problem::new(Failure::Connection, text);
                }
                if error.to_string().contains("unknown command") {
                    let text = format!("{sentinel}: it is no sentinel; use redis:// or redis+cluster://");
                    return Problem::new(Failure::NotAStore, text);
                }
                Problem::of(&error, sentinel)
            })?,
            Err(_) => {
                return Err(Problem::new(Failure::Connection, format!("{sentinel}: it does not answer")));
            }
        };
        let epoch = account.chunks_exact(2).find(|field| field[0] == "config-epoch").map(|field| &field[1]);
        let (host, port) = address
            .ok_or_else(|| Problem::new(Failure::NotAStore, format!("{sentinel}: it is no sentinel")))?;
        let epoch = epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        Ok(View { epoch, address: Address { host, port }, at: Instant::now() })
    }

    fn command(&self, what: &str) -> Cmd {
        let mut cmd = redis::cmd("SENTINEL");
        cmd.arg(what).arg(&self.master);
        cmd
    }
}

/// Asks one sentinel again and again.
async fn ask(watch: Weak<Watch>, number: usize, sentinel: Address) {
    let mut connection = None;
    loop {
        let Some(watch) = watch.upgrade() else { return };
        match look(&watch, &mut connection, &sentinel).await {
            Ok(view) => watch.believe(number, view),
            Err(problem) => {
                tracing::debug!(%sentinel, %problem, "sentinel not asked");
                connection = None;
                *watch.problem.lock() = Some(problem);
            }
        }
        tokio::select! {
            () = sleep(ASK) => {}
            () = watch.doubt.notified() => {}
        }
    }
}

async fn look(
    watch: &Watch,
    connection: &mut Option<MultiplexedConnection>,
    sentinel: &Address,
) -> Result<View, Problem> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(watch.connector.open_sentinel(sentinel).await?),
    };
    watch.view(connection, sentinel).await
}

/// Hears of a new master from one sentinel the moment it knows.
async fn listen(watch: Weak<Watch>, sentinel: Address) {
    loop {
        let Some(strong) = watch.upgrade() else { return };
        let client = strong.connector.sentinel_client(&sentinel);
        drop(strong);
        let subscribed = async {
            let mut subscription = client.ok()?.get_async_pubsub().await.ok()?;
            subscription.subscribe("+switch-master").await.ok()?;
            Some(subscription)
        };
        if let Ok(Some(subscription)) = within(ANSWER_LIMIT, subscribed).await {
            let mut messages = subscription.into_on_message();
            while let Some(_message) = next(&mut messages).await {
                let Some(strong) = watch.upgrade() else { return };
                strong.doubt.notify_waiters();
            }
        }
        sleep(ASK * 10).await;
    }
}

/// The next item of a stream.
async fn next<S: futures_util::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    futures_util::StreamExt::next(stream).await
}
