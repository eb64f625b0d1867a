//! From who is counted to which counter: keys that nothing a client sends can forge, aim or make collide.
//!
//! An identity is encoded part by part, each with its kind and its length, so that two identities never share an
//! encoding; then it is hashed with a secret key, so that nobody can choose the result. See
//! `docs/adr/0004-how-keys-are-encoded.md`.

use std::fmt;

use siphasher::sip128::SipHasher13;
use smallvec::SmallVec;

use crate::quota::Algorithm;

/// The secret that keys are hashed with: one per process, or one per fleet that shares a store.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// Uses these bytes, which should come from a good source of randomness.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn hash(&self, bytes: &[u8]) -> u128 {
        SipHasher13::new_with_key(&self.0).hash(bytes).as_u128()
    }

    /// The tag of an encoded identity.
    pub fn tag(&self, identity: &Encoding) -> Tag {
        Tag(self.hash(identity.bytes()))
    }

    /// The short form in which a caller's request id is remembered.
    pub fn request_id(&self, id: &str) -> RequestId {
        RequestId(self.hash(id.as_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Texts and kinds laid one after the other so that no two sequences look alike.
#[derive(Default)]
pub struct Encoding(SmallVec<[u8; 128]>);

impl Encoding {
    /// Adds a part: what kind it is, how long it is, what it is.
    pub fn part(&mut self, kind: u8, text: &[u8]) -> &mut Self {
        self.0.push(kind);
        self.0.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.0.extend_from_slice(text);
        self
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The keyed hash of an identity. All counters of one identity share it, and with it their place in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(u128);

impl Tag {
    /// The tag's bits, evenly distributed.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

/// The keyed hash of a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// The id's bits, evenly distributed.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

/// The fixed hash of a rule id and an algorithm, mixed into a tag to tell an identity's counters apart.
pub(crate) fn rule_hash(rule_id: &str, algorithm: Algorithm) -> u128 {
    let mut encoding = Encoding::default();
    encoding.part(0, rule_id.as_bytes()).part(1, algorithm.name().as_bytes());
    Secret([0; 16]).hash(encoding.bytes())
}

/// Which counter: one per rule, algorithm and identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'r> {
    /// The rule that counts.
    pub rule_id: &'r str,
    /// Who is counted.
    pub tag: Tag,
    rule_hash: u128,
}

impl<'r> Key<'r> {
    /// The counter of a rule for an identity's tag.
    pub fn new(rule_id: &'r str, algorithm: Algorithm, tag: Tag) -> Self {
        Self::with_hash(rule_id, rule_hash(rule_id, algorithm), tag)
    }

    /// The same with the hash of rule and algorithm worked out beforehand.
    pub(crate) const fn with_hash(rule_id: &'r str, rule_hash: u128, tag: Tag) -> Self {
        Self { rule_id, tag, rule_hash }
    }

    /// The whole key in 128 bits.
    ///
    /// As good as a hash of rule, algorithm and identity together, since the tag alone is beyond anybody's
    /// choosing, but the identity is hashed once for all its rules.
    pub const fn fingerprint(&self) -> u128 {
        self.tag.0 ^ self.rule_hash
    }

    /// What all keys of this rule and algorithm share.
    pub const fn rule_fingerprint(&self) -> u128 {
        self.rule_hash
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(parts: &[(u8, Vec<u8>)]) -> Encoding {
        let mut encoding = Encoding::default();
        for (kind, text) in parts {
            encoding.part(*kind, text);
        }
        encoding
    }

    #[test]
    fn the_hash_is_the_specified_one_for_ever() {
        // SipHash-1-3-128: a fleet that is upgraded node by node must agree on every key.
        let secret = Secret::new(std::array::from_fn(|i| i.to_le_bytes()[0]));
        let mut encoding = Encoding::default();
        encoding.part(1, b"alice");
        let tag = secret.tag(&encoding);
        assert_eq!(tag, secret.tag(&encoding));
        assert_ne!(tag, Secret::new([0; 16]).tag(&encoding));
        assert_eq!(format!("{:032x}", tag.bits()), "f8764dc3f5f7907e40e962464fcb0434");
    }

    #[test]
    fn a_secret_stays_one() {
        assert_eq!(format!("{:?}", Secret::new([7; 16])), "Secret(…)");
    }

    proptest! {
        /// Joining with a delimiter would let `a` + `b:c` and `a:b` + `c` share a counter; this never does.
        #[test]
        fn different_parts_never_share_an_encoding(
            a in prop::collection::vec((0u8..3, prop::collection::vec(0u8..4, 0..5)), 0..4),
            b in prop::collection::vec((0u8..3, prop::collection::vec(0u8..4, 0..5)), 0..4),
        ) {
            prop_assert_eq!(a == b, encode(&a).bytes() == encode(&b).bytes());
        }
    }
}
