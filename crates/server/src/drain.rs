//! Listeners that are opened together and ended together, gently.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::Phase;
use crate::data_plane::DataPlane;
use crate::listen::{Connected, Connections, Listener};

/// How long what is cut may take to end.
const CUT: Duration = Duration::from_secs(1);

/// Some listeners at work. Dropping it cuts them off.
#[derive(Debug)]
pub struct Serving {
    /// The threads that connections are served on, if not those that they are accepted on.
    data_plane: Option<DataPlane>,
    phase: watch::Sender<Phase>,
    accepting: JoinSet<()>,
    connections: Vec<Connections>,
}

impl Serving {
    /// None yet. Connections will be served on the threads of `data_plane`; without one, on the present runtime.
    pub fn new(data_plane: Option<DataPlane>) -> Self {
        let (phase, _) = watch::channel(Phase::Serving);
        Self { data_plane, phase, accepting: JoinSet::new(), connections: Vec::new() }
    }

    /// Has `listener` accept connections. What is asked on each is answered by what `handler` makes of who is there.
    pub(crate) fn open<H, S, F, B>(&mut self, listener: Listener, handler: H)
    where
        H: Fn(Connected) -> S + Clone + Send + Sync + 'static,
        S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        self.connections.push(listener.connections());
        let serve =
            listener.serve::<false, _, _, _, _>(self.data_plane.clone(), self.phase.subscribe(), handler);
        self.accepting.spawn(serve);
    }

    /// Has `listener` accept connections, on which clients may go on to something else than HTTP, such as WebSocket.
    pub fn open_with_upgrades<H, S, F, B>(&mut self, listener: Listener, handler: H)
    where
        H: Fn(Connected) -> S + Clone + Send + Sync + 'static,
        S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        self.connections.push(listener.connections());
        let serve =
            listener.serve::<true, _, _, _, _>(self.data_plane.clone(), self.phase.subscribe(), handler);
        self.accepting.spawn(serve);
    }

    /// The connections of each listener.
    pub(crate) fn connections(&self) -> &[Connections] {
        &self.connections
    }

    /// What connections that are not HTTP any more are to do: see to it that they end when the phase is [`Phase::Closing`]. What goes on
    /// without a connection has to end when there is nobody left to say.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Asks clients to go elsewhere, and goes on serving them.
    pub(crate) fn leave(&self) {
        self.phase.send_replace(Phase::Leaving);
    }

    /// Accepts no more and lets what has been accepted finish within `patience`; cuts the rest and says how many those
    /// were.
    pub(crate) async fn close(self, patience: Duration) -> usize {
        let Self { phase, mut accepting, connections, .. } = self;
        phase.send_replace(Phase::Closing);
        let finished = async {
            // Only then is it clear which connections there are.
            while accepting.join_next().await.is_some() {}
            gone(&connections).await;
        };
        if timeout(patience, finished).await.is_ok() {
            return 0;
        }
        let left = connections.iter().map(Connections::count).sum();
        drop((accepting, phase));
        timeout(CUT, gone(&connections)).await.ok();
        left
    }
}

/// Waits until there are no connections left, nor anything that keeps their places.
async fn gone(connections: &[Connections]) {
    for connections in connections {
        connections.gone().await;
    }
}
