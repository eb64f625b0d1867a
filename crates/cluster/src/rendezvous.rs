//! Who of several nodes a key belongs to: the one with the highest score.
//!
//! All nodes, of all versions, must agree: none of this may ever change. When a node goes only its keys move, each to
//! whoever has the next highest score for it; when one comes only those keys move that it wins.

use tidegate_core::{Secret, Tag};

/// The fixed hash of a node's name.
pub(crate) fn name_hash(name: &str) -> u64 {
    let [hash, _] = Secret::new([0; 16]).encode().part(0, name.as_bytes()).tag().bits();
    hash
}

/// How much a node wants a key: `mix(tag₀ ⊕ mix(tag₁ ⊕ name))`.
pub(crate) const fn score(tag: Tag, name: u64) -> u64 {
    let [first, second] = tag.bits();
    mix(first ^ mix(second ^ name))
}

/// Stafford's thirteenth mix, as in SplitMix64: each bit of the result hangs on all bits, and no two results are alike.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If one of these fails, nodes of two versions count the same keys in two places.
    #[test]
    fn never_changes() {
        assert_eq!(mix(0), 0);
        // The first values of SplitMix64 from the seed 0.
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x3c6e_f372_fe94_f82a), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(name_hash("10.0.0.1:7000"), 0x8c02_a91b_46bf_a03e);
        assert_eq!(score(Tag::from_bits([1, 2]), name_hash("10.0.0.1:7000")), 0x1975_899f_9779_c172);
    }
}
