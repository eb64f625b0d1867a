//! Places for the connections of a listener, and a few in reserve for when all others are taken.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::Patience;
use crate::connection_limiter::{ConnectionLimiter, ConnectionPermit};
use crate::trust::Trust;

/// Places in reserve: probes are few, and over in milliseconds.
const RESERVED: u32 = 16;

/// Number of them that only callers on this machine get.
const RESERVED_FOR_LOCAL: usize = 8;

/// Number of them that one address gets.
const RESERVED_PER_ADDRESS: u32 = 4;

/// Time that a client with a reserved place may take.
pub(crate) const RESERVED_PATIENCE: Patience =
    Patience { head: Duration::from_secs(2), idle: Duration::from_secs(2), take: Duration::from_secs(10) };

/// The places of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    room: u32,
    open: Arc<Semaphore>,
    reserve: Option<Reserve>,
}

#[derive(Clone, Debug)]
struct Reserve {
    places: Arc<Semaphore>,
    limiter: Arc<ConnectionLimiter>,
}

/// A place that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Slot {
    reserved: bool,
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    /// Returns places for `room` connections, none of them reserved.
    pub(crate) fn new(room: u32) -> Self {
        Self { room, open: Arc::new(Semaphore::new(room as usize)), reserve: None }
    }

    /// Adds places in reserve.
    pub(crate) fn with_reserve(self) -> Self {
        let places = Arc::new(Semaphore::new(RESERVED as usize));
        let limiter = ConnectionLimiter::new(RESERVED_PER_ADDRESS, Vec::new());
        Self { reserve: Some(Reserve { places, limiter }), ..self }
    }

    /// Waits for a place; a reserved one if there is no other.
    pub(crate) async fn acquire(&self) -> Option<Slot> {
        let open = Arc::clone(&self.open).acquire_owned();
        let Some(reserve) = &self.reserve else { return open.await.ok().map(Slot::open) };
        tokio::select! {
            biased;
            open = open => open.ok().map(Slot::open),
            reserved = Arc::clone(&reserve.places).acquire_owned() => reserved.ok().map(Slot::reserved),
        }
    }

    /// Gives a connection from `peer` a place, unless its address has too many.
    pub(crate) fn seat(
        &self,
        slot: Slot,
        peer: IpAddr,
        limiter: &Arc<ConnectionLimiter>,
    ) -> Option<ConnectionRoom> {
        // Others may have gone while this one was waited for.
        let better = || Arc::clone(&self.open).try_acquire_owned().ok().map(Slot::open);
        let slot = if slot.reserved { better().unwrap_or(slot) } else { slot };
        let permit = match &self.reserve {
            Some(reserve) if slot.reserved => reserve.permit(peer)?,
            _ => limiter.permit(peer)?,
        };
        Some(ConnectionRoom { slot, trust: Trust::new(permit) })
    }

    /// Returns how many are taken.
    pub(crate) fn taken(&self) -> usize {
        let reserved = self.reserve.as_ref().map_or(0, Reserve::taken);
        (self.room as usize).saturating_sub(self.open.available_permits()) + reserved
    }

    /// Returns the share of the places that is taken, leaving out those in reserve.
    pub(crate) fn share(&self) -> f64 {
        let free = u32::try_from(self.open.available_permits()).unwrap_or(self.room).min(self.room);
        f64::from(self.room - free) / f64::from(self.room)
    }

    /// Waits until none is taken; nobody may be accepting any more.
    pub(crate) async fn all_free(&self) {
        drop(self.open.acquire_many(self.room).await);
        if let Some(reserve) = &self.reserve {
            drop(reserve.places.acquire_many(RESERVED).await);
        }
    }
}

impl Slot {
    fn open(permit: OwnedSemaphorePermit) -> Self {
        Self { reserved: false, _permit: permit }
    }

    fn reserved(permit: OwnedSemaphorePermit) -> Self {
        Self { reserved: true, _permit: permit }
    }
}

impl Reserve {
    fn taken(&self) -> usize {
        (RESERVED as usize).saturating_sub(self.places.available_permits())
    }

    fn permit(&self, peer: IpAddr) -> Option<ConnectionPermit> {
        let enough = peer.is_loopback() || self.places.available_permits() >= RESERVED_FOR_LOCAL;
        if enough { self.limiter.permit(peer) } else { None }
    }
}

/// The room a connection takes, for as long as there are bytes on it, whatever they mean.
#[derive(Debug)]
pub struct ConnectionRoom {
    slot: Slot,
    trust: Arc<Trust>,
}

impl ConnectionRoom {
    /// Returns the trust in the client of the connection.
    pub(crate) fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Returns whether it is one in reserve.
    pub(crate) fn is_reserved(&self) -> bool {
        self.slot.reserved
    }
}

impl Drop for ConnectionRoom {
    fn drop(&mut self) {
        self.trust.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::now_or_never;

    const LOCAL: &str = "127.0.0.1";

    async fn seat(slots: &Slots, peer: &str) -> Option<ConnectionRoom> {
        let slot = now_or_never(slots.acquire()).await??;
        slots.seat(slot, peer.parse().unwrap(), &ConnectionLimiter::new(u32::MAX, Vec::new()))
    }

    /// Seats as many as there is room for, a hundred at most.
    async fn seat_all(slots: &Slots, peer: &str) -> Vec<ConnectionRoom> {
        let mut rooms = Vec::new();
        while rooms.len() < 100
            && let Some(room) = seat(slots, peer).await
        {
            rooms.push(room);
        }
        rooms
    }

    #[tokio::test]
    async fn the_reserve_is_used_once_all_else_is_taken() {
        let slots = Slots::new(1).with_reserve();
        let open = seat(&slots, "192.0.2.1").await.unwrap();
        assert!(!open.is_reserved());
        let reserved = seat(&slots, "192.0.2.1").await.unwrap();
        assert!(reserved.is_reserved());
        assert_eq!((slots.taken(), slots.share()), (2, 1.0));
        drop(open);
        assert!(!seat(&slots, "192.0.2.1").await.unwrap().is_reserved());
        drop(reserved);
        assert_eq!(slots.taken(), 0);
    }

    #[tokio::test]
    async fn no_address_takes_the_whole_reserve_and_strangers_leave_some_to_this_machine() {
        let slots = Slots::new(1).with_reserve();
        let _open = seat(&slots, LOCAL).await.unwrap();
        let mut rooms = seat_all(&slots, "192.0.2.1").await;
        assert_eq!(rooms.len(), RESERVED_PER_ADDRESS as usize);
        for stranger in 2..100 {
            rooms.extend(seat(&slots, &format!("192.0.2.{stranger}")).await);
        }
        assert_eq!(rooms.len(), RESERVED as usize - RESERVED_FOR_LOCAL);
        assert_eq!(seat_all(&slots, LOCAL).await.len(), RESERVED_PER_ADDRESS as usize);
    }

    #[tokio::test]
    async fn without_a_reserve_all_places_are_alike() {
        let slots = Slots::new(1);
        let open = seat(&slots, LOCAL).await.unwrap();
        assert!(!open.is_reserved() && seat(&slots, LOCAL).await.is_none());
    }
}
