//! Counting by many threads at once.
//!
//! Adding to a counter that other threads add to takes as long as fetching its cache line from them, and even undisturbed an atomic
//! addition takes longer than most of what is counted here. So each thread has counters of its own, to which nobody else adds;
//! reading adds them up. Only what threads beyond [`ALONE`] count is added atomically.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// So many threads have a stripe to themselves.
const ALONE: usize = 16;

/// So many stripes are for all others.
const SHARED: usize = 4;

/// One for each thread, or for some.
#[derive(Debug)]
pub struct Striped<T>([Own<T>; ALONE + SHARED]);

/// On cache lines of its own; processors fetch two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Own<T>(T);

impl<T: Default> Default for Striped<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Own::default()))
    }
}

/// This thread's stripe.
#[derive(Debug)]
pub struct Mine<'s, T> {
    /// What it counts in.
    pub stripe: &'s T,
    /// Whether nobody else does.
    alone: bool,
}

impl<T> Striped<T> {
    /// This thread's own.
    #[inline]
    pub fn mine(&self) -> Mine<'_, T> {
        // A thread that is ending has no number any more.
        let number = NUMBER.try_with(|number| number.0).unwrap_or(usize::MAX);
        let alone = number < ALONE;
        let place = if alone { number } else { ALONE + number % SHARED };
        Mine { stripe: &self.0[place].0, alone }
    }

    /// Those of all threads, to be added up.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|own| &own.0)
    }
}

impl<T> Mine<'_, T> {
    /// Adds to a counter of the stripe.
    #[inline]
    pub fn add(&self, counter: impl FnOnce(&T) -> &AtomicU64, more: u64) {
        let counter = counter(self.stripe);
        if self.alone {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        } else {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }
}

thread_local!(static NUMBER: Number = Number::take());

/// A number that no other thread has at the same time, as small as can be.
struct Number(usize);

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { next: 0, free: BinaryHeap::new() });

struct Numbers {
    next: usize,
    /// Those of threads that have ended.
    free: BinaryHeap<Reverse<usize>>,
}

impl Number {
    fn take() -> Self {
        let mut numbers = NUMBERS.lock();
        if let Some(Reverse(number)) = numbers.free.pop() {
            return Self(number);
        }
        numbers.next += 1;
        Self(numbers.next - 1)
    }
}

impl Drop for Number {
    /// What this thread has counted is there for the next one with its number to add to: that takes the lock after this.
    fn drop(&mut self) {
        NUMBERS.lock().free.push(Reverse(self.0));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn sum(striped: &Striped<AtomicU64>) -> u64 {
        striped.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// More threads than have a stripe to themselves, and then as many again with their numbers.
    #[test]
    fn nothing_is_lost_however_many_count() {
        let (threads, each) = (3 * ALONE, 20_000);
        let striped = Striped::<AtomicU64>::default();
        for round in 1..=2 {
            let barrier = Barrier::new(threads);
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        barrier.wait();
                        (0..each).for_each(|_| striped.mine().add(|counter| counter, 1));
                    });
                }
            });
            assert_eq!(sum(&striped), round * threads as u64 * each);
        }
    }

    #[test]
    fn numbers_are_used_again() {
        let number = || thread::spawn(|| NUMBER.with(|number| number.0)).join().unwrap();
        // Other tests have threads, too, but not a thousand.
        assert!((0..1_000).all(|_| number() < 1_000));
    }
}
