//! The state machine: what came and what time it is go in, what is to be sent and who is there come out.

use std::iter::once;
use std::net::SocketAddr;
use std::time::Duration;

use foca::{Foca, PostcardCodec};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tidegate_core::Timestamp;
use tidegate_store::peers::{NodeId, Standing};

use super::effects::{Effects, later};
use super::identity::Identity;
use super::message::Message;
use super::roster::Roster;
use super::seeds::Seeds;
use super::timing::Timing;
use super::words::{Word, Words};
use crate::member::{Member, MemberInfo};
use crate::view::View;

/// How many words of nodes that are not known here are kept before they are forgotten.
const STRAY_WORDS: usize = 1024;

/// How long nothing is due for a node that has left.
const IDLE: Duration = Duration::from_secs(3600);

/// One node's idea of who is there.
///
/// Time is any clock that never goes back. Packets are plain: whoever drives this seals and opens them.
pub struct Machine {
    foca: Foca<Identity, PostcardCodec, SmallRng, Words>,
    effects: Effects,
    timing: Timing,
    words: Words,
    word: Word,
    roster: Roster,
    seeds: Seeds,
    /// When to say hello next, and when to repeat how this node is doing.
    next_hello: Timestamp,
    next_word: Timestamp,
    /// Others have given this node up: since when it may say that it is there nevertheless.
    rejoin_at: Option<Timestamp>,
    rejoined: Option<Timestamp>,
    taken: Option<(Member, Timestamp)>,
    left: bool,
    changed: bool,
}

impl Machine {
    /// A node that knows nobody yet. The same seed makes the same choices.
    pub fn new(me: Member, timing: Timing, seed: u64, now: Timestamp) -> Self {
        let words = Words::default();
        let word = Word { node: me.node.0, version: 0, has_store: false, owes: 0, left: false };
        let rng = SmallRng::seed_from_u64(seed);
        let config = timing.config();
        let mut effects = Effects::default();
        effects.at(now);
        Self {
            foca: Foca::with_custom_broadcast(me.into(), config, rng, PostcardCodec, words.clone()),
            effects,
            timing,
            words,
            word,
            roster: Roster::default(),
            seeds: Seeds::default(),
            next_hello: now,
            next_word: now,
            rejoin_at: None,
            rejoined: None,
            taken: None,
            left: false,
            changed: false,
        }
    }

    /// Looks for others at these addresses from now on. This node's own may be among them.
    pub fn set_seeds(&mut self, addresses: impl IntoIterator<Item = SocketAddr>, now: Timestamp) {
        self.seeds.set(addresses);
        self.next_hello = self.next_hello.min(now);
        self.tick(now);
    }

    /// Takes in a packet that was opened. True if another node has said it to this one.
    pub fn receive(&mut self, plain: &[u8], now: Timestamp) -> bool {
        self.effects.at(now);
        if self.left {
            return false;
        }
        let heard = Message::read(plain).is_some_and(|message| self.hear(&message));
        self.settle();
        heard
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Timestamp) {
        self.effects.at(now);
        if self.left {
            return;
        }
        while let Some(timer) = self.effects.due() {
            // Foca's errors tell of what came too late: there is nothing to be done about it.
            self.foca.handle_timer(timer, &mut self.effects).ok();
        }
        if self.rejoin_at.is_some_and(|at| at <= now) {
            self.be_another(self.foca.identity().incarnation);
        }
        if self.next_word <= now {
            self.say();
        }
        if self.next_hello <= now {
            self.next_hello = later(now, self.timing.hello_every);
            self.greet(self.seeds.to_greet(&self.foca.identity().name, &self.roster));
        }
        self.settle();
    }

    /// When to tick next at the latest.
    pub fn next_tick(&self) -> Timestamp {
        if self.left {
            return later(self.effects.now(), IDLE);
        }
        let own = self.next_hello.min(self.next_word);
        let own = self.rejoin_at.map_or(own, |at| own.min(at));
        self.effects.next().map_or(own, |timer| own.min(timer))
    }

    /// Tells the others how this node is doing.
    pub fn announce(&mut self, standing: Standing, now: Timestamp) {
        self.effects.at(now);
        if self.word.standing() != standing && !self.left {
            (self.word.has_store, self.word.owes) = (standing.has_store, standing.owes);
            self.say();
        }
    }

    /// Says goodbye to all. After that this node hears and says nothing.
    pub fn leave(&mut self, now: Timestamp) {
        self.effects.at(now);
        if self.left {
            return;
        }
        self.word.left = true;
        self.say();
        let from = self.foca.identity().clone();
        for at in self.roster.live_addresses() {
            self.effects.send(at, &Message::Goodbye { from: from.clone() });
        }
        self.foca.leave_cluster(&mut self.effects).ok();
        self.roster.clear();
        (self.left, self.changed) = (true, true);
    }

    /// What is to be sent, to be taken once.
    pub fn packets(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.effects.packets()
    }

    /// Whether the view has changed since the last time this was asked.
    pub fn changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Who is there.
    pub fn view(&self) -> View {
        self.roster.view(self.me())
    }

    /// This node.
    pub fn me(&self) -> Member {
        self.foca.identity().member()
    }

    /// All others, for people to look at.
    pub fn members(&self) -> Vec<MemberInfo> {
        self.roster.infos()
    }

    /// Another node that has this one's name and is there, if others told of one lately.
    pub fn taken(&self) -> Option<&Member> {
        let lately = |at: &Timestamp| later(*at, 5 * self.timing.hello_every) >= self.effects.now();
        self.taken.as_ref().filter(|(_, at)| lately(at)).map(|(by, _)| by)
    }

