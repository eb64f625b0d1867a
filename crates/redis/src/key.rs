//! What counters are called in Redis, and where in a Cluster that puts them.
//!
//! `<prefix>:<rule id>:<algorithm>:{<tag>}`. The tag is a keyed hash, so nobody can choose what it is; being in
//! braces, it alone decides the slot, and all counters of one identity are in the same.

use crc::{CRC_16_XMODEM, Crc};
use tidegate_core::{Operation, Tag};

/// How many slots a Cluster has.
pub(crate) const SLOTS: u16 = 16_384;

const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The key of an operation's counter.
pub(crate) fn name(prefix: &str, op: &Operation<'_>) -> Vec<u8> {
    let (rule, algorithm) = (op.take.key.rule_id, op.take.quota.algorithm().name());
    let mut name = Vec::with_capacity(prefix.len() + rule.len() + algorithm.len() + 37);
    name.extend_from_slice(prefix.as_bytes());
    name.push(b':');
    encode(rule, &mut name);
    name.push(b':');
    name.extend_from_slice(algorithm.as_bytes());
    name.extend_from_slice(b":{");
    name.extend_from_slice(&tag_text(op.take.key.tag));
    name.push(b'}');
    name
}

/// The slot of an operation's counter.
pub(crate) fn slot_of_tag(tag: Tag) -> u16 {
    CRC.checksum(&tag_text(tag)) % SLOTS
}

/// Which of 64 parts of all slots a slot is in. Masters have slots that lie together, and therefore parts of their own.
pub(crate) const fn part_of_slot(slot: u16) -> u8 {
    (slot / (SLOTS / 64)).to_le_bytes()[0]
}

/// The slot of a key without braces.
pub(crate) fn slot_of_name(name: &str) -> u16 {
    CRC.checksum(name.as_bytes()) % SLOTS
}

/// Rule ids are their author's, but braces and colons mean something in a key.
fn encode(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

fn tag_text(tag: Tag) -> [u8; 32] {
    let [high, low] = tag.bits().map(u64::to_be_bytes);
    let mut text = [0; 32];
    for (index, byte) in high.into_iter().chain(low).enumerate() {
        text[2 * index] = HEX[usize::from(byte >> 4)];
        text[2 * index + 1] = HEX[usize::from(byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::{Algorithm, Key, Quota, Secret, Span, Take};

    use super::*;

    fn key(rule: &str, identity: &[u8]) -> (String, u16) {
        let quota = Quota::new(Algorithm::FixedWindow, 1, Span::from_secs(1)).unwrap();
        let tag = Secret::new([3; 16]).encode().part(1, identity).tag();
        let take = Take::new(Key::new(rule, quota.algorithm(), tag), quota, 1);
        (String::from_utf8(name("ratelimit", &take.into())).unwrap(), slot_of_tag(tag))
    }

    /// What a Redis Cluster does with a key.
    fn slot_by_the_book(key: &str) -> u16 {
        let inner = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(inner, _)| inner);
        CRC.checksum(inner.filter(|inner| !inner.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
    }

    #[test]
    fn a_key_reads_well() {
        let (key, _) = key("api_user.get-orders", b"alice");
        assert!(key.starts_with("ratelimit:api_user.get-orders:fixed_window:{"), "{key}");
        assert_eq!(key.len(), "ratelimit:api_user.get-orders:fixed_window:{}".len() + 32);
    }

    #[test]
    fn the_checksum_is_the_one_servers_use() {
        assert_eq!(CRC.checksum(b"123456789"), 0x31c3);
        assert_eq!(slot_of_name("foo"), 12_182);
    }

    proptest! {
        #[test]
        fn hostile_names_neither_collide_nor_choose_their_slot(
            a in (".{0,12}", prop::collection::vec(any::<u8>(), 0..20)),
            b in ("[{}:%\n]{0,6}", prop::collection::vec(prop::sample::select(b"{}:\n\0%".to_vec()), 0..8)),
        ) {
            let ((key_a, slot_a), (key_b, slot_b)) = (key(&a.0, &a.1), key(&b.0, &b.1));
            prop_assert_eq!(key_a == key_b, a == b);
            prop_assert_eq!(slot_by_the_book(&key_a), slot_a);
            prop_assert_eq!(slot_by_the_book(&key_b), slot_b);
            let tag = key_b.rsplit_once('{').unwrap().1;
            prop_assert!(tag.len() == 33 && tag[..32].bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
    }
}
