//! Groups that wait to be sent, and what became of them.

use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_store::{Outcome, Outcomes};
use tokio::sync::oneshot;

use crate::encode::OwnedOp;

/// Whoever waits may give up this much before the deadline is seen to be over here.
const CLOSE: Duration = Duration::from_millis(1);

/// A group on its way.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) ops: SmallVec<[OwnedOp; 1]>,
    pub(crate) slot: u16,
    pub(crate) deadline: Instant,
    pub(crate) reply: oneshot::Sender<Answered>,
    /// How often it was sent elsewhere.
    pub(crate) hops: u8,
    /// Whether it was sent here while its slot is moving.
    pub(crate) asking: bool,
    /// Whether it cannot be decided the short way.
    pub(crate) long_way: bool,
    /// Whether it must not share a command: while a slot is moving, a command whose keys are not all in one
    /// place is not carried out at all.
    pub(crate) alone: bool,
}

/// What became of a group, and when by the server's clock, if it was decided.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) outcomes: Outcomes,
    pub(crate) at: Option<Timestamp>,
    /// What was asked, if it may be too late: it may have to be given back.
    pub(crate) late: Option<Box<SmallVec<[OwnedOp; 1]>>>,
}

impl Waiting {
    pub(crate) fn new(
        ops: SmallVec<[OwnedOp; 1]>,
        slot: u16,
        deadline: Instant,
        reply: oneshot::Sender<Answered>,
    ) -> Self {
        Self { ops, slot, deadline, reply, hops: 0, asking: false, alone: false, long_way: false }
    }

    /// Answers; whoever asked may be gone.
    pub(crate) fn answer(self, outcomes: Outcomes, at: Option<Timestamp>) {
        let late = (self.deadline <= Instant::now() + CLOSE).then(|| Box::new(self.ops));
        self.reply.send(Answered { outcomes, at, late }).ok();
    }

    /// Answers every operation with the same.
    pub(crate) fn fail(self, outcome: Outcome) {
        let outcomes = self.ops.iter().map(|_| outcome).collect();
        self.answer(outcomes, None);
    }
}
