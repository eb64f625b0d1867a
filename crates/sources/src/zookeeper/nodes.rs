//! The znodes that hold documents, in memory.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_rules::decode;

use super::trouble::Trouble;
use crate::StoredText;

/// The largest data that is taken for a document.
const MAX_DATA: usize = 1024 * 1024;

/// The most znodes.
const MAX_CHILDREN: usize = 100_000;

/// The most that all documents together may hold, as with files.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Versions are below this: the integers that a double tells apart.
pub(super) const VERSIONS: u64 = 1 << 53;

/// Documents by their znodes.
#[derive(Debug)]
pub(super) struct Nodes {
    path: String,
    /// The znode at the path itself; none if there is no such znode.
    own: Option<Node>,
    children: BTreeMap<String, Node>,
    /// The transaction that was the last to add or remove a child.
    pzxid: i64,
    /// The sum of the sizes of all texts.
    bytes: usize,
}

#[derive(Debug)]
struct Node {
    /// The transaction that was the last to change it.
    mzxid: i64,
    /// The document, or why it is none.
    text: Result<String, String>,
}

impl Node {
    fn new(name: &str, data: &[u8], mzxid: i64) -> Self {
        let text = if data.len() > MAX_DATA {
            Err(format!("{name} is larger than 1 MiB; spread its rules over several znodes"))
        } else {
            decode(name, data).map(str::to_owned).map_err(|problem| problem.to_string())
        };
        Self { mzxid, text }
    }

    fn len(&self) -> usize {
        self.text.as_ref().map_or(0, String::len)
    }
}

impl Nodes {
    /// Nothing is there.
    pub(super) fn new(path: &str) -> Self {
        Self { path: path.to_owned(), own: None, children: BTreeMap::new(), pzxid: 0, bytes: 0 }
    }

    /// Whether there is a znode at the path itself.
    pub(super) fn is_there(&self) -> bool {
        self.own.is_some()
    }

    /// The path of a child.
    pub(super) fn path_of(&self, child: &str) -> String {
        format!("{}/{child}", self.path)
    }

    /// Takes in the data of the path itself.
    pub(super) fn put_own(&mut self, data: &[u8], mzxid: i64) -> Result<(), Trouble> {
        let node = Node::new(&self.path, data, mzxid);
        self.bytes += node.len();
        self.bytes -= self.own.replace(node).map_or(0, |old| old.len());
        self.check_size()
    }

    /// Takes in the data of a child.
    pub(super) fn put(&mut self, child: &str, data: &[u8], mzxid: i64) -> Result<(), Trouble> {
        let node = Node::new(&self.path_of(child), data, mzxid);
        self.bytes += node.len();
        self.bytes -= self.children.insert(child.to_owned(), node).map_or(0, |old| old.len());
        self.check_size()
    }

    /// Forgets a child.
    pub(super) fn delete(&mut self, child: &str) {
        self.bytes -= self.children.remove(child).map_or(0, |old| old.len());
    }

    /// Takes in which children there are; returns those that are new, for somebody to read.
    pub(super) fn list(&mut self, names: Vec<String>, pzxid: i64) -> Result<Vec<String>, Trouble> {
        self.check_count(names.len())?;
        self.pzxid = pzxid;
        let names: BTreeSet<String> = names.into_iter().collect();
        let gone: Vec<String> = self.children.keys().filter(|&name| !names.contains(name)).cloned().collect();
        gone.iter().for_each(|name| self.delete(name));
        Ok(names.into_iter().filter(|name| !self.children.contains_key(name)).collect())
    }

    /// Refuses more children than can be meant.
    pub(super) fn check_count(&self, count: usize) -> Result<(), Trouble> {
        if count <= MAX_CHILDREN {
            return Ok(());
        }
        let path = &self.path;
        Err(Trouble::data(format!(
            "ZooKeeper holds more than {MAX_CHILDREN} znodes below {path}; join rules into fewer documents"
        )))
    }

    fn check_size(&self) -> Result<(), Trouble> {
        if self.bytes <= MAX_BYTES {
            return Ok(());
        }
        let (path, most) = (&self.path, MAX_BYTES / (1024 * 1024));
        Err(Trouble::data(format!(
            "the rules in ZooKeeper at {path} are larger than {most} MiB; use fewer or shorter rules"
        )))
    }

    /// The last transaction that made this what it is. Ids of transactions grow over the whole ensemble.
    pub(super) fn zxid(&self) -> i64 {
        let all = self.own.iter().chain(self.children.values()).map(|node| node.mzxid);
        all.fold(self.pzxid, i64::max)
    }

