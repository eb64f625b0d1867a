//! How rules arrive and change.

use std::fmt;
use std::sync::Arc;

use tidegate_core::RuleSet;
use tidegate_rules::{Document, Problems, Source, Version, compile, load, read};
use tidegate_sources::{Event, NamedText, RuleSource, Snapshot};

use crate::error::StartError;
use crate::node::Node;

/// Where the rules come from.
pub struct RulesFeed(Kind);

enum Kind {
    Fixed(Snapshot),
    Watched(Box<dyn RuleSource>),
}

impl RulesFeed {
    /// Rules that stay as they are: one document, called `name` in messages. To other nodes that share a store, they
    /// are older than any file.
    pub fn fixed(name: impl Into<String>, text: impl Into<String>) -> Self {
        let document = NamedText { name: name.into(), text: text.into() };
        Self(Kind::Fixed(Snapshot { version: 1, stamp: 1, documents: vec![document] }))
    }

    /// Rules that change whenever `source` says so.
    ///
    /// What cannot be used changes nothing: the last good rules stay in force, and `/health`, the metrics and the log
    /// say so until the next good ones arrive.
    pub fn watch(source: impl RuleSource + 'static) -> Self {
        Self(Kind::Watched(Box::new(source)))
    }

    /// The first rules, without which there is no start, and where to hear of others.
    pub(crate) async fn start(self) -> Result<(Loaded, Option<Changes>), StartError> {
        let (snapshot, changes) = match self.0 {
            Kind::Fixed(snapshot) => (snapshot, None),
            Kind::Watched(mut source) => match source.next().await {
                Event::Loaded(snapshot) => (snapshot, Some(Changes(source))),
                Event::Failed(why) => return Err(StartError::Source(why)),
            },
        };
        let loaded = Loaded::new(&snapshot).map_err(StartError::Rules)?;
        Ok((loaded, changes))
    }
}

impl fmt::Debug for RulesFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Fixed(_) => "RulesFeed::fixed",
            Kind::Watched(_) => "RulesFeed::watch",
        })
    }
}

/// Rules to come.
pub(crate) struct Changes(Box<dyn RuleSource>);

impl Changes {
    /// Puts every usable change in force, for as long as this runs.
    pub(crate) async fn follow(mut self, node: Arc<Node>) {
        loop {
            match self.0.next().await {
                Event::Failed(why) => node.keep_rules(&why, vec![why.clone()]),
                Event::Loaded(snapshot) => {
                    let node = Arc::clone(&node);
                    // Many rules take a while to compile, during which requests want to be answered.
                    let change = tokio::task::spawn_blocking(move || change(&node, &snapshot));
                    if let Err(error) = change.await {
                        tracing::error!(%error, "the rules could not be compiled");
                    }
                }
            }
        }
    }
}

fn change(node: &Node, snapshot: &Snapshot) {
    match Loaded::new(snapshot) {
        Ok(loaded) => node.put_in_force(loaded),
        Err(problems) => {
            let mut reasons: Vec<String> = problems.list().iter().map(ToString::to_string).collect();
            if problems.more() > 0 {
                reasons.push(format!("and {} more", problems.more()));
            }
            node.keep_rules(&problems.to_string(), reasons);
        }
    }
}

/// Rules ready to be put in force.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) rules: RuleSet,
    /// The version their author gave them; the largest if several documents have one.
    pub(crate) document_version: Option<u64>,
}

impl Loaded {
    fn new(snapshot: &Snapshot) -> Result<Self, Problems> {
        let sources: Vec<Source<'_>> =
            snapshot.documents.iter().map(|NamedText { name, text }| Source { name, text }).collect();
        let version = Version { shown: snapshot.version, stamp: snapshot.stamp };
        let documents: Result<Vec<Document>, Problems> = sources.iter().map(read).collect();
        let Ok(documents) = documents else {
            // Reading ended at the first document with problems; loading finds those of all.
            return load(&sources, version).map(|rules| Self { rules, document_version: None });
        };
        let document_version = documents.iter().filter_map(Document::version).max();
        let rules = compile(documents, version)?;
        Ok(Self { rules, document_version })
    }
}
