//! The keys that hold documents, in memory.

use std::collections::BTreeMap;

use tidegate_rules::decode;

use super::message::KeyValue;
use super::trouble::Trouble;
use crate::StoredText;

/// The largest value that is taken for a document.
const MAX_VALUE: usize = 1024 * 1024;

/// The most keys.
pub(super) const MAX_KEYS: usize = 100_000;

/// The most that all values together may hold, as with files.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Documents by their keys. Sorting by key sorts them as they are to be joined, too.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: String,
    values: BTreeMap<Vec<u8>, Value>,
    /// The sum of the sizes of all texts.
    bytes: usize,
}

#[derive(Debug)]
struct Value {
    /// The revision that was the last to change it.
    revision: i64,
    /// The document, or why it is none.
    text: Result<String, String>,
}

impl Value {
    fn new(kv: &KeyValue) -> Self {
        Self { revision: kv.mod_revision, text: text_of(&kv.key, &kv.value) }
    }

    fn len(&self) -> usize {
        self.text.as_ref().map_or(0, String::len)
    }
}

fn text_of(key: &[u8], value: &[u8]) -> Result<String, String> {
    let name = std::str::from_utf8(key).map_err(|_| {
        let name = String::from_utf8_lossy(key);
        format!("the key {name} is not UTF-8; delete it and put the rule under another")
    })?;
    if value.len() > MAX_VALUE {
        return Err(format!("{name} is larger than 1 MiB; spread its rules over several keys"));
    }
    decode(name, value).map(str::to_owned).map_err(|problem| problem.to_string())
}

impl Keys {
    /// No keys yet.
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), values: BTreeMap::new(), bytes: 0 }
    }

    /// The beginnings of the keys that hold documents, besides the prefix itself.
    pub(super) fn folders(prefix: &str) -> [String; 2] {
        [format!("{prefix}/documents/"), format!("{prefix}/rules/")]
    }

    /// Whether a key holds a document. Others may hold anything.
    fn is_ours(&self, key: &[u8]) -> bool {
        let Some(rest) = key.strip_prefix(self.prefix.as_bytes()) else { return false };
        rest.is_empty() || rest.starts_with(b"/documents/") || rest.starts_with(b"/rules/")
    }

    /// Takes in a value; says whether that changes anything.
    pub(super) fn put(&mut self, kv: &KeyValue) -> Result<bool, Trouble> {
        if !self.is_ours(&kv.key) {
            return Ok(false);
        }
        let value = Value::new(kv);
        self.bytes += value.len();
        let old = self.values.insert(kv.key.clone(), value);
        self.bytes -= old.map_or(0, |old| old.len());
        if self.values.len() > MAX_KEYS {
            return Err(too_many(&self.prefix));
        }
        if self.bytes > MAX_BYTES {
            return Err(too_large(&self.prefix));
        }
        Ok(true)
    }

    /// Forgets a key; says whether that changes anything.
    pub(super) fn delete(&mut self, key: &[u8]) -> bool {
        let old = self.values.remove(key);
        self.bytes -= old.as_ref().map_or(0, Value::len);
        old.is_some()
    }

    /// All documents. None at all is a mistake in the prefix far more often than a wish for no limits.
    pub(super) fn documents(&self) -> Result<Vec<StoredText>, Trouble> {
        if self.values.is_empty() {
            let prefix = &self.prefix;
            return Err(Trouble::data(format!(
                "etcd holds no rules under {prefix}; put one there, as in: etcdctl put {prefix}/rules/ID < rule.yaml"
            )));
        }
        Ok(self.all())
    }

    /// All documents, be they none.
    pub(super) fn all(&self) -> Vec<StoredText> {
        let document = |(key, value): (&Vec<u8>, &Value)| {
            let name = String::from_utf8_lossy(key).into_owned();
            StoredText::stored(name, u64::try_from(value.revision).unwrap_or_default(), value.text.clone())
        };
        self.values.iter().map(document).collect()
    }
}

/// There are more keys than can be meant.
pub(super) fn too_many(prefix: &str) -> Trouble {
    Trouble::data(format!(
        "etcd holds more than {MAX_KEYS} keys with rules under {prefix}; join rules into fewer documents"
    ))
}

