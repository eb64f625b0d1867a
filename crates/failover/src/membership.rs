//! Who takes part: announcing, hearing, joining, forgetting.

use std::time::Duration;

use crate::announcement::{Announcement, Gossip, PartReport};
use crate::event::{Action, Notice};
use crate::machine::Machine;
use crate::message::{Envelope, Message};
use crate::pid::{NodeName, Pid};
use crate::rendezvous;
use crate::roster::is_majority;
use crate::timing::Moment;

/// Shortest time between two announcements.
const MIN_GAP: Duration = Duration::from_millis(10);
/// Most notes, and most ledger entries, that travel with one round of announcements.
const MAX_PUSHED: usize = 256;
/// Half of the members without the lowest forgets after this many times the usual silence.
const TIE_PATIENCE: u32 = 6;

impl Machine {
    /// Takes over a changed roster.
    pub(crate) fn roster_changed(&mut self) {
        self.alive = self.roster.alive().collect();
        self.fingerprint = self.roster.fingerprint();
        let (roster, now) = (&self.roster, self.now);
        self.peers.retain(|pid| roster.is_alive(pid));
        self.first_known.retain(|pid, _| roster.is_alive(*pid));
        for pid in &self.alive {
            self.first_known.entry(*pid).or_insert(now);
        }
        self.announce_soon = true;
    }

