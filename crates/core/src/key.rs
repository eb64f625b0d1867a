//! From who is counted to which counter: keys that nothing a client sends can forge, aim or make collide.
//!
//! An identity is encoded part by part, each with its kind and its length, so that two identities never share an
//! encoding; then it is hashed with a secret key, so that nobody can choose the result. See
//! `docs/adr/0004-how-keys-are-encoded.md`.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::quota::Algorithm;

/// 128 bits in two halves: a `u128` would be aligned to 16 and pad everything it is part of.
pub(crate) type Hash = [u64; 2];

/// The secret that keys are hashed with: one per process, or one per fleet that shares a store.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// Uses these bytes, which should come from a good source of randomness.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for those who are to share it.
    pub const fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// Starts hashing something under this secret.
    pub fn encode(&self) -> Encoding {
        Encoding(SipHasher13::new_with_key(&self.0))
    }

    /// The short form in which a caller's request id is remembered.
    pub fn request_id(&self, id: &str) -> RequestId {
        RequestId(self.encode().part(0, id.as_bytes()).finish())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Texts and kinds laid one after the other so that no two sequences look alike, hashed as they come.
#[derive(Clone)]
pub struct Encoding(SipHasher13);

impl Encoding {
    /// Adds a part: what kind it is, how long it is, what it is.
    pub fn part(&mut self, kind: u8, text: &[u8]) -> &mut Self {
        // Eight bytes at once keep the hasher in step; no text is so long that the length would reach the kind.
        self.0.write_u64(u64::from(kind) << 56 | text.len() as u64);
        self.0.write(text);
        self
    }

    /// The tag of the identity whose parts were added.
    pub fn tag(&self) -> Tag {
        Tag(self.finish())
    }

    fn finish(&self) -> Hash {
        let hash = self.0.finish128();
        [hash.h1, hash.h2]
    }
}

/// The keyed hash of an identity. All counters of one identity share it, and with it their place in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tag(Hash);

impl Tag {
    /// The tag with these bits, which another node has told.
    pub const fn from_bits(bits: [u64; 2]) -> Self {
        Self(bits)
    }

    /// The tag's bits, evenly distributed.
    pub const fn bits(self) -> [u64; 2] {
        self.0
    }
}

/// The keyed hash of a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(Hash);

impl RequestId {
    /// The id with these bits, which another node has told.
    pub const fn from_bits(bits: [u64; 2]) -> Self {
        Self(bits)
    }

    /// The id's bits, evenly distributed.
    pub const fn bits(self) -> [u64; 2] {
        self.0
    }
}

/// The fixed hash of a rule id, mixed into a tag to tell an identity's counters apart.
pub(crate) fn rule_hash(rule_id: &str) -> Hash {
    Secret([0; 16]).encode().part(0, rule_id.as_bytes()).finish()
}

/// What tells a rule's counters under different algorithms apart: any numbers will do that no two share.
const fn algorithm_hash(algorithm: Algorithm) -> u64 {
    match algorithm {
        Algorithm::TokenBucket => 0x6a09_e667_f3bc_c908,
        Algorithm::FixedWindow => 0xbb67_ae85_84ca_a73b,
        Algorithm::SlidingWindow => 0x3c6e_f372_fe94_f82b,
        Algorithm::SlidingLog => 0xa54f_f53a_5f1d_36f1,
        Algorithm::InFlight => 0x510e_527f_ade6_82d1,
    }
}

/// Which counter: one per rule, algorithm and identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'r> {
    /// The rule that counts.
    pub rule_id: &'r str,
    /// Who is counted.
    pub tag: Tag,
    rule_hash: Hash,
}

impl<'r> Key<'r> {
    /// The counter of a rule for an identity's tag.
    pub fn new(rule_id: &'r str, algorithm: Algorithm, tag: Tag) -> Self {
        Self::with_hash(rule_id, rule_hash(rule_id), algorithm, tag)
    }

    /// The same with the rule's hash worked out beforehand.
    pub(crate) const fn with_hash(rule_id: &'r str, rule_hash: Hash, algorithm: Algorithm, tag: Tag) -> Self {
        Self { rule_id, tag, rule_hash: [rule_hash[0], rule_hash[1] ^ algorithm_hash(algorithm)] }
    }

    /// The counter of the same rule and algorithm for another identity.
    #[must_use]
    pub const fn with_tag(self, tag: Tag) -> Self {
        Self { tag, ..self }
    }

    /// The whole key in 128 bits.
    ///
    /// As good as a hash of rule, algorithm and identity together, since the tag alone is beyond anybody's
    /// choosing, but the identity is hashed once for all its rules.
    pub const fn fingerprint(&self) -> [u64; 2] {
        [self.tag.0[0] ^ self.rule_hash[0], self.tag.0[1] ^ self.rule_hash[1]]
    }

    /// What all keys of this rule and algorithm share.
    pub const fn rule_fingerprint(&self) -> [u64; 2] {
        self.rule_hash
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tag(parts: &[(u8, Vec<u8>)]) -> Tag {
        let mut encoding = Secret::new([5; 16]).encode();
        for (kind, text) in parts {
            encoding.part(*kind, text);
        }
        encoding.tag()
    }

    #[test]
    fn the_hash_is_the_specified_one_for_ever() {
        // SipHash-1-3-128: a fleet that is upgraded node by node must agree on every key.
        let secret = Secret::new(std::array::from_fn(|i| i.to_le_bytes()[0]));
        let tag = secret.encode().part(1, b"alice").tag();
        assert_eq!(tag.bits().map(|half| format!("{half:016x}")), ["37d952f273aa49ea", "6ca88ce0552afacf"]);
        assert_ne!(tag, Secret::new([0; 16]).encode().part(1, b"alice").tag());
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
            prop_assert_eq!(a == b, tag(&a) == tag(&b));
        }
    }
}
