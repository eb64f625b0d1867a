//! What foca wants done: packets now, timers later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::Duration;

use foca::{Notification, Runtime, Timer};
use tidegate_core::Timestamp;

use super::identity::Identity;
use super::message::Message;

/// What is to be sent, and what is to be done when.
#[derive(Debug, Default)]
pub(super) struct Effects {
    now: Timestamp,
    packets: Vec<(SocketAddr, Vec<u8>)>,
    /// By time; at the same time as foca orders them, and then as they came.
    timers: BinaryHeap<Reverse<(Timestamp, Timer<Identity>, u64)>>,
    submitted: u64,
    given_up: bool,
}

impl Effects {
    /// The same, at this time.
    pub(super) fn at(&mut self, now: Timestamp) -> &mut Self {
        self.now = self.now.max(now);
        self
    }

    /// The latest time that was told.
    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }

    /// A message of ours is to be sent.
    pub(super) fn send(&mut self, to: SocketAddr, message: &Message<'_>) {
        self.packets.push((to, message.write()));
    }

    /// What is to be sent, to be taken once.
    pub(super) fn packets(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        std::mem::take(&mut self.packets)
    }

    /// The next timer that is due.
    pub(super) fn due(&mut self) -> Option<Timer<Identity>> {
        if self.next()? > self.now {
            return None;
        }
        self.timers.pop().map(|Reverse((_, timer, _))| timer)
    }

    /// When the next timer is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Whether others have told since the last time that they gave this node up.
    pub(super) fn given_up(&mut self) -> bool {
        std::mem::take(&mut self.given_up)
    }
}

/// So much later.
pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_add(by))
}

impl Runtime<Identity> for Effects {
    /// Who is there is read from foca's members: that tells more.
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        self.given_up |= notification == Notification::Defunct;
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        self.send(to.address, &Message::Swim { to: to.node, data });
    }

    fn submit_after(&mut self, event: Timer<Identity>, after: Duration) {
        self.submitted += 1;
        self.timers.push(Reverse((later(self.now, after), event, self.submitted)));
    }
}
