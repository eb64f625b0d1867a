//! How rules arrive and change.

use std::fmt;
use std::sync::Arc;

use tidegate_core::RuleSet;
use tidegate_rules::{Document, Problems, Source, Version, compile, load, read};
use tidegate_sources::{Aside, Event, LastGood, Mended, RuleSource, Snapshot, StoredText, mend};

use crate::error::StartError;
use crate::node::Node;
use crate::rules_cache::RulesCache;

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
        let documents = vec![StoredText::new(name, 1, text)];
        Self(Kind::Fixed(Snapshot { version: 1, stamp: 1, apart: false, documents }))
    }

    /// Rules that change whenever `source` says so.
    ///
    /// What cannot be used changes nothing: the last good rules stay in force, and `/health`, the metrics and the log
    /// say so until the next good ones arrive.
    pub fn watch(source: impl RuleSource + 'static) -> Self {
        Self(Kind::Watched(Box::new(source)))
    }

    /// The first rules, without which there is no start, and where to hear of others. If the source is away or has only
    /// bad ones, the copy in `cache` will do.
    pub(crate) async fn start(self, cache: Option<RulesCache>) -> Result<Start, StartError> {
        let (first, source) = match self.0 {
            Kind::Fixed(snapshot) => (Event::Loaded(snapshot), None),
            Kind::Watched(mut source) => (source.next().await, Some(source)),
        };
        let (copy, damaged) = match cache.as_ref().map(RulesCache::read).transpose() {
            Ok(copy) => (copy.flatten(), None),
            Err(damaged) => (None, Some(damaged)),
        };
        let good = copy.as_ref().map(|copy| LastGood::of(&copy.documents)).unwrap_or_default();
        let wrong = match first {
            Event::Loaded(snapshot) => match Usable::new(snapshot, &good) {
                Ok(usable) => {
                    keep(cache.as_ref(), &usable.snapshot);
                    return Ok(Start::new(usable, None, source, cache));
                }
                Err(problems) => StartError::Rules(problems),
            },
            Event::Failed(why) => StartError::Source(why),
        };
        // A copy that cannot be used any more is as good as none.
        let usable = copy.and_then(|copy| Usable::new(copy, &good).ok());
        match (usable, damaged) {
            (Some(usable), _) => Ok(Start::new(usable, Some(Trouble::of(&wrong)), source, cache)),
            (None, Some(damaged)) => Err(StartError::Source(format!("{wrong}\n{damaged}"))),
            (None, None) => Err(wrong),
        }
    }
}

/// What a server starts with.
pub(crate) struct Start {
    pub(crate) loaded: Loaded,
    pub(crate) changes: Option<Changes>,
    /// What is to be told once there is somebody to tell it.
    pub(crate) trouble: Option<Trouble>,
    pub(crate) aside: Vec<Aside>,
}

impl Start {
    fn new(
        usable: Usable,
        trouble: Option<Trouble>,
        source: Option<Box<dyn RuleSource>>,
        cache: Option<RulesCache>,
    ) -> Self {
        let Usable { loaded, snapshot, aside } = usable;
        let good = LastGood::of(&snapshot.documents);
        let changes = source.map(|source| Changes { source, cache, good });
        Self { loaded, changes, trouble, aside }
    }
}

/// Rules that can be put in force, with the documents they come from.
struct Usable {
    loaded: Loaded,
    snapshot: Snapshot,
    /// Documents that cannot be.
    aside: Vec<Aside>,
}

impl Usable {
    /// Bad documents that stand by themselves are put aside; anything else that is wrong is wrong with all of it.
    fn new(snapshot: Snapshot, good: &LastGood) -> Result<Self, Problems> {
        let problems = match Loaded::new(&snapshot) {
            Ok(loaded) => return Ok(Self { loaded, snapshot, aside: Vec::new() }),
            Err(problems) => problems,
        };
        if !snapshot.apart {
            return Err(problems);
        }
        let Mended { documents, aside } = mend(&snapshot.documents, good);
        if aside.is_empty() {
            return Err(problems);
        }
        let mended = Snapshot { documents, ..snapshot };
        Ok(Self { loaded: Loaded::new(&mended)?, snapshot: mended, aside })
    }
}

/// Why the rules of a source are not in force.
pub(crate) struct Trouble {
    details: String,
    reasons: Vec<String>,
}

impl Trouble {
    fn of(error: &StartError) -> Self {
        match error {
            StartError::Rules(problems) => Self::in_rules(problems),
            other => Self { details: other.to_string(), reasons: vec![other.to_string()] },
        }
    }

    fn in_rules(problems: &Problems) -> Self {
        let mut reasons: Vec<String> = problems.list().iter().map(ToString::to_string).collect();
        if problems.more() > 0 {
            reasons.push(format!("and {} more", problems.more()));
        }
        Self { details: problems.to_string(), reasons }
    }

    /// Has `node` tell of it.
    pub(crate) fn tell(self, node: &Node) {
        node.keep_rules(&self.details, self.reasons);
    }
}

/// Keeps a copy of rules that are good. That it cannot be kept is no reason not to use them.
fn keep(cache: Option<&RulesCache>, snapshot: &Snapshot) {
    if let Some(cache) = cache
        && let Err(error) = cache.keep(snapshot)
    {
        tracing::warn!(file = %cache.path().display(), %error, "no copy of the rules can be kept");
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
pub(crate) struct Changes {
    source: Box<dyn RuleSource>,
    cache: Option<RulesCache>,
    good: LastGood,
}

impl Changes {
    /// Puts every usable change in force, for as long as this runs.
    pub(crate) async fn follow(mut self, node: Arc<Node>) {
        loop {
            match self.source.next().await {
                Event::Failed(why) => node.keep_rules(&why, vec![why.clone()]),
                Event::Loaded(snapshot) => {
                    let (node, cache, good) = (Arc::clone(&node), self.cache.clone(), self.good.clone());
                    // Many rules take a while to compile, during which requests want to be answered.
                    let change =
                        tokio::task::spawn_blocking(move || change(&node, cache.as_ref(), snapshot, &good));
                    match change.await {
                        Ok(good) => self.good = good.unwrap_or(self.good),
                        Err(error) => tracing::error!(%error, "the rules could not be compiled"),
                    }
                }
            }
        }
    }
}

/// Puts what can be used of `snapshot` in force, and says what that was.
fn change(node: &Node, cache: Option<&RulesCache>, snapshot: Snapshot, good: &LastGood) -> Option<LastGood> {
    match Usable::new(snapshot, good) {
        Ok(Usable { loaded, snapshot, aside }) => {
            node.put_in_force(loaded);
            node.put_aside(&aside);
            keep(cache, &snapshot);
            Some(LastGood::of(&snapshot.documents))
        }
        Err(problems) => {
            Trouble::in_rules(&problems).tell(node);
            None
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
            snapshot.documents.iter().map(StoredText::as_source).collect::<Result<_, _>>()?;
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
