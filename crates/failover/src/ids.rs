//! Request ids that a book has debited, so that a retry is free and a late grant can be cancelled.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::{Quota, RequestId, Span, Timestamp};

use crate::book::{CallName, Draw};
use crate::message::Cancellation;
use crate::mistake::{self, Mistake};
use crate::phase::Epoch;

/// Most ids remembered per counter.
const MAX_IDS: usize = 1_024;
/// Most replays of one id.
const MAX_REPLAYS: u8 = 3;
/// Longest time that an id is remembered.
const MAX_MEMORY: Span = Span::from_secs(60);

/// Ids debited on one counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    debits: BTreeMap<(RequestId, u64), Debit>,
    order: VecDeque<(Timestamp, (RequestId, u64))>,
}

#[derive(Clone, Copy, Debug)]
struct Debit {
    epoch: Epoch,
    name: CallName,
    slot: u64,
    at: Timestamp,
    replays: u8,
}

impl Ids {
    /// Uses up one replay of an id that was debited with this cost under this epoch. Returns the slot and time of the debit.
    pub(crate) fn replay(
        &mut self,
        id: RequestId,
        cost: u64,
        epoch: Epoch,
        now: Timestamp,
    ) -> Option<(u64, Timestamp)> {
        self.expire(now);
        let debit = self.debits.get_mut(&(id, cost))?;
        if debit.epoch != epoch || debit.replays >= MAX_REPLAYS {
            return None;
        }
        debit.replays += 1;
        Some((debit.slot, debit.at))
    }

    /// Remembers an id that was debited, if there is room.
    pub(crate) fn remember(
        &mut self,
        id: RequestId,
        draw: &Draw,
        quota: &Quota,
        (slot, at): (u64, Timestamp),
    ) {
        if self.order.len() < MAX_IDS {
            let Draw { cost, epoch, name, .. } = *draw;
            let debit = Debit { epoch, name, slot, at, replays: 0 };
            if self.debits.insert((id, cost), debit).is_none() {
                self.order.push_back((at + quota.window().min(MAX_MEMORY), (id, cost)));
            }
        }
    }

    /// Forgets an id that this very take debited, if it was never replayed. Returns the slot and time of the debit.
    pub(crate) fn cancel(&mut self, cancel: &Cancellation) -> Option<(u64, Timestamp)> {
        let debit = self.debits.get(&(cancel.id, cancel.cost))?;
        let replayed = debit.replays > 0 && !mistake::is(Mistake::CancelReplayed);
        let same = debit.name == cancel.name || mistake::is(Mistake::UnnamedCancels);
        if debit.epoch != cancel.epoch || !same || replayed {
            return None;
        }
        self.debits.remove(&(cancel.id, cancel.cost)).map(|debit| (debit.slot, debit.at))
    }

    fn expire(&mut self, now: Timestamp) {
        while let Some(&(_, id)) = self.order.front().filter(|(end, _)| *end <= now) {
            self.order.pop_front();
            self.debits.remove(&id);
        }
    }
}
