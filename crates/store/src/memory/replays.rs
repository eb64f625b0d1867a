//! Request ids, so that a retry is not counted twice, within bounds that keep an id from becoming a way around a
//! limit.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tidegate_core::{Quota, RequestId, Span, Timestamp};

use super::Fingerprint;

/// How often an admitted id is free again.
pub const MAX_REPLAYS: u8 = 3;
/// How many ids are remembered per key.
pub const MAX_IDS_PER_KEY: usize = 1_024;
/// How long an id is remembered at most.
pub const MAX_MEMORY: Span = Span::from_secs(60);

/// The ids a shard remembers, per key: those admitted, or those charged.
#[derive(Debug)]
pub(super) struct Replays {
    keys: HashMap<Fingerprint, KeyIds, RandomState>,
    remembered: usize,
    room: usize,
}

#[derive(Debug, Default)]
struct KeyIds {
    left: HashMap<(RequestId, u64), u8, RandomState>,
    order: VecDeque<(Timestamp, (RequestId, u64))>,
}

impl Replays {
    /// Remembers up to `room` ids in all.
    pub(super) fn new(room: usize) -> Self {
        Self { keys: HashMap::default(), remembered: 0, room }
    }

    /// Whether `id` was admitted with this cost and may be free once more.
    pub(super) fn is_free(&mut self, key: Fingerprint, id: RequestId, cost: u64, now: Timestamp) -> bool {
        self.expire(key, now);
        self.keys.get(&key).and_then(|ids| ids.left.get(&(id, cost))).is_some_and(|&left| left > 0)
    }

    /// Uses up one replay of an id that is free.
    pub(super) fn replay(&mut self, key: Fingerprint, id: RequestId, cost: u64) {
        if let Some(left) = self.keys.get_mut(&key).and_then(|ids| ids.left.get_mut(&(id, cost))) {
            *left = left.saturating_sub(1);
        }
    }

    /// Remembers an admission, if there is room. An id that is still remembered has used up its replays: it stays
    /// so until it expires.
    pub(super) fn admit(
        &mut self,
        key: Fingerprint,
        id: RequestId,
        cost: u64,
        quota: &Quota,
        now: Timestamp,
    ) {
        if self.remembered >= self.room {
            return;
        }
        let ids = self.keys.entry(key).or_default();
        if ids.order.len() >= MAX_IDS_PER_KEY || ids.left.contains_key(&(id, cost)) {
            return;
        }
        ids.left.insert((id, cost), MAX_REPLAYS);
        ids.order.push_back((now + quota.window().min(MAX_MEMORY), (id, cost)));
        self.remembered += 1;
    }

    fn expire(&mut self, key: Fingerprint, now: Timestamp) {
        let Some(ids) = self.keys.get_mut(&key) else { return };
        let before = ids.order.len();
        while let Some(&(_, id)) = ids.order.front().filter(|(end, _)| *end <= now) {
            ids.order.pop_front();
            ids.left.remove(&id);
        }
        self.remembered -= before - ids.order.len();
        if ids.order.is_empty() {
            self.keys.remove(&key);
        }
    }

    /// Forgets everything that has expired.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let keys: Vec<Fingerprint> = self
            .keys
            .iter()
            .filter(|(_, ids)| ids.order.front().is_some_and(|(end, _)| *end <= now))
            .map(|(key, _)| *key)
            .collect();
        keys.into_iter().for_each(|key| self.expire(key, now));
    }
}
