//! One named token: whose it is, what it allows, and its hash.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

const MAX_NAME_BYTES: usize = 64;

/// So many that nobody finds a token by trying, even if every character is a hexadecimal digit.
const SECRET_BYTES: RangeInclusive<usize> = 32..=512;

/// How tokens that we make begin, so that people and scanners for leaked secrets know one when they see it.
const PREFIX: &str = "tg_";

/// Names of callers who have shown no named token.
pub(crate) const LOCAL: &str = "local";
pub(crate) const SHARED: &str = "token";
pub(crate) const NETWORK: &str = "network";
pub(crate) const WATCHER: &str = "watcher";

/// What a caller of the admin listener may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at everything.
    Read,
    /// Change things, too.
    Write,
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            // Not the text itself: fields may be in the wrong order, and one of them the token.
            _ => Err("the role is neither `read` nor `write`; write one of them"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// A token by its hash, with the name of its owner and what it allows. It is written as `NAME ROLE sha256:HEX`.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedToken {
    name: String,
    role: Role,
    hash: Hash,
}

/// What is kept of a token.
pub(super) type Hash = [u8; SHA256_OUTPUT_LEN];

impl NamedToken {
    /// The token `secret`. The text of an error says what to do about it and has nothing of the secret.
    pub fn new(name: &str, role: Role, secret: &str) -> Result<Self, &'static str> {
        check_name(name)?;
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token has characters that no header can carry; use visible ASCII characters");
        }
        let hash = hash(secret.as_bytes());
        let hash =
            hash.ok_or("the token has not 32 to 512 characters; make one with `tidegate token new`")?;
        Ok(Self { name: name.to_owned(), role, hash })
    }

    /// The text of a new token out of random bits.
    pub fn secret(random: [u8; 32]) -> String {
        format!("{PREFIX}{}", Hex(&random))
    }

    /// Whose it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it allows.
    pub fn role(&self) -> Role {
        self.role
    }

    pub(super) fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Whether its hash is `hash`, in a time that tells nothing about how nearly.
    pub(super) fn is(&self, hash: &Hash) -> bool {
        verify_slices_are_equal(&self.hash, hash).is_ok()
    }
}

/// One line. The text of an error has nothing of the line, which may be a secret in the wrong place.
impl FromStr for NamedToken {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Self, &'static str> {
        let mut fields = line.split_ascii_whitespace();
        let (Some(name), Some(role), Some(hash), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(
                "a line is `NAME ROLE sha256:HEX`; comments have lines of their own that begin with #",
            );
        };
        check_name(name)?;
        let hash = hash.strip_prefix("sha256:").and_then(parse_hex);
        let hash = hash.ok_or(
            "the hash is not `sha256:` and 64 hexadecimal digits; `tidegate token hash` prints the line for a token",
        )?;
        Ok(Self { name: name.to_owned(), role: role.parse()?, hash })
    }
}

impl fmt::Display for NamedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} sha256:{}", self.name, self.role, Hex(&self.hash))
    }
}

/// Leaves out the hash.
impl fmt::Debug for NamedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedToken({} {})", self.name, self.role)
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(usual) {
        return Err("the name is not 1 to 64 letters, digits, `-`, `_`, `.` and `@`; give another");
    }
    if name.starts_with(PREFIX) {
        return Err("the name looks like a token; put the name first, and of the token only its hash");
    }
    if [LOCAL, SHARED, NETWORK, WATCHER].contains(&name) {
        return Err(
            "`local`, `token`, `network` and `watcher` are callers without a name; give another name",
        );
    }
    Ok(())
}

/// The hash of a token, if it is long enough to be one, and no longer.
pub(super) fn hash(secret: &[u8]) -> Option<Hash> {
    if !SECRET_BYTES.contains(&secret.len()) {
        return None;
    }
    digest(&SHA256, secret).as_ref().try_into().ok()
}

/// Bytes as hexadecimal digits.
struct Hex<'b>(&'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn parse_hex(text: &str) -> Option<Hash> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    if rest.is_empty() { bytes?.try_into().ok() } else { None }
}
