//! Where rule documents come from.
//!
//! A [`RuleSource`] yields all its documents at once, first as they are and then again after every change. It says
//! what is *there*; whether that makes a rule set is decided by whoever reads it, who also keeps the last good one.
//!
//! ```no_run
//! use tidegate_sources::{Event, FileSource, RuleSource};
//!
//! # async fn run() {
//! let mut source = FileSource::new("rules.yaml");
//! loop {
//!     match source.next().await {
//!         Event::Loaded(snapshot) => println!("version {}", snapshot.version),
//!         Event::Failed(why) => eprintln!("{why}; the rules stay as they are"),
//!     }
//! }
//! # }
//! ```

mod archive;
mod authority;
mod book;

mod etcd;
mod file;
mod following;
mod mend;
mod name;
mod one_at_a_time;
mod postgres;
mod pulse;
mod trouble;
mod zookeeper;

use std::future::Future;
use std::pin::Pin;

use tidegate_rules::{Problem, Problems, Source};

pub use archive::{
    Action, Answer, ArchiveError, Author, Commit, Contents, NewRecord, Record, RuleArchive, Subject, Write,
};
pub use book::{BookError, Change, Entry, Guard, Listing, Plan, RuleBook, Step, Wish};
pub use etcd::{EtcdArchive, EtcdSource, EtcdTls, EtcdUrl, EtcdUrlError};
pub use file::{FileArchive, FileSource};
pub use mend::{Aside, LastGood, Mended, mend};
pub use one_at_a_time::{Interrupted, OneAtATime, RULE_WORK};
pub use postgres::{
    PostgresArchive, PostgresSource, PostgresTiers, PostgresUrl, PostgresUrlError, TierChange, TierChanges,
};
pub use pulse::Pulse;
pub use zookeeper::{ZookeeperArchive, ZookeeperSource, ZookeeperUrl, ZookeeperUrlError};

/// A source's next event, when it comes.
pub type Next<'a> = Pin<Box<dyn Future<Output = Event> + Send + 'a>>;

/// Something that holds rule documents and tells when they change.
pub trait RuleSource: Send {
    /// Waits for the next event. The first comes at once, with what is there or why nothing can be had; each later
    /// one when that has changed.
    ///
    /// A source is well as long as its last event was [`Event::Loaded`]. Giving up waiting loses nothing: the next
    /// call goes on where this one was.
    fn next(&mut self) -> Next<'_>;

    /// Tells how old what it told last may be, if it knows.
    fn pulse(&self) -> Option<Pulse> {
        None
    }
}

impl RuleSource for Box<dyn RuleSource> {
    fn next(&mut self) -> Next<'_> {
        (**self).next()
    }

    fn pulse(&self) -> Option<Pulse> {
        (**self).pulse()
    }
}

/// What a source has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// These are the documents now.
    Loaded(Snapshot),
    /// They cannot be had, for this reason, which names the fix. What was loaded last stays in force.
    Failed(String),
}

/// All documents of a source at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The source's own version, for people to read; only grows.
    pub version: u64,
    /// Orders what several nodes have read: larger is newer. Below 2^53; only grows, too.
    pub stamp: u64,
    /// Whether each document is taken by itself, so that a bad one harms no other: keys, nodes, rows. Otherwise they are
    /// taken together or not at all: files.
    pub apart: bool,
    /// The documents, in the order in which they are to be joined.
    pub documents: Vec<StoredText>,
}

/// One document of a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredText {
    /// What to call it in messages: a file's path, a key, a row's id.
    pub name: String,
    /// The content, or why it cannot be taken for text at all.
    pub text: Result<String, String>,
    /// Another after every change. It grows where servers count; for files it stands for the content.
    pub version: u64,
}

impl StoredText {
    /// A document that is a text.
    pub fn new(name: impl Into<String>, version: u64, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: Ok(text.into()), version }
    }

    /// The text, to be read, or what is wrong with it.
    pub fn as_source(&self) -> Result<Source<'_>, Problems> {
        match &self.text {
            Ok(text) => Ok(Source { name: &self.name, text }),
            Err(why) => Err(Problem::whole(&self.name, why.clone()).into()),
        }
    }
}

/// What a document was when it was last good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoodText {
    /// The document's version then.
    pub version: u64,
    /// The content then.
    pub text: String,
}
