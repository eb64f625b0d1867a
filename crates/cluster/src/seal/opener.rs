//! Opens what others sealed, each message once.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::LessSafeKey;
use parking_lot::Mutex;
use tidegate_core::Timestamp;

use super::header::Header;
use super::window::Window;
use super::{Purpose, Unopened, session_key};
use crate::keyring::{FleetSecret, SharedKeyring};

/// How far a sender's clock may be from ours, together with the time that a message takes.
const SKEW_MS: u64 = 30_000;

/// How long a session is remembered: a message by a clock 30 s ahead of ours is good for twice that.
const REMEMBER_MS: u64 = 2 * SKEW_MS;

/// How many sessions are remembered. Only who has a secret can begin one.
const SESSIONS: usize = 4096;

/// Opens what others sealed, and remembers what it opened.
pub struct Opener {
    keyring: SharedKeyring,
    sessions: Mutex<HashMap<[u8; 16], Session>>,
}

/// What is remembered of a process that sent something authentic.
struct Session {
    /// Its keys, each with what stands for the secret that it was made from. No more than secrets were ever on the ring.
    keys: Vec<([u8; 16], Arc<LessSafeKey>)>,
    /// What came, for each purpose.
    came: [Option<Window>; 3],
    heard: Timestamp,
}

impl Opener {
    /// Opens with any of the keyring's secrets, whichever those are at the time.
    pub fn new(keyring: SharedKeyring) -> Self {
        Self { keyring, sessions: Mutex::default() }
    }

    /// Opens a message that was sealed for this purpose with the same bytes bound to it, unless it was opened before.
    pub fn open(
        &self,
        purpose: Purpose,
        bound: &[u8],
        sealed: &[u8],
        now: Timestamp,
    ) -> Result<Vec<u8>, Unopened> {
        let (header, text) = Header::read(sealed)?;
        let keyring = self.keyring.load();
        let mut fitting =
            keyring.secrets().iter().filter(|secret| secret.id().starts_with(&header.hint)).peekable();
        if fitting.peek().is_none() {
            return Err(Unopened::Stranger);
        }
        for secret in fitting {
            let Some(key) = self.key(secret, &header) else { continue };
            let (nonce, bound) = (header.nonce(purpose), header.bind(purpose, bound));
            let mut text = text.to_vec();
            if let Ok(plain) = key.open_in_place(nonce, bound, &mut text) {
                let length = plain.len();
                text.truncate(length);
                // Only now: a time that no member has sealed says nothing about any clock.
                if header.sealed_at.as_millis().abs_diff(now.as_millis()) > SKEW_MS {
                    return Err(Unopened::Stale);
                }
                return if self.take(secret, &key, &header, purpose, now) {
                    Ok(text)
                } else {
                    Err(Unopened::Replayed)
                };
            }
        }
        Err(Unopened::Stranger)
    }

    /// The sender's key under a secret, remembered or made. It is remembered only once it has opened something, so that
    /// strangers leave nothing behind.
    fn key(&self, secret: &FleetSecret, header: &Header) -> Option<Arc<LessSafeKey>> {
        let known = self.sessions.lock().get(&header.session).and_then(|session| session.key(secret));
        known.or_else(|| session_key(secret, &header.session).map(Arc::new))
    }

    /// Takes note of an authentic message. False if it came before.
    fn take(
        &self,
        secret: &FleetSecret,
        key: &Arc<LessSafeKey>,
        header: &Header,
        purpose: Purpose,
        now: Timestamp,
    ) -> bool {
        let mut sessions = self.sessions.lock();
        if !sessions.contains_key(&header.session) {
            make_room(&mut sessions, now);
        }
        let session = sessions.entry(header.session).or_insert_with(|| Session::new(now));
        if session.key(secret).is_none() {
            let keyring = self.keyring.load();
            session.keys.retain(|(id, _)| keyring.secrets().iter().any(|secret| secret.id() == *id));
            session.keys.push((secret.id(), Arc::clone(key)));
        }
        session.heard = session.heard.max(now);
        match session.came.get_mut(purpose.index()) {
            Some(came) => came.get_or_insert_with(Window::new).take(header.number),
            None => false,
        }
    }

    /// How many sessions are remembered.
    #[cfg(test)]
    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().len()
    }
}

impl Session {
    const fn new(now: Timestamp) -> Self {
        Self { keys: Vec::new(), came: [None, None, None], heard: now }
    }

    fn key(&self, secret: &FleetSecret) -> Option<Arc<LessSafeKey>> {
        self.keys.iter().find(|(id, _)| *id == secret.id()).map(|(_, key)| Arc::clone(key))
    }
}

/// Forgets whoever has been silent for so long that nothing old of theirs would be opened, and if need be whoever has been
/// silent for longest.
fn make_room(sessions: &mut HashMap<[u8; 16], Session>, now: Timestamp) {
    sessions.retain(|_, session| now.as_millis().saturating_sub(session.heard.as_millis()) <= REMEMBER_MS);
    if sessions.len() >= SESSIONS {
        let oldest = sessions.iter().min_by_key(|(_, session)| session.heard).map(|(id, _)| *id);
        oldest.map(|id| sessions.remove(&id));
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("sessions", &self.sessions.lock().len()).finish_non_exhaustive()
    }
}
