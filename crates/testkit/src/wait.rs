//! Waiting for conditions: never for time to pass, never for ever.

use std::thread;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(10);

/// Longest wait for anything that must happen in a test. It only guards against hanging: on a machine with other work to do,
/// everything takes longer, and nothing that comes late is wrong for that.
pub const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Waits until the condition holds, and returns what it found.
///
/// # Panics
/// If it does not hold in time: the message says what was waited for.
#[track_caller]
pub fn until<T>(what: &str, within: Duration, condition: impl FnMut() -> Option<T>) -> T {
    match poll(within, condition) {
        Some(found) => found,
        None => panic!("waited {within:?} in vain until {what}"),
    }
}

/// Waits until the condition holds; nothing if it does not hold in time. It is looked at least once.
pub fn poll<T>(within: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = condition() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(PAUSE);
    }
}
