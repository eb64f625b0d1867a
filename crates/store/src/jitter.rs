//! Random numbers for pauses, so that not all nodes end theirs at once.

use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers that differ from node to node and from one to the next, which is all that spreading pauses takes. Drawing one costs less than
/// asking the operating system, which each call to a server would otherwise do.
#[derive(Debug)]
pub struct Jitter(AtomicU32);

impl Jitter {
    /// Begins at `seed`, which should be random.
    pub const fn new(seed: u32) -> Self {
        Self(AtomicU32::new(seed))
    }

    /// Returns the next number. They are spread evenly: no two in a row are close to each other.
    pub fn next(&self) -> u32 {
        // Steps of the golden ratio.
        self.0.fetch_add(0x9E37_79B9, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly() {
        let jitter = Jitter::new(12_345);
        let mut quarters = [0; 4];
        for _ in 0..1_000 {
            quarters[(jitter.next() >> 30) as usize] += 1;
        }
        assert!(quarters.iter().all(|count| (245..=255).contains(count)), "{quarters:?}");
    }
}