/// There is more than can be meant.
pub(super) fn too_large(prefix: &str) -> Trouble {
    let most = MAX_BYTES / (1024 * 1024);
    Trouble::data(format!(
        "the rules in etcd under {prefix} are larger than {most} MiB; use fewer or shorter rules"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: impl AsRef<[u8]>, value: &[u8]) -> KeyValue {
        KeyValue { key: key.as_ref().to_vec(), mod_revision: 7, value: value.to_vec() }
    }

    fn keys(pairs: &[(&str, &[u8])]) -> Keys {
        let mut keys = Keys::new("t");
        for (key, value) in pairs {
            keys.put(&kv(key, value)).unwrap();
        }
        keys
    }

    fn names(keys: &Keys) -> Vec<String> {
        keys.documents().unwrap().into_iter().map(|document| document.name).collect()
    }

    /// What is wrong with the last document.
    fn told(keys: &Keys) -> String {
        keys.documents().unwrap().pop().unwrap().text.unwrap_err()
    }

    #[test]
    fn whole_documents_come_before_single_rules() {
        let ours = keys(&[("t/rules/b", b"4"), ("t/rules/a", b"3"), ("t/documents/z", b"2"), ("t", b"1")]);
        assert_eq!(names(&ours), ["t", "t/documents/z", "t/rules/a", "t/rules/b"]);
    }

    #[test]
    fn other_keys_are_left_alone() {
        let mut ours = keys(&[("t/rules/a", b"1")]);
        for other in ["t/history/a", "t-x/rules/a", "tt", "t/", "t/rules", "s", "u/rules/a"] {
            assert_eq!(ours.put(&kv(other, b"\xff")), Ok(false), "{other}");
            assert!(!ours.delete(other.as_bytes()), "{other}");
        }
        assert_eq!(names(&ours), ["t/rules/a"]);
    }

    #[test]
    fn what_is_no_document_is_named_until_it_is_gone() {
        let mut ours = keys(&[("t/rules/a", b"1"), ("t/rules/b", b"limit: \xff")]);
        assert!(told(&ours).starts_with("t/rules/b:1:8: byte 0xff is not UTF-8"), "{}", told(&ours));
        ours.put(&kv(b"t/rules/b", &vec![b' '; MAX_VALUE + 1])).unwrap();
        assert!(told(&ours).contains("t/rules/b is larger than 1 MiB"));
        ours.put(&kv(b"t/rules/b", &vec![b' '; MAX_VALUE])).unwrap();
        assert!(ours.documents().unwrap().iter().all(|document| document.text.is_ok()));
        ours.put(&kv(b"t/rules/\xff", b"1")).unwrap();
        assert!(told(&ours).contains("is not UTF-8; delete it"));
        assert!(ours.delete(b"t/rules/\xff"));
        assert_eq!(names(&ours).len(), 2);
        assert!(ours.delete(b"t/rules/a") && ours.delete(b"t/rules/b") && !ours.delete(b"t/rules/b"));
        assert!(ours.documents().unwrap_err().text.contains("etcdctl put t/rules/ID"));
    }

    #[test]
    fn neither_keys_nor_bytes_grow_without_end() {
        let mut ours = keys(&[]);
        for key in 0..MAX_KEYS {
            ours.put(&kv(format!("t/rules/{key}"), b"1")).unwrap();
        }
        assert_eq!(ours.put(&kv(b"t/rules/7", b"2")), Ok(true), "no more than before");
        assert!(ours.put(&kv(b"t", b"1")).unwrap_err().text.contains("more than 100000 keys"));

        let mut ours = keys(&[]);
        let value = vec![b' '; MAX_VALUE];
        for key in 0..MAX_BYTES / MAX_VALUE {
            ours.put(&kv(format!("t/rules/{key}"), &value)).unwrap();
        }
        assert_eq!(ours.put(&kv(b"t/rules/7", &value)), Ok(true), "no more than before");
        assert!(ours.put(&kv(b"t", b"1")).unwrap_err().text.contains("larger than 64 MiB"));
    }
}
