//! What nodes send each other, so that strangers can neither read, change, make up nor repeat it.
//!
//! Each process draws a session id; the session's key is made from the fleet's secret and that id, and each message takes
//! the next number of its session and purpose, which is its nonce too: so no nonce is used twice under one key, whatever
//! restarts. Whoever opens remembers which numbers came, and refuses what was sealed more than 30 s ago or hence, so that
//! it need not remember long.
//!
//! What this does not know is whom a message is for: whoever seals binds that, if it matters.

mod header;
mod opener;
mod sealer;
#[cfg(test)]
mod tests;
mod window;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use thiserror::Error;

use crate::keyring::FleetSecret;

pub use opener::Opener;
pub use sealer::Sealer;

/// What a message is for. One that was sealed for one thing does not open as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Who is there.
    Gossip,
    /// What one node asks another.
    Call,
    /// What the other answers; bound to the call.
    Reply,
}

impl Purpose {
    /// As it is sealed: these never change.
    const fn byte(self) -> u8 {
        match self {
            Self::Gossip => 1,
            Self::Call => 2,
            Self::Reply => 3,
        }
    }

    /// Its place among all purposes.
    const fn index(self) -> usize {
        match self {
            Self::Gossip => 0,
            Self::Call => 1,
            Self::Reply => 2,
        }
    }
}

/// Why something was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unopened {
    /// It is not even as long as an empty message.
    #[error("too short for a sealed message")]
    TooShort,
    /// It is of a version that is not known here.
    #[error("sealed by a version that is not known here")]
    Version,
    /// No secret opens it, or it is for something else, or it was changed on the way.
    #[error("no secret of the fleet opens it")]
    Stranger,
    /// The sender's clock is too far from ours, or it was held up for as long.
    #[error("sealed more than 30 s ago or hence: compare the clocks")]
    Stale,
    /// It was opened before, or so many after it were that nobody remembers.
    #[error("opened before")]
    Replayed,
}

/// The key of one process under one secret.
fn session_key(secret: &FleetSecret, session: &[u8]) -> Option<LessSafeKey> {
    let bytes: [u8; 32] = secret.stretch(session, &["tidegate cluster 1"]);
    UnboundKey::new(&AES_256_GCM, &bytes).ok().map(LessSafeKey::new)
}
