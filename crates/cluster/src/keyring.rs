//! The secrets that tell a fleet's nodes from strangers.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use thiserror::Error;

/// Shorter ones could be guessed by whoever has caught a single message.
const SHORTEST: usize = 32;

/// One to seal, and some that others may still seal with. More are a mistake.
const MOST: usize = 8;

/// How long what stands for a secret is.
const ID: usize = 16;

/// Secrets that can be exchanged under way: whatever seals or opens looks here each time.
pub type SharedKeyring = Arc<ArcSwap<Keyring>>;

/// Secrets that the nodes of one fleet share. The first seals; all open: so secrets are exchanged without a pause.
#[derive(Clone)]
pub struct Keyring {
    /// Never empty.
    secrets: Vec<FleetSecret>,
}

/// Why a text is no keyring.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyringError {
    /// Nothing but blank lines and comments.
    #[error("there is no secret: put one on a line, made with `head -c 32 /dev/urandom | base64`")]
    Empty,
    /// One that could be guessed.
    #[error(
        "line {line}: the secret has {length} characters where at least {SHORTEST} are needed: \
         make one with `head -c 32 /dev/urandom | base64`"
    )]
    Short {
        /// Where, from 1.
        line: usize,
        /// How many characters it has.
        length: usize,
    },
    /// One that is there already.
    #[error("line {line}: the same secret as on line {first}: remove one of them")]
    Twice {
        /// Where, from 1.
        line: usize,
        /// Where it was before.
        first: usize,
    },
    /// More than anybody needs.
    #[error("line {line}: more than {MOST} secrets: remove those that no node seals with any more")]
    Many {
        /// Where the first is that is too many.
        line: usize,
    },
}

impl Keyring {
    /// Reads secrets, one per line. Blank lines and those that begin with `#` say nothing.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        let mut found: Vec<(usize, &str)> = Vec::new();
        for (line, secret) in (1..).zip(text.lines().map(str::trim)) {
            if secret.is_empty() || secret.starts_with('#') {
                continue;
            }
            let length = secret.chars().count();
            if length < SHORTEST {
                return Err(KeyringError::Short { line, length });
            }
            if let Some(&(first, _)) = found.iter().find(|(_, known)| *known == secret) {
                return Err(KeyringError::Twice { line, first });
            }
            if found.len() == MOST {
                return Err(KeyringError::Many { line });
            }
            found.push((line, secret));
        }
        if found.is_empty() {
            return Err(KeyringError::Empty);
        }
        Ok(Self { secrets: found.into_iter().map(|(_, secret)| FleetSecret::new(secret)).collect() })
    }

    /// 16 bytes that every node with the same first secret derives alike, for `purpose`.
    pub fn derive(&self, purpose: &str) -> [u8; 16] {
        self.secrets
            .first()
            .map(|first| first.stretch(&[], &["tidegate cluster 1 for ", purpose]))
            .unwrap_or_default()
    }

    /// The same, to be shared and exchanged under way.
    pub fn shared(self) -> SharedKeyring {
        Arc::new(ArcSwap::from_pointee(self))
    }

    /// The secrets, the one that seals first.
    pub(crate) fn secrets(&self) -> &[FleetSecret] {
        &self.secrets
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} secrets)", self.secrets.len())
    }
}

/// One secret, with what stands for it where it must not be shown.
#[derive(Clone)]
pub(crate) struct FleetSecret {
    bytes: Box<[u8]>,
    id: [u8; ID],
}

impl FleetSecret {
    fn new(text: &str) -> Self {
        let mut secret = Self { bytes: text.as_bytes().into(), id: [0; ID] };
        secret.id = secret.stretch(&[], &["tidegate cluster 1 id"]);
        secret
    }

    /// What stands for it. Its first bytes are told to everybody, so it says nothing about the secret.
    pub(crate) const fn id(&self) -> [u8; ID] {
        self.id
    }

    /// As many bytes as are wanted, of which none says anything about the secret or about others.
    pub(crate) fn stretch<const N: usize>(&self, salt: &[u8], info: &[&str]) -> [u8; N] {
        let info: Vec<&[u8]> = info.iter().map(|part| part.as_bytes()).collect();
        let mut bytes = [0; N];
        let key = Salt::new(HKDF_SHA256, salt).extract(&self.bytes);
        // Fails only for more bytes than anybody here asks for (8,160).
        let filled = key.expand(&info, Length(N)).and_then(|made| made.fill(&mut bytes));
        debug_assert!(filled.is_ok());
        bytes
    }
}

/// How many bytes are wanted.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "one-secret-that-is-long-enough-to-do";
    const TWO: &str = "two-secret-that-is-long-enough-to-do";

    fn problem(text: &str) -> String {
        Keyring::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn secrets_stand_on_lines() {
        let ring = Keyring::parse(&format!("# ours\n\n  {ONE}  \r\n{TWO}\n")).unwrap();
        assert_eq!(ring.secrets().len(), 2);
        assert_eq!(ring.secrets()[0].id(), Keyring::parse(ONE).unwrap().secrets()[0].id());
    }

    #[test]
    fn errors_name_the_line_and_the_fix() {
        assert!(problem("\n# nothing\n").contains("head -c 32 /dev/urandom | base64"));
        let short = problem(&format!("{ONE}\nshort"));
        assert!(short.starts_with("line 2: the secret has 5 characters"), "{short}");
        assert!(short.contains("head -c 32 /dev/urandom | base64"), "{short}");
        assert!(problem(&format!("{ONE}\n\n{ONE}")).contains("line 3: the same secret as on line 1"));
        let many: String = (0..9).map(|n| format!("{ONE}{n}\n")).collect();
        assert!(problem(&many).starts_with("line 9: more than 8 secrets"));
        assert!(!problem(&format!("{ONE}\n{ONE}")).contains(ONE));
    }

    #[test]
    fn what_is_derived_hangs_on_the_first_secret_and_the_purpose() {
        let one = Keyring::parse(ONE).unwrap();
        let both = Keyring::parse(&format!("{ONE}\n{TWO}")).unwrap();
        let turned = Keyring::parse(&format!("{TWO}\n{ONE}")).unwrap();
        assert_eq!(one.derive("keys"), both.derive("keys"));
        assert_ne!(one.derive("keys"), turned.derive("keys"));
        assert_ne!(one.derive("keys"), one.derive("other keys"));
        assert_ne!(one.derive("keys"), [0; 16]);
        assert_ne!(one.derive("keys"), one.secrets()[0].id());
    }

    #[test]
    fn nothing_shows_a_secret() {
        let ring = Keyring::parse(ONE).unwrap();
        assert_eq!(format!("{ring:?}"), "Keyring(1 secrets)");
        assert_eq!(format!("{:?}", ring.shared().load()).matches("one-secret").count(), 0);
    }
}
