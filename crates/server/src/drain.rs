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

    /// What connections that are not HTTP any more are to do: see to it that they end when the phase is [`Phase::Closing`].
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Asks clients to go elsewhere, and goes on serving them.
    pub(crate) fn leave(&self) {
        self.phase.send_replace(Phase::Leaving);
    }

    /// Accepts no more and lets what has been accepted finish within `patience`; cuts the rest and says how many those
    /// were.
    pub(crate) async fn close(mut self, patience: Duration) -> usize {
        self.phase.send_replace(Phase::Closing);
        let finished = async {
            // Only then is it clear which connections there are.
            while self.accepting.join_next().await.is_some() {}
            for connections in &self.connections {
                connections.gone().await;
            }
        };
        match timeout(patience, finished).await {
            Ok(()) => 0,
            Err(_) => self.connections.iter().map(Connections::count).sum(),
        }
    }
}
