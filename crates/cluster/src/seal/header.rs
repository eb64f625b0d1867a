//! What stands before the sealed bytes, for all to read and for nobody to change.

use aws_lc_rs::aead::{Aad, Nonce};
use tidegate_core::Timestamp;

use super::{Purpose, Unopened};

/// How messages are laid out.
const VERSION: u8 = 1;

/// How many bytes the header takes: version, hint, session, number, time.
pub(super) const LENGTH: usize = 1 + 4 + 16 + 8 + 8;

/// How many bytes more than the message the cipher makes.
pub(super) const TAG: usize = 16;

/// What whoever opens must know beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Which of the fleet's secrets.
    pub(super) hint: [u8; 4],
    /// Which process.
    pub(super) session: [u8; 16],
    /// Which of its messages for this purpose.
    pub(super) number: u64,
    /// When, by the sender's clock.
    pub(super) sealed_at: Timestamp,
}

impl Header {
    /// As it is sent.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend_from_slice(&self.hint);
        out.extend_from_slice(&self.session);
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.sealed_at.as_millis().to_be_bytes());
    }

    /// Reads it, and what is sealed after it.
    pub(super) fn read(sealed: &[u8]) -> Result<(Self, &[u8]), Unopened> {
        if *sealed.first().ok_or(Unopened::TooShort)? != VERSION {
            return Err(Unopened::Version);
        }
        let rest = sealed.get(1..).unwrap_or_default();
        let (hint, rest) = rest.split_first_chunk().ok_or(Unopened::TooShort)?;
        let (session, rest) = rest.split_first_chunk().ok_or(Unopened::TooShort)?;
        let (number, rest) = rest.split_first_chunk().ok_or(Unopened::TooShort)?;
        let (sealed_at, rest) = rest.split_first_chunk().ok_or(Unopened::TooShort)?;
        if rest.len() < TAG {
            return Err(Unopened::TooShort);
        }
        let header = Self {
            hint: *hint,
            session: *session,
            number: u64::from_be_bytes(*number),
            sealed_at: Timestamp::from_millis(u64::from_be_bytes(*sealed_at)),
        };
        Ok((header, rest))
    }

    /// What is sealed along without being sent: the purpose, and what else both sides know.
    pub(super) fn bind(&self, purpose: Purpose, bound: &[u8]) -> Aad<Vec<u8>> {
        let mut all = Vec::with_capacity(LENGTH + 1 + bound.len());
        self.write(&mut all);
        all.push(purpose.byte());
        all.extend_from_slice(bound);
        Aad::from(all)
    }

    /// The message's own nonce: each purpose counts for itself.
    pub(super) fn nonce(&self, purpose: Purpose) -> Nonce {
        let mut bytes = [0; 12];
        bytes[0] = purpose.byte();
        bytes[4..].copy_from_slice(&self.number.to_be_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}
