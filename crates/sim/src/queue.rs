//! The queue of everything that is going to happen, in order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::scenario::Micros;

struct Scheduled<E> {
    at: Micros,
    number: u64,
    event: E,
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Scheduled<E> {}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Scheduled<E> {
    /// The earliest is the greatest, as the heap wants it; of two at the same time, the one scheduled first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// Events by time, then by the order in which they were scheduled.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Scheduled<E>>,
    number: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), number: 0 }
    }

    pub(crate) fn push(&mut self, at: Micros, event: E) {
        self.number += 1;
        self.heap.push(Scheduled { at, number: self.number, event });
    }

    pub(crate) fn pop(&mut self) -> Option<(Micros, E)> {
        self.heap.pop().map(|scheduled| (scheduled.at, scheduled.event))
    }
}