    /// Differs after every change: ids of transactions only grow.
    pub(super) fn mark(&self) -> (bool, i64, i64) {
        let all = self.own.iter().chain(self.children.values()).map(|node| node.mzxid);
        (self.is_there(), self.pzxid, all.fold(0, i64::wrapping_add))
    }

    /// All documents. None at all is a mistake in the path far more often than a wish for no limits.
    pub(super) fn documents(&self) -> Result<Vec<StoredText>, Trouble> {
        let path = &self.path;
        if !self.is_there() {
            return Err(Trouble::data(format!(
                "ZooKeeper has no znode {path}; create it and one below it for each rule, or correct the path in the URL"
            )));
        }
        let documents = self.all();
        if documents.is_empty() {
            return Err(Trouble::data(format!(
                "ZooKeeper holds no rules at {path}; put one there, as in: zkCli.sh create {path}/ID \"$(cat rule.yaml)\""
            )));
        }
        Ok(documents)
    }

    /// All documents, be they none.
    pub(super) fn all(&self) -> Vec<StoredText> {
        // The path mostly is a mere folder.
        let own = self.own.iter().filter(|node| node.text.as_ref() != Ok(&String::new()));
        let own = own.map(|node| (self.path.clone(), node));
        let children = self.children.iter().map(|(name, node)| (self.path_of(name), node));
        let document = |(name, node): (String, &Node)| {
            StoredText::stored(name, version_of(node.mzxid), node.text.clone())
        };
        own.chain(children).map(document).collect()
    }
}

/// The version of what a transaction has made: the low bits of its id, which a double holds exactly.
pub(super) fn version_of(zxid: i64) -> u64 {
    zxid.cast_unsigned() % VERSIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(children: &[(&str, &[u8])]) -> Nodes {
        let mut nodes = Nodes::new("/t");
        nodes.put_own(b"", 1).unwrap();
        let names = children.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(nodes.list(names, 2).unwrap().len(), children.len());
        for (zxid, (name, data)) in (3..).zip(children) {
            nodes.put(name, data, zxid).unwrap();
        }
        nodes
    }

    fn names(nodes: &Nodes) -> Vec<String> {
        nodes.documents().unwrap().into_iter().map(|document| document.name).collect()
    }

    /// Why there are no documents.
    fn told(nodes: &Nodes) -> String {
        nodes.documents().unwrap_err().text
    }

    /// What is wrong with the last document.
    fn told_last(nodes: &Nodes) -> String {
        nodes.documents().unwrap().pop().unwrap().text.unwrap_err()
    }

    #[test]
    fn the_whole_document_comes_before_single_rules() {
        let mut ours = nodes(&[("b", b"3"), ("a", b"2")]);
        assert_eq!((names(&ours), ours.zxid()), (vec!["/t/a".to_owned(), "/t/b".to_owned()], 4));
        ours.put_own(b"1", 9).unwrap();
        assert_eq!(names(&ours), ["/t", "/t/a", "/t/b"]);
        assert_eq!(ours.list(vec!["c".into(), "a".into()], 11).unwrap(), ["c"]);
        assert_eq!((names(&ours), ours.zxid()), (vec!["/t".to_owned(), "/t/a".to_owned()], 11));
    }

    #[test]
    fn what_is_no_document_is_named_until_it_is_gone() {
        assert!(told(&Nodes::new("/t")).contains("no znode /t"));
        assert!(told(&nodes(&[])).contains("no rules at /t"));
        let mut ours = nodes(&[("a", b"1"), ("b", b"limit: \xff")]);
        assert!(told_last(&ours).starts_with("/t/b:1:8: byte 0xff is not UTF-8"), "{}", told_last(&ours));
        ours.put("b", &vec![b' '; MAX_DATA + 1], 9).unwrap();
        assert!(told_last(&ours).contains("/t/b is larger than 1 MiB"));
        ours.put("b", &vec![b' '; MAX_DATA], 10).unwrap();
        assert!(ours.documents().unwrap().iter().all(|document| document.text.is_ok()));
    }

    #[test]
    fn neither_znodes_nor_bytes_grow_without_end() {
        let mut ours = nodes(&[]);
        let many: Vec<String> = (0..=MAX_CHILDREN).map(|name| name.to_string()).collect();
        assert!(ours.list(many[1..].to_vec(), 3).is_ok());
        assert!(ours.list(many, 3).unwrap_err().text.contains("more than 100000 znodes"));
        let data = vec![b' '; MAX_DATA];
        for child in 0..MAX_BYTES / MAX_DATA {
            ours.put(&child.to_string(), &data, 4).unwrap();
        }
        ours.put("7", &data, 5).expect("no more than before");
        assert!(ours.put_own(b"1", 6).unwrap_err().text.contains("larger than 64 MiB"));
    }
}
