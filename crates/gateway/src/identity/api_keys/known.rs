//! The API keys that are known: all of a file, or all that is wrong with it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use super::line::{Hash, Line, Owner, hash};
use crate::identity::file;

/// The largest file, in bytes: room for about a hundred thousand keys.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

/// More problems than this help nobody.
const MAX_PROBLEMS: usize = 20;

/// Keys by their hashes. A client may have several: that is how one is replaced by another.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KnownKeys(HashMap<Hash, Arc<Owner>>);

impl KnownKeys {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        Self::parse_bytes(path, file::read(path, MAX_BYTES))
    }

    pub(super) fn parse_bytes(path: &Path, read: Result<Vec<u8>, String>) -> Result<Self, String> {
        let place = path.display().to_string();
        let text = read.map_err(|wrong| format!("{place}: {wrong}"))?;
        let text = std::str::from_utf8(&text)
            .map_err(|_| format!("{place}: it is not UTF-8; write it as plain text"))?;
        Self::parse(&place, text)
    }

    /// The keys in `text`, which is called `place` in errors. None at all are fine: then nobody is known.
    pub(super) fn parse(place: &str, text: &str) -> Result<Self, String> {
        let mut keys = HashMap::new();
        let mut lines = HashMap::new();
        let mut problems = Vec::new();
        let mut more = 0_usize;
        for (number, line) in (1_usize..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let added = line.parse().map_err(str::to_owned).and_then(|Line { hash, owner }| {
                match lines.entry(hash) {
                    Entry::Occupied(first) => {
                        Err(format!("this is the key of line {}; remove one", first.get()))
                    }
                    Entry::Vacant(free) => {
                        free.insert(number);
                        keys.insert(hash, Arc::new(owner));
                        Ok(())
                    }
                }
            });
            match added {
                Ok(()) => {}
                Err(message) if problems.len() < MAX_PROBLEMS => {
                    problems.push(format!("{place}:{number}: {message}"));
                }
                Err(_) => more += 1,
            }
        }
        if more > 0 {
            problems.push(format!("{more} more problems"));
        }
        if problems.is_empty() { Ok(Self(keys)) } else { Err(problems.join("\n")) }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whose `key` is. Only its hash is looked up, so the time it takes tells nothing about other keys.
    pub(super) fn owner(&self, key: &str) -> Option<&Arc<Owner>> {
        self.0.get(&hash(key.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `key-1`.
    const ONE: &str = "sha256:2bda4ac9a1e3ef33a6a1fb9e2c6fda19a2dd0bfb46b86d21e5a4a2ba8f0aff22";

    fn hex(key: &str) -> String {
        let digits: String = hash(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{digits}")
    }

    #[test]
    fn the_hash_is_sha_256() {
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex("abc"), abc);
    }

    #[test]
    fn a_key_is_found_by_its_hash() {
        let (one, two) = (hex("key-1"), hex("key-2").to_uppercase().replace("SHA256", "sha256"));
        let text = format!(
            "# clients\n\n  shop\t{one} tier=gold tenant=acme plan=PREMIUM \r\nshop {two}\n#x {two}\n"
        );
        let keys = KnownKeys::parse("keys", &text).unwrap();
        assert_eq!(keys.len(), 2);
        let owner = keys.owner("key-1").unwrap();
        assert_eq!(
            (&*owner.name, owner.tenant.as_deref(), owner.tier.as_deref()),
            ("shop", Some("acme"), Some("gold"))
        );
        assert_eq!(owner.plan.as_deref(), Some("PREMIUM"));
        let owner = keys.owner("key-2").unwrap();
        assert_eq!((&*owner.name, &owner.tenant, &owner.tier, &owner.plan), ("shop", &None, &None, &None));
        for wrong in ["", "key", "key-1 ", "shop", &one] {
            assert!(keys.owner(wrong).is_none(), "{wrong}");
        }
        assert_eq!(KnownKeys::parse("keys", "# nobody\n").unwrap().len(), 0);
    }

    #[test]
    fn every_mistake_is_told_with_its_line_and_without_the_line() {
        let one = hex("key-1");
        let text = format!(
            "shop {one}\nshop\nshop key-secret\nshop {one}0\nshop {one}\nshop {ONE} # mine\nshop {ONE} tier=\n\
             shop {ONE} tier=a tier=b\nshop {ONE} role=x\n{} {ONE}\n",
            "a".repeat(2_000),
        );
        let wrong = KnownKeys::parse("keys", &text).unwrap_err();
        let said: Vec<&str> = wrong.lines().collect();
        for (line, (number, text)) in said.iter().zip([
            (2, "a line is"),
            (3, "the hash is not"),
            (4, "the hash is not"),
            (5, "this is the key of line 1"),
            (6, "after the hash come"),
            (7, "a tenant, tier or plan is empty"),
            (8, "given twice"),
            (9, "after the hash come"),
            (10, "the name is longer"),
        ]) {
            assert!(line.starts_with(&format!("keys:{number}: ")) && line.contains(text), "{line}");
        }
        assert_eq!(said.len(), 9, "{wrong}");
        assert!(!wrong.contains("secret") && !wrong.contains(&one[7..]), "{wrong}");
        let wrong = KnownKeys::parse("keys", &"x\n".repeat(100)).unwrap_err();
        assert_eq!(wrong.lines().last(), Some("80 more problems"));
    }
}
