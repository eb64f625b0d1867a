//! A line that hands out each chunk a while after it was put in.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many bytes may be in a line before its source has to wait: what a delay of 100 ms holds at 160 MB/s.
const ROOM: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    closed: bool,
}

/// Chunks in flight. All of them age at once, so that a delay costs no throughput.
#[derive(Debug, Default)]
pub(super) struct DelayLine {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl DelayLine {
    /// Puts in a chunk that is due at this time, or when those before it are out; waits for room.
    pub(super) fn put(&self, due: Instant, chunk: Vec<u8>) {
        let full = |queue: &mut Queue| queue.bytes >= ROOM && !queue.closed;
        let mut queue = self.changed.wait_while(self.queue(), full).unwrap_or_else(PoisonError::into_inner);
        queue.bytes += chunk.len();
        queue.chunks.push_back((due, chunk));
        self.changed.notify_all();
    }

    /// Takes the next chunk, once it is due; nothing when all are out and no more will come.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            queue = match queue.chunks.front() {
                Some((due, _)) if *due <= now => break,
                Some((due, _)) => {
                    let left = *due - now;
                    self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None if queue.closed => return None,
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let (_, chunk) = queue.chunks.pop_front()?;
        queue.bytes -= chunk.len();
        self.changed.notify_all();
        Some(chunk)
    }

    /// Nothing more will be put in; what is in still comes out.
    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }

    /// Forgets all that is in, and closes.
    pub(super) fn clear(&self) {
        let mut queue = self.queue();
        queue.chunks.clear();
        queue.bytes = 0;
        queue.closed = true;
        self.changed.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn chunks_come_out_in_order_and_not_before_they_are_due() {
        let line = DelayLine::default();
        let due = Instant::now() + Duration::from_millis(20);
        line.put(due, b"late".into());
        line.put(Instant::now(), b"early".into());
        line.close();
        assert_eq!(line.take(), Some(b"late".into()));
        assert!(Instant::now() >= due);
        assert_eq!(line.take(), Some(b"early".into()));
        assert_eq!(line.take(), None);
    }
}
