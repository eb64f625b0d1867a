//! What a proxy may use of a decision in its own log and filters: `dynamic_metadata` of an answer.
//!
//! A `google.protobuf.Struct` is a tree of maps and boxes. Ours always has the same shape, and every answer has one, so it
//! is written as the bytes it comes down to.

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use tidegate_core::RuleSet;
use tidegate_core::descriptor::{DescriptorDecision, Said};

/// `dynamic_metadata` in `RateLimitResponse`.
const FIELD: u32 = 6;
/// `fields` in `Struct`: entries of a map, with `key` and `value`.
const FIELDS: u32 = 1;
const KEY: u32 = 1;
const VALUE: u32 = 2;
/// `list_value` and `string_value` in `Value`.
const LIST: u32 = 6;
const STRING: u32 = 3;
/// `values` in `ListValue`.
const VALUES: u32 = 1;

/// Appends to an encoded `RateLimitResponse` the ids of the `rules` that counted, and of those that are exceeded; nothing
/// if none did.
pub fn append(decision: &DescriptorDecision, rules: &RuleSet, out: &mut Vec<u8>) {
    let ids = |said: &Said| said.rule().map(|rule| &*rules.rule(rule).id);
    let counted = || decision.said.iter().filter_map(ids);
    if counted().next().is_none() {
        return;
    }
    let is_exceeded = |said: &&Said| matches!(said, Said::Verdict(_, verdict) if !verdict.allowed);
    let exceeded = || decision.said.iter().filter(is_exceeded).filter_map(ids);
    let lists = [Texts::new("rules", counted), Texts::new("exceeded", exceeded)];
    let size = lists.iter().map(|list| if list.is_empty() { 0 } else { nested(list.entry) }).sum();
    put_length(out, FIELD, size);
    let [first, second] = lists;
    first.put(counted, out);
    second.put(exceeded, out);
}

/// A list of texts under a name, by the sizes of what is around them.
struct Texts {
    name: &'static str,
    list: usize,
    value: usize,
    entry: usize,
}

impl Texts {
    fn new<'r, I: Iterator<Item = &'r str>>(name: &'static str, texts: impl Fn() -> I) -> Self {
        let list = texts().map(|text| nested(nested(text.len()))).sum();
        let value = nested(list);
        Self { name, list, value, entry: nested(name.len()) + nested(value) }
    }

    fn is_empty(&self) -> bool {
        self.list == 0
    }

    fn put<'r, I: Iterator<Item = &'r str>>(&self, texts: impl Fn() -> I, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        put_length(out, FIELDS, self.entry);
        put_text(out, KEY, self.name);
        put_length(out, VALUE, self.value);
        put_length(out, LIST, self.list);
        for text in texts() {
            put_length(out, VALUES, nested(text.len()));
            put_text(out, STRING, text);
        }
    }
}

/// The size of a field whose content has this size. Numbers of fields below 16 take one byte.
fn nested(size: usize) -> usize {
    1 + encoded_len_varint(size as u64) + size
}

fn put_length(out: &mut Vec<u8>, field: u32, size: usize) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(size as u64, out);
}

fn put_text(out: &mut Vec<u8>, field: u32, text: &str) {
    put_length(out, field, text.len());
    out.extend_from_slice(text.as_bytes());
}
