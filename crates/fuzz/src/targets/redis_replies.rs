//! Replies of scripts, as whatever answers at the store's address may send them.

/// A reply is read as outcomes that hold together, or not at all.
pub(crate) fn run(bytes: &[u8]) {
    tidegate_redis::fuzzing::reply(bytes);
}
