//! Agreement: opening a phase when every member has announced it, and moving to the next.

use crate::event::Notice;
use crate::machine::Machine;
use crate::mistake::{self, Mistake};
use crate::phase::Phase;
use crate::pid::Pid;
use crate::roster::is_majority;

impl Machine {
    /// Looks at everything that was heard and opens what may be opened.
    pub(crate) fn review(&mut self) {
        if !self.roster.is_alive(self.me) && self.departure.is_none() {
            self.rename();
        }
        self.try_join();
        for part in 0..self.config.parts {
            self.review_part(part);
        }
    }

    fn review_part(&mut self, part: u8) {
        let (Some(state), ready) = (self.part(part), self.is_ready(part)) else { return };
        let (was_ready, was_agreed, was_open, phase) =
            (state.ready, state.agreed, state.is_open(), state.phase);
        let agreed = ready && self.is_unanimous(part, phase);
        let told = ready && self.is_told(part, phase);
        let joined = self.joined && self.roster.is_alive(self.me);
        let Some(state) = self.parts.get_mut(usize::from(part)) else { return };
        (state.ready, state.agreed) = (ready, agreed && joined);
        if joined && !phase.is_owned() && !state.store_open {
            state.store_open = agreed || told || mistake::is(Mistake::NoJoining);
        }
        let is_open = state.is_open();
        self.based |= agreed;
        self.announce_soon |= ready != was_ready || is_open != was_open;
        if is_open && !was_open {
            self.notice(Notice::Opened { part, phase, agreed: agreed && !was_agreed });
        }
        self.watch_book(part);
    }

    /// Keeps track of since when there has been no book to ask in a part.
    fn watch_book(&mut self, part: u8) {
        let usable = self.has_book(part);
        let now = self.now;
        if let Some(state) = self.parts.get_mut(usize::from(part)) {
            state.shut_since = if usable { None } else { state.shut_since.or(Some(now)) };
        }
    }

    /// Returns true if the book of a part is open and, if it is the store, can be reached.
    pub(crate) fn has_book(&self, part: u8) -> bool {
        let Some(state) = self.part(part).filter(|state| self.joined && state.is_open()) else {
            return false;
        };
        let reachable = state.health.is_ok(self.now, self.config.timing.store_down);
        state.phase.is_owned() || reachable || self.relay_for(part).is_some()
    }

    /// Returns true if nothing of an earlier phase is left to do.
    fn is_ready(&self, part: u8) -> bool {
        let Some(state) = self.part(part) else { return false };
        let early = mistake::is(Mistake::ReturnBeforeSettling);
        state.phase.is_owned() || state.store_open || early || self.is_settled(part)
    }

    /// Returns true if the last announcement of every other member has this phase and roster, and is ready, and at least one
    /// of all has been part of an agreement before.
    fn is_unanimous(&self, part: u8, phase: Phase) -> bool {
        let mut agreeing: Vec<Pid> = vec![self.me];
        let mut based = self.based;
        for pid in self.others() {
            let Some(heard) = self.peers.get(pid) else { continue };
            let report = heard.announcement.parts.get(usize::from(part));
            let ready = |ready| ready || mistake::is(Mistake::OthersNotReady);
            let same = report.is_some_and(|report| report.phase == phase && ready(report.ready));
            let roster = heard.announcement.roster == self.fingerprint || mistake::is(Mistake::RosterIgnored);
            if same && roster {
                agreeing.push(pid);
                based |= heard.announcement.based;
            }
        }
        let enough = agreeing.len() == self.alive.len()
            || mistake::is(Mistake::MajorityOpens) && phase.is_owned() && is_majority(&agreeing, &self.alive);
        enough && based
    }

    /// Returns true if a member with the same roster uses the store in this phase.
    fn is_told(&self, part: u8, phase: Phase) -> bool {
        !phase.is_owned()
            && self.others().filter_map(|pid| self.peers.get(pid)).any(|heard| {
                let report = heard.announcement.parts.get(usize::from(part));
                heard.announcement.roster == self.fingerprint
                    && report.is_some_and(|report| report.open && report.phase == phase)
            })
    }

    /// Closes the present phase of a part for a later one.
    pub(crate) fn enter_phase(&mut self, part: u8, phase: Phase) {
        if let Some(state) = self.parts.get_mut(usize::from(part)) {
            state.enter(phase);
            self.announce_soon = true;
            self.notice(Notice::Entered { part, phase });
        }
        self.review_part(part);
    }

    /// Moves parts on to owners when the store is lost, and back when it has returned.
    pub(crate) fn advance_phases(&mut self) {
        let fresh = self.fresh(self.config.timing.fresh);
        if !self.joined || self.departure.is_some() || !is_majority(&fresh, &self.alive) {
            return;
        }
        for part in 0..self.config.parts {
            let Some(state) = self.part(part) else { continue };
            let phase = state.phase;
            let advance =
                if phase.is_owned() { self.may_return(part, &fresh) } else { self.is_lost(part, &fresh) };
            if advance {
                self.enter_phase(part, phase.next());
            }
        }
    }

    /// Returns the members of `fresh` that say the store answers them.
    fn with_store(&self, part: u8, fresh: &[Pid]) -> Vec<Pid> {
        let down = self.config.timing.store_down;
        let own = self.part(part).is_some_and(|state| state.health.is_ok(self.now, down));
        let has_store = |pid: &Pid| {
            let report =
                self.peers.get(*pid).and_then(|heard| heard.announcement.parts.get(usize::from(part)));
            if *pid == self.me { own } else { report.is_some_and(|report| report.store_ok) }
        };
        fresh.iter().copied().filter(has_store).collect()
    }

    /// Returns true if no fresh member has the store. A process that was stopped listens first: it knows nothing of late.
    fn is_lost(&self, part: u8, fresh: &[Pid]) -> bool {
        self.now.saturating_sub(self.awake_since) > self.config.timing.store_down
            && self.with_store(part, fresh).is_empty()
    }

    /// Returns true if all are there and agree, and the store has been well for long enough, here and for a majority.
    fn may_return(&self, part: u8, fresh: &[Pid]) -> bool {
        let Some(state) = self.part(part) else { return false };
        state.agreed
            && state.health.is_well(self.now, self.config.timing.store_down)
            && fresh.len() == self.alive.len()
            && is_majority(&self.with_store(part, fresh), &self.alive)
    }
}
