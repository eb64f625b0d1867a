//! What is still to be delivered.
//!
//! Of each alert at most two messages wait: that it fires and that it is over, or the other way round. One that comes and goes
//! while nobody takes messages ends up as what it is in the end. So alerts never need more room than there is; only events do.

use std::collections::VecDeque;

use super::message::{Message, State};

/// How many events wait; of more, the oldest are dropped.
const MAX_EVENTS: usize = 50;

/// Messages in the order in which they are to be delivered.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Message>,
    /// The one that is being delivered.
    under_way: Option<Message>,
    dropped: u64,
}

impl Outbox {
    pub(super) fn add(&mut self, message: Message) {
        if message.state == State::Event {
            self.waiting.push_back(message);
            self.bound_events();
            return;
        }
        let same = |other: &Message| other.name == message.name && other.state != State::Event;
        let queued: Vec<usize> =
            (0..self.waiting.len()).filter(|index| self.waiting.get(*index).is_some_and(same)).collect();
        let under_way = self.under_way.as_ref().filter(|other| same(other));
        let last = queued.last().and_then(|index| self.waiting.get(*index)).or(under_way);
        if last.is_some_and(|last| last.state == message.state) {
            return;
        }
        match queued.last() {
            // What waits last is undone by this one, and what came before it says the same as this.
            Some(index) if queued.len() + usize::from(under_way.is_some()) >= 2 => {
                self.waiting.remove(*index);
            }
            _ => self.waiting.push_back(message),
        }
    }

    fn bound_events(&mut self) {
        let is_event = |message: &Message| message.state == State::Event;
        if self.waiting.iter().filter(|message| is_event(message)).count() > MAX_EVENTS
            && let Some(oldest) = self.waiting.iter().position(is_event)
        {
            self.waiting.remove(oldest);
            self.dropped += 1;
        }
    }

    /// The next one, which is under way until it is [done](Self::done).
    pub(super) fn take(&mut self) -> Option<Message> {
        self.under_way = self.waiting.pop_front();
        self.under_way.clone()
    }

    pub(super) fn done(&mut self) {
        self.under_way = None;
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.under_way.is_some())
    }

    /// How many had no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
