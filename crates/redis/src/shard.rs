//! One master, and the ways to it.

use std::sync::{Arc, Weak};

use tidegate_store::{BreakerState, Failure, ShardStats};
use tokio::sync::Notify;

use crate::connect::Connector;
use crate::event_loops::EventLoops;
use crate::lane::Lane;
use crate::link::{Connected, Link};
use crate::master::Master;
use crate::problem::Problem;
use crate::redirect::Redirect;
use crate::store::Clockwork;
use crate::url::Address;
use crate::waiting::Waiting;

/// One master, asked from each event loop over a connection of its own.
pub(crate) struct Shard {
    master: Arc<Master>,
    /// One per event loop, in the same order.
    lanes: Box<[Arc<Lane>]>,
    event_loops: EventLoops,
}

/// What connecting to any master takes.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) connector: Arc<Connector>,
    pub(crate) clock: Arc<Clockwork>,
    pub(crate) event_loops: EventLoops,
    /// Told when a connection is up, for those who have to do something first then.
    pub(crate) up: Arc<Notify>,
}

impl Shard {
    /// Begins to connect to the master at `address`, or to one that is yet to be [found](Self::retarget).
    pub(crate) fn start(
        name: String,
        address: Option<&Address>,
        setup: &Setup,
        redirect: Weak<dyn Redirect>,
        clustered: bool,
    ) -> Arc<Self> {
        let Setup { connector, clock, event_loops, up } = setup;
        let master = Master::new(name, Arc::clone(connector), Arc::clone(clock), redirect, clustered);
        let lane = |event_loop| {
            let link = Link::start(Arc::clone(&master), address.cloned(), Arc::clone(up), event_loop);
            Lane::new(Arc::clone(&master), link)
        };
        let lanes = event_loops.iter().enumerate().map(lane).collect();
        Arc::new(Self { master, lanes, event_loops: event_loops.clone() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.master.name
    }

    pub(crate) fn stats(&self) -> &Arc<ShardStats> {
        &self.master.stats
    }

    pub(crate) fn breaker(&self) -> BreakerState {
        self.master.breaker.state()
    }

    /// Returns whether it is the master at `address`.
    pub(crate) fn is_at(&self, address: &Address) -> bool {
        self.master.name == address.to_string()
    }

    /// Sends a group with the next call of this event loop.
    pub(crate) fn submit(&self, waiting: Waiting) {
        if let Some(lane) = self.lane() {
            lane.submit(waiting);
        }
    }

    /// Looks whether calls are out that nobody has heard of for too long.
    pub(crate) fn look(&self) {
        self.master.breaker.look();
    }

    /// Returns whether this event loop is connected to it, or about to be, and it is not left alone.
    pub(crate) fn reach(&self) -> Result<(), Failure> {
        self.lane().map_or(Err(Failure::Connection), |lane| lane.link.reach())
    }

    /// Returns a connection for other things than decisions, or why there is none.
    pub(crate) fn connection(&self) -> Result<redis::aio::MultiplexedConnection, Problem> {
        let not_started = || Problem::new(Failure::Connection, "not connected yet");
        let Connected { connection, .. } = self.lanes.first().ok_or_else(not_started)?.link.get()?;
        Ok(connection)
    }

    /// Returns where it is, if that has been found out.
    pub(crate) fn address(&self) -> Option<Address> {
        self.lanes.first()?.link.address()
    }

    /// Returns why an event loop is not connected to it, if one is not.
    pub(crate) fn disconnected(&self) -> Option<Problem> {
        self.lanes.iter().find_map(|lane| lane.link.problem())
    }

    /// Returns why it cannot be reached, if it cannot: no connection, or one that is silent.
    pub(crate) fn out_of_reach(&self) -> Option<Problem> {
        self.disconnected().or_else(|| self.lanes.iter().find_map(|lane| lane.link.silence()))
    }

    /// Returns why it cannot be used, as far as is known.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.out_of_reach().or_else(|| self.master.problem())
    }

    /// Goes over to another server at once; what is on its way to the old one is lost.
    pub(crate) fn retarget(&self, address: &Address) {
        if self.address().as_ref() == Some(address) {
            return;
        }
        // What is known of the old one says nothing about the new one.
        self.master.breaker.reset();
        self.lanes.iter().for_each(|lane| lane.link.retarget(address));
    }

    /// Returns the way from the event loop that this is called on.
    fn lane(&self) -> Option<&Arc<Lane>> {
        self.lanes.get(self.event_loops.current())
    }
}