    /// Returns the other members.
    pub(crate) fn others(&self) -> impl Iterator<Item = Pid> + '_ {
        self.alive.iter().copied().filter(|pid| *pid != self.me)
    }

    /// Returns the members heard within `age`, this one included, in order.
    pub(crate) fn fresh(&self, age: Duration) -> Vec<Pid> {
        let is_fresh = |pid: &Pid| {
            let heard = self.peers.get(*pid).map(|heard| self.now.saturating_sub(heard.at) <= age);
            *pid == self.me || heard.unwrap_or(false)
        };
        self.alive.iter().copied().filter(is_fresh).collect()
    }

    pub(crate) fn earliest_announcement(&self) -> Moment {
        self.last_announced.map_or(self.now, |last| last + MIN_GAP)
    }

    pub(crate) fn is_announcement_due(&self) -> bool {
        let trouble = !self.joined
            || self.departure.is_some()
            || (0..self.config.parts).any(|part| self.is_troubled(part));
        let interval = if trouble { Duration::ZERO } else { self.config.timing.calm_interval };
        self.last_announced.is_none_or(|last| self.now >= last + interval)
    }

    /// Returns true if a part is not plainly the store's.
    fn is_troubled(&self, part: u8) -> bool {
        let failing = self.config.timing.relay_after;
        self.part(part).is_some_and(|part| !part.store_open || !part.health.is_ok(self.now, failing))
    }

    fn report(&self, part: u8) -> Option<PartReport> {
        let state = self.part(part)?;
        Some(PartReport {
            phase: state.phase,
            ready: state.ready,
            open: state.is_open(),
            store_ok: state.health.is_ok(self.now, self.config.timing.store_down),
            time: state.health.told_time(self.now),
        })
    }

    /// Tells all contacts and members about this one.
    pub(crate) fn announce(&mut self) {
        self.last_announced = Some(self.now);
        self.announce_soon = false;
        let announcement = Announcement {
            pid: self.me,
            seq: self.next_seq(),
            roster: self.fingerprint,
            joined: self.joined,
            based: self.based,
            parts: (0..self.config.parts).filter_map(|part| self.report(part)).collect(),
        };
        let vouched: Vec<(Announcement, u32)> = self
            .peers
            .within(self.config.timing.recent, self.now)
            .map(|heard| (heard.announcement.clone(), age_millis(self.now, heard.at)))
            .collect();
        let mut names: Vec<NodeName> =
            self.contacts.iter().copied().chain(self.others().map(|pid| pid.name)).collect();
        names.retain(|name| *name != self.me.name);
        names.sort_unstable();
        names.dedup();
        let pushes = self.collect_pushes();
        for name in names {
            let known = self.peers.has_roster(name, self.fingerprint);
            let mut gossip = Gossip {
                announcement: announcement.clone(),
                roster: (!known).then(|| self.roster.clone()),
                vouched: vouched.clone(),
                notes: Vec::new(),
                charges: Vec::new(),
            };
            pushes.iter().filter(|(to, _)| *to == name).for_each(|(_, push)| push.add_to(&mut gossip));
            let envelope = Envelope { from: self.me, to: None, message: Message::Announce(Box::new(gossip)) };
            self.act(Action::Send { to: name, envelope });
        }
    }

    /// Collects changed notes and ledger entries of troubled parts, each for the member that will need it.
    fn collect_pushes(&mut self) -> Vec<(NodeName, Push)> {
        let mut pushes = Vec::new();
        for part in (0..self.config.parts).filter(|part| self.is_troubled(*part)).collect::<Vec<_>>() {
            for (key, note) in self.notes.take_changed(part, MAX_PUSHED, self.now) {
                self.successor(key.tag).into_iter().for_each(|to| pushes.push((to, Push::Note(key, note))));
            }
            for charge in self.ledger.take_changed(part, &self.mine, MAX_PUSHED, self.now) {
                self.successor(charge.key.tag)
                    .into_iter()
                    .for_each(|to| pushes.push((to, Push::Charge(charge))));
            }
        }
        pushes
    }

    /// Returns the member that counts a tag if this one does not: its owner, or its owner's heir.
    fn successor(&self, tag: tidegate_core::Tag) -> Option<NodeName> {
        let owner = rendezvous::owner(tag, &self.alive).filter(|owner| *owner != self.me);
        owner.or_else(|| rendezvous::heir(tag, &self.alive)).map(|pid| pid.name)
    }

    /// Takes in an announcement and all that came with it.
    pub(crate) fn heard(&mut self, gossip: Gossip) {
        let Gossip { announcement, roster, vouched, notes, charges } = gossip;
        self.learn_notes(notes);
        charges.into_iter().for_each(|charge| self.learn_charge(charge));
        let mut changed = roster.is_some_and(|roster| self.roster.merge(&roster));
        changed |= self.roster.add(announcement.pid);
        if changed {
            self.roster_changed();
        }
        self.hear(announcement, self.now);
        for (announcement, age) in vouched {
            let at = self.now.saturating_sub(Duration::from_millis(age.into()));
            self.hear(announcement, at);
        }
        self.review();
    }

    fn hear(&mut self, announcement: Announcement, at: Moment) {
        if self.mine.contains(&announcement.pid) {
            return;
        }
        for (part, report) in (0..self.config.parts).zip(&announcement.parts) {
            if self.part(part).is_some_and(|state| report.phase > state.phase) {
                self.enter_phase(part, report.phase);
            }
            let (now, age) = (self.now, self.now.saturating_sub(at));
            let without_store = self.config.timing.relay_after;
            if let Some(state) = self.parts.get_mut(usize::from(part)).filter(|_| age.is_zero()) {
                let behind = report.store_ok && !state.health.is_ok(now, without_store);
                state.health.adopt_clock(report.time, now, behind);
            }
        }
        if self.roster.is_alive(announcement.pid) {
            self.peers.hear(announcement, at);
        }
    }

    /// Joins a running fleet, or forms one if there is none.
    pub(crate) fn try_join(&mut self) {
        let listed = self
            .peers
            .within(Duration::MAX, self.now)
            .any(|heard| heard.announcement.roster == self.fingerprint);
        let running = self.peers.within(Duration::MAX, self.now).any(|heard| heard.announcement.joined);
        if !self.joined && listed && running {
            self.joined = true;
            self.announce_soon = true;
            self.notice(Notice::Joined);
        }
        if !self.based && self.may_form() {
            (self.joined, self.based, self.announce_soon) = (true, true, true);
            self.notice(Notice::Formed);
        }
    }

    /// Returns true if no fleet is running, the store answers, and all members heard want the same roster.
    fn may_form(&self) -> bool {
        let timing = self.config.timing;
        let waited = self.contacts.is_empty() || self.now.saturating_sub(self.started) >= timing.join;
        let store = self.parts.iter().all(|part| part.health.is_ok(self.now, timing.store_down));
        let same = |pid: Pid| {
            self.peers.get(pid).is_some_and(|heard| {
                let recent = self.now.saturating_sub(heard.at) <= timing.calm_interval;
                recent && heard.announcement.roster == self.fingerprint && !heard.announcement.based
            })
        };
        waited && store && self.others().all(same)
    }

    /// Gives up members that were silent for too long, while a majority is there.
    pub(crate) fn forget_silent(&mut self) {
        let Some(forget) = self.config.timing.forget else { return };
        let lively = self.fresh(self.config.timing.calm_interval + self.config.timing.fresh);
        let patience = match is_majority(&lively, &self.alive) {
            true => forget,
            false if lively.len() * 2 == self.alive.len() => forget * TIE_PATIENCE,
            false => return,
        };
        for pid in self.others().collect::<Vec<_>>() {
            let first = self.first_known.get(&pid).copied().unwrap_or(self.now);
            let last = self.peers.get(pid).map_or(first, |heard| heard.at);
            if self.now.saturating_sub(last) > patience && self.roster.remove(pid) {
                self.roster_changed();
                self.notice(Notice::Forgot(pid));
            }
        }
    }

    /// Goes on as a new process after the others gave this one up: keeps notes and ledger, drops all permissions.
    pub(crate) fn rename(&mut self) {
        let order = self.roster.latest(self.me.name).map_or(0, |start| start.order) + 1;
        let (from, to) = (self.me, Pid::new(self.me.name, order, self.draw_nonce()));
        self.me = to;
        self.mine.push(to);
        self.roster.add(to);
        (self.joined, self.based, self.started) = (false, false, self.now);
        self.peers.retain(|_| false);
        self.parts.iter_mut().for_each(crate::part::Part::shut);
        self.roster_changed();
        self.notice(Notice::Renamed { from, to });
    }
}

/// Something that travels with announcements in trouble.
enum Push {
    Note(crate::key::CounterKey, crate::note::Note),
    Charge(crate::ledger::Charge),
}

impl Push {
    fn add_to(&self, gossip: &mut Gossip) {
        match self {
            Self::Note(key, note) => gossip.notes.push((*key, *note)),
            Self::Charge(charge) => gossip.charges.push(*charge),
        }
    }
}

fn age_millis(now: Moment, at: Moment) -> u32 {
    u32::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u32::MAX)
}
