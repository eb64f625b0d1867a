//! Seals what one process sends.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use aws_lc_rs::aead::LessSafeKey;
use tidegate_core::Timestamp;

use super::header::{self, Header};
use super::{Purpose, session_key};
use crate::keyring::{FleetSecret, SharedKeyring};

/// Seals what this process sends, under the first of the fleet's secrets. One per process is enough.
pub struct Sealer {
    keyring: SharedKeyring,
    session: [u8; 16],
    /// How many messages were sealed for each purpose.
    sealed: [AtomicU64; 3],
    /// The key under the secret that seals, with what stands for that secret.
    key: ArcSwapOption<([u8; 16], LessSafeKey)>,
}

impl Sealer {
    /// Seals with the keyring's first secret, whichever that is at the time.
    pub fn new(keyring: SharedKeyring) -> io::Result<Self> {
        let mut session = [0; 16];
        getrandom::fill(&mut session).map_err(io::Error::other)?;
        Ok(Self { keyring, session, sealed: Default::default(), key: ArcSwapOption::empty() })
    }

    /// Seals a message. It opens only with the same purpose and the same bytes bound to it. What cannot be sealed (more
    /// than 64 GiB) is sealed as nothing, which nobody opens.
    pub fn seal(&self, purpose: Purpose, bound: &[u8], plain: &[u8], now: Timestamp) -> Vec<u8> {
        self.try_seal(purpose, bound, plain, now).unwrap_or_default()
    }

    fn try_seal(&self, purpose: Purpose, bound: &[u8], plain: &[u8], now: Timestamp) -> Option<Vec<u8>> {
        let keyring = self.keyring.load();
        let secret = keyring.secrets().first()?;
        let key = self.key(secret)?;
        let (hint, _) = key.0.split_first_chunk()?;
        let number = self.sealed.get(purpose.index())?.fetch_add(1, Ordering::Relaxed);
        let header = Header { hint: *hint, session: self.session, number, sealed_at: now };

        let mut out = Vec::with_capacity(header::LENGTH + plain.len() + header::TAG);
        header.write(&mut out);
        out.extend_from_slice(plain);
        let text = out.get_mut(header::LENGTH..)?;
        let (nonce, bound) = (header.nonce(purpose), header.bind(purpose, bound));
        let tag = key.1.seal_in_place_separate_tag(nonce, bound, text).ok()?;
        out.extend_from_slice(tag.as_ref());
        Some(out)
    }

    /// This process's key under a secret; made anew when the secret is another than before.
    fn key(&self, secret: &FleetSecret) -> Option<Arc<([u8; 16], LessSafeKey)>> {
        if let Some(key) = &*self.key.load()
            && key.0 == secret.id()
        {
            return Some(Arc::clone(key));
        }
        let key = Arc::new((secret.id(), session_key(secret, &self.session)?));
        self.key.store(Some(Arc::clone(&key)));
        Some(key)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("sealed", &self.sealed).finish_non_exhaustive()
    }
}
