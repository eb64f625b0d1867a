//! One known API key: whose it is, and its hash.

use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::identity::who::is_name;

/// What is kept of a key.
pub(super) type Hash = [u8; SHA256_OUTPUT_LEN];

/// The hash of a key.
pub(super) fn hash(key: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest(&SHA256, key).as_ref());
    hash
}

/// Whose a key is.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::identity) struct Owner {
    pub(in crate::identity) name: Arc<str>,
    pub(in crate::identity) tenant: Option<Arc<str>>,
    pub(in crate::identity) tier: Option<Arc<str>>,
    pub(in crate::identity) plan: Option<Arc<str>>,
}

/// One line of a file of keys. The text of an error has nothing of the line, which may be a key in the wrong place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) hash: Hash,
    pub(super) owner: Owner,
}

impl FromStr for Line {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Self, &'static str> {
        let mut fields = line.split_ascii_whitespace();
        let (Some(name), Some(hash)) = (fields.next(), fields.next()) else {
            return Err(
                "a line is `NAME sha256:HEX [tenant=T] [tier=T] [plan=P]`; comments have lines of their own",
            );
        };
        if !is_name(name) {
            return Err("the name is longer than 1024 bytes or has control characters; give another");
        }
        let hash = hash.strip_prefix("sha256:").and_then(parse_hex).ok_or(
            "the hash is not `sha256:` and 64 hexadecimal digits; `printf %s KEY | sha256sum` prints them",
        )?;
        let (mut tenant, mut tier, mut plan) = (None, None, None);
        for field in fields {
            let (place, value) = match field.split_once('=') {
                Some(("tenant", value)) => (&mut tenant, value),
                Some(("tier", value)) => (&mut tier, value),
                Some(("plan", value)) => (&mut plan, value),
                _ => {
                    return Err(
                        "after the hash come `tenant=T`, `tier=T` and `plan=P` only; remove the rest",
                    );
                }
            };
            if !is_name(value) {
                return Err(
                    "a tenant, tier or plan is empty, too long or has control characters; give another",
                );
            }
            if place.replace(Arc::from(value)).is_some() {
                return Err("a tenant, tier or plan is given twice; remove one");
            }
        }
        Ok(Self { hash, owner: Owner { name: name.into(), tenant, tier, plan } })
    }
}

fn parse_hex(text: &str) -> Option<Hash> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    if rest.is_empty() { bytes?.try_into().ok() } else { None }
}
