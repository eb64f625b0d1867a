//! Figures of runs.

use std::ops::AddAssign;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunStats {
    /// Requests made.
    pub requests: u64,
    /// Requests admitted, by whatever means.
    pub admitted: u64,
    /// Requests admitted from the pool.
    pub by_reserve: u64,
    /// Requests admitted by an owner.
    pub by_owner: u64,
    /// Requests admitted within the emergency cap.
    pub by_emergency: u64,
    /// Requests refused by a book.
    pub refused: u64,
    /// Requests undecided.
    pub undecided: u64,
    /// Events processed.
    pub events: u64,
    /// Books opened by owners.
    pub books: u64,
    /// Times that a part entered an odd phase at some node.
    pub outages: u64,
    /// Members given up while they were running, and fleets formed beside others.
    pub splits: u64,
    /// Most that was admitted in one window, in thousandths of its limit, by the bounds that apply.
    pub worst: u64,
}

impl AddAssign for RunStats {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.admitted += other.admitted;
        self.by_reserve += other.by_reserve;
        self.by_owner += other.by_owner;
        self.by_emergency += other.by_emergency;
        self.refused += other.refused;
        self.undecided += other.undecided;
        self.events += other.events;
        self.books += other.books;
        self.outages += other.outages;
        self.splits += other.splits;
        self.worst = self.worst.max(other.worst);
    }
}