    /// Whether anybody has ever answered at this address.
    pub fn has_answered(&self, at: SocketAddr) -> bool {
        self.seeds.has_answered(at)
    }

    fn hear(&mut self, message: &Message<'_>) -> bool {
        let me = self.foca.identity().node;
        match message {
            Message::Swim { to, data } => *to == me && self.foca.handle_data(data, &mut self.effects).is_ok(),
            Message::Hello { from, at } if from.node == me => {
                self.seeds.answered(*at, &from.name);
                false
            }
            // Not taken for a sign of life: it may have been caught on the way to somebody else. What it asks for may be.
            Message::Hello { from, at } => {
                if self.accept(from) {
                    let (to, me) = (from.node, self.foca.identity().clone());
                    let lost = self.roster.missing(self.effects.now());
                    self.effects.send(from.address, &Message::Welcome { to, from: me, at: *at, lost });
                    self.foca.announce(from.clone(), &mut self.effects).ok();
                }
                false
            }
            Message::Welcome { to, from, at, lost } if *to == me => {
                self.seeds.answered(*at, &from.name);
                self.taken = None;
                self.accept(from);
                let (name, now) = (&self.foca.identity().name, self.effects.now());
                self.changed |= self.roster.miss(lost, name, &self.words, now);
                true
            }
            Message::Outdated { to, incarnation } if *to == me => {
                if *incarnation >= self.foca.identity().incarnation {
                    self.be_another(*incarnation);
                }
                true
            }
            Message::Taken { to, by } if *to == me && by.node != me => {
                self.taken = Some((by.member(), self.effects.now()));
                true
            }
            Message::Goodbye { from } => {
                let word = Word { left: true, ..self.of(from) };
                self.pass_on(word);
                self.foca.apply_many(once(foca::Member::down(from.clone())), true, &mut self.effects).ok();
                false
            }
            Message::Welcome { .. } | Message::Outdated { .. } | Message::Taken { .. } => false,
        }
    }

    /// Whether somebody may join as who it says it is. If not, it is told why.
    fn accept(&mut self, from: &Identity) -> bool {
        let me = self.foca.identity();
        let to = from.node;
        let mut members = self.foca.iter_membership_state();
        let refusal = if from.name == me.name {
            Some(Message::Taken { to, by: me.clone() })
        } else {
            members.find(|known| known.id().name == from.name).and_then(|known| {
                let gone = known.state() == foca::State::Down;
                let incarnation = known.id().incarnation;
                if known.id() == from {
                    gone.then_some(Message::Outdated { to, incarnation })
                } else if !known.id().supersedes(from) {
                    None
                } else if gone || known.id().node == from.node {
                    Some(Message::Outdated { to, incarnation })
                } else {
                    Some(Message::Taken { to, by: known.id().clone() })
                }
            })
        };
        drop(members);
        if let Some(refusal) = &refusal {
            self.effects.send(from.address, refusal);
        }
        refusal.is_none()
    }

    /// What is known of a node's word, or what it is before it says anything.
    fn of(&self, from: &Identity) -> Word {
        let unheard = Word { node: from.node, version: 0, has_store: false, owes: 0, left: false };
        self.words.of(NodeId(from.node)).unwrap_or(unheard)
    }

    /// Comes back as another than those before, which others have given up. Not more often than it says hello.
    fn be_another(&mut self, than: u64) {
        let now = self.effects.now();
        if let Some(at) = self.rejoined.map(|at| later(at, self.timing.hello_every)).filter(|at| *at > now) {
            self.rejoin_at.get_or_insert(at);
            return;
        }
        (self.rejoined, self.rejoin_at) = (Some(now), None);
        if let Some(another) = self.foca.identity().after(than) {
            self.foca.change_identity(another, &mut self.effects).ok();
            self.next_hello = now;
            // Those who know this node as it was would go on telling it that it is given up, and not why.
            self.greet(self.roster.live_addresses());
            self.changed = true;
        }
    }

    fn greet(&mut self, all: impl IntoIterator<Item = SocketAddr>) {
        for at in all {
            let from = self.foca.identity().clone();
            self.effects.send(at, &Message::Hello { from, at });
        }
    }

    /// Says how this node is doing, as news.
    fn say(&mut self) {
        self.word.version += 1;
        self.next_word = later(self.effects.now(), self.timing.standing_every);
        self.pass_on(self.word);
        self.foca.broadcast(&mut self.effects).ok();
    }

    /// Takes a word, and has it passed on if it is news.
    fn pass_on(&mut self, word: Word) {
        if let Ok(word) = postcard::to_allocvec(&word) {
            self.foca.add_broadcast(&word).ok();
        }
    }

    /// Draws the conclusions of what has happened.
    fn settle(&mut self) {
        let now = self.effects.now();
        if self.effects.given_up() && !self.left {
            self.be_another(self.foca.identity().incarnation);
        }
        if self.words.len() > STRAY_WORDS {
            let (me, roster) = (NodeId(self.word.node), &self.roster);
            self.words.keep(|node| node == me || roster.knows(node));
        }
        self.changed |= self.roster.update(self.foca.iter_members(), &self.words, now);
        let kept = u64::try_from(self.timing.lost_for.as_millis()).unwrap_or(u64::MAX);
        self.changed |= self.roster.forget(Timestamp::from_millis(now.as_millis().saturating_sub(kept)));
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("me", self.foca.identity()).finish_non_exhaustive()
    }
}
