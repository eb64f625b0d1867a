//! Named tokens for the admin listener.
//!
//! Only the SHA-256 of a token is kept. A hash that is slow on purpose protects what people think up; tokens are 256 random
//! bits, which nobody finds by trying, however fast that goes, and every request has to pay for the hash.

mod line;
mod read;
#[cfg(test)]
mod tests;
mod watch;

use crate::config::AdminTokens;
use line::hash;

pub(crate) use line::{LOCAL, NETWORK, SHARED, WATCHER};
pub use line::{NamedToken, Role};
pub use read::TokensError;
pub(crate) use watch::WatchedTokens;

/// Tokens that are all different, of different owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens(Vec<NamedToken>);

impl Tokens {
    /// Reads them from where they are; all of them, or an error with all that is wrong.
    pub fn read(from: &AdminTokens) -> Result<Self, TokensError> {
        match from {
            AdminTokens::File(path) => Self::parse(&path.display().to_string(), &read::text(path)?),
            AdminTokens::Inline(text) => read::tokens("inline tokens", text, read::lines_or_commas).map(Self),
        }
    }

    /// Reads the text of a file, which is called `place` in errors.
    pub fn parse(place: &str, text: &str) -> Result<Self, TokensError> {
        read::tokens(place, text, read::lines).map(Self)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The one that was sent. Every one is compared, whole: the time it takes tells neither which it was nor how nearly.
    pub(crate) fn find(&self, sent: &[u8]) -> Option<&NamedToken> {
        let sent = hash(sent)?;
        let number = self.0.iter().zip(1_usize..).fold(0, |found, (token, number)| {
            let same = usize::from(token.is(&sent));
            found | (same.wrapping_neg() & number)
        });
        self.0.get(number.checked_sub(1)?)
    }
}
