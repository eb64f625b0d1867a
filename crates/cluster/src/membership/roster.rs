//! Who is live and who is lost, by name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_store::peers::{NodeId, Standing};

use super::identity::Identity;
use super::message::Missing;
use super::words::Words;
use crate::member::{Member, MemberInfo, State, UNHEARD};
use crate::view::View;

/// How many bytes of names a newcomer is told of as lost, so that a packet holds them.
const TOLD: usize = 500;

/// How many are taken to be lost on another's word.
const MOST_LOST: usize = 256;

/// Another node, as it was last seen.
#[derive(Clone, Debug)]
struct Seen {
    identity: Identity,
    state: State,
    since: Timestamp,
    standing: Standing,
}

/// Who is live and who is lost. Nobody is both.
#[derive(Debug, Default)]
pub(super) struct Roster {
    live: BTreeMap<Arc<str>, Seen>,
    lost: BTreeMap<Arc<str>, Seen>,
}

impl Roster {
    /// Takes in who is there now. Whoever is not any more is lost, unless it has said goodbye. True if that changes the
    /// view.
    pub(super) fn update<'a>(
        &mut self,
        active: impl Iterator<Item = &'a foca::Member<Identity>>,
        words: &Words,
        now: Timestamp,
    ) -> bool {
        let mut live = BTreeMap::new();
        let mut changed = false;
        for member in active {
            let identity = member.id().clone();
            let word = words.of(NodeId(identity.node));
            if word.is_some_and(|word| word.left) {
                continue;
            }
            let standing = word.map_or(UNHEARD, |word| word.standing());
            let state = if member.state() == foca::State::Suspect { State::Suspect } else { State::Alive };
            let before = self.live.remove(&identity.name);
            let same = before.as_ref().filter(|seen| seen.identity == identity);
            changed |= same.is_none_or(|seen| seen.standing != standing);
            let since = same.filter(|seen| seen.state == state).map_or(now, |seen| seen.since);
            changed |= self.lost.remove(&identity.name).is_some();
            live.insert(Arc::clone(&identity.name), Seen { identity, state, since, standing });
        }
        for (name, seen) in std::mem::replace(&mut self.live, live) {
            changed = true;
            self.lost.insert(name, Seen { state: State::Lost, since: now, ..seen });
        }
        let lost = self.lost.len();
        self.lost.retain(|_, seen| words.of(NodeId(seen.identity.node)).is_none_or(|word| !word.left));
        changed || self.lost.len() < lost
    }

    /// Forgets those that were lost before then. True if there were any.
    pub(super) fn forget(&mut self, before: Timestamp) -> bool {
        let lost = self.lost.len();
        self.lost.retain(|_, seen| seen.since >= before);
        self.lost.len() < lost
    }

    /// Who is lost, for a newcomer: as many as a packet holds.
    pub(super) fn missing(&self, now: Timestamp) -> Vec<Missing> {
        let mut room = TOLD;
        let fits = |(name, _): &(&Arc<str>, &Seen)| {
            room = room.saturating_sub(name.len() + 40);
            room > 0
        };
        let missing =
            |seen: &Seen| Missing { who: seen.identity.clone(), for_ms: now.since(seen.since).as_millis() };
        self.lost.iter().take_while(fits).map(|(_, seen)| missing(seen)).collect()
    }

    /// Takes another's word for who was lost before this node came. Whoever is met is not. True if that changes the view.
    pub(super) fn miss(&mut self, missing: &[Missing], me: &str, words: &Words, now: Timestamp) -> bool {
        let before = self.lost.len();
        for Missing { who, for_ms } in missing {
            let left = words.of(NodeId(who.node)).is_some_and(|word| word.left);
            if *who.name == *me || left || self.is_live(&who.name) || self.lost.len() >= MOST_LOST {
                continue;
            }
            let since = Timestamp::from_millis(now.as_millis().saturating_sub(*for_ms));
            let seen = Seen { identity: who.clone(), state: State::Lost, since, standing: UNHEARD };
            self.lost.entry(Arc::clone(&who.name)).or_insert(seen);
        }
        self.lost.len() > before
    }

    /// Nobody is there any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether somebody of this name is there.
    pub(super) fn is_live(&self, name: &str) -> bool {
        self.live.contains_key(name)
    }

    /// Whether anything is remembered of a process.
    pub(super) fn knows(&self, node: NodeId) -> bool {
        self.live.values().chain(self.lost.values()).any(|seen| seen.identity.node == node.0)
    }

    /// Where those are who are there.
    pub(super) fn live_addresses(&self) -> Vec<SocketAddr> {
        self.live.values().map(|seen| seen.identity.address).collect()
    }

    /// Where those were who are lost.
    pub(super) fn lost_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.lost.values().map(|seen| seen.identity.address)
    }

    /// For people to look at.
    pub(super) fn infos(&self) -> Vec<MemberInfo> {
        let all = self.live.values().chain(self.lost.values());
        let info = |seen: &Seen| MemberInfo {
            member: seen.identity.member(),
            state: seen.state,
            since: seen.since,
            standing: seen.standing,
        };
        all.map(info).collect()
    }

    /// As keys go by it.
    pub(super) fn view(&self, me: Member) -> View {
        let live = self.live.values().map(|seen| (seen.identity.member(), seen.standing));
        View::new(me, live, self.lost.values().map(|seen| seen.identity.member()))
    }
}
