//! How rules arrive and change.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tidegate_core::RuleSet;
use tidegate_rules::{Document, Problem, Problems, Source, Version, compile, load, read};
use tidegate_sources::{
    Aside, Event, LastGood, Mended, Pulse, RULE_WORK, RuleBook, RuleSource, Snapshot, StoredText, mend,
};

use crate::error::StartError;
use crate::memory::Memory;
use crate::node::Node;
use crate::rules_cache::RulesCache;

/// Where the rules come from.
pub struct RulesFeed {
    kind: Kind,
    book: Option<RuleBook>,
}

enum Kind {
    Fixed(Snapshot),
    Watched(Box<dyn RuleSource>),
}

impl RulesFeed {
    /// Rules that stay as they are: one document, called `name` in messages. To other nodes that share a store, they
    /// are older than any file.
    pub fn fixed(name: impl Into<String>, text: impl Into<String>) -> Self {
        let documents = vec![StoredText::new(name, 1, text)];
        Self { kind: Kind::Fixed(Snapshot { version: 1, stamp: 1, apart: false, documents }), book: None }
    }

    /// Rules that change whenever `source` says so.
    ///
    /// What cannot be used changes nothing: the last good rules stay in force, and `/health`, the metrics and the log
    /// say so until the next good ones arrive.
    pub fn watch(source: impl RuleSource + 'static) -> Self {
        Self { kind: Kind::Watched(Box::new(source)), book: None }
    }

    /// Has the rules be changed by the admin API, too, and their last good versions remembered where they come from.
    #[must_use]
    pub fn with_book(self, book: RuleBook) -> Self {
        Self { book: Some(book), ..self }
    }

    /// The first rules, without which there is no start, and where to hear of others. If the source is away or has only
    /// bad ones, the copy in `cache` will do.
    pub(crate) async fn start(self, cache: Option<RulesCache>) -> Result<Start, StartError> {
        let book = self.book;
        let (first, source) = match self.kind {
            Kind::Fixed(snapshot) => (Event::Loaded(snapshot), None),
            Kind::Watched(mut source) => (source.next().await, Some(source)),
        };
        let (copy, damaged) = match cache.as_ref().map(RulesCache::read).transpose() {
            Ok(copy) => (copy.flatten(), None),
            Err(damaged) => (None, Some(damaged)),
        };
        let good = copy.as_ref().map(|copy| LastGood::of(&copy.documents)).unwrap_or_default();
        let wrong = match first {
            Event::Loaded(snapshot) => match Usable::find(snapshot, good.clone(), book.as_ref()).await {
                Ok(usable) => {
                    keep(cache.as_ref(), &usable.snapshot);
                    return Ok(Start::new(usable, None, source, cache, book));
                }
                Err(problems) => StartError::Rules(problems),
            },
            Event::Failed(why) => StartError::Source(why),
        };
        // A copy that cannot be used any more is as good as none.
        let usable = match copy {
            Some(copy) => Usable::find(copy, good, None).await.ok(),
            None => None,
        };
        match (usable, damaged) {
            (Some(usable), _) => Ok(Start::new(usable, Some(Trouble::of(&wrong)), source, cache, book)),
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
    pub(crate) book: Option<RuleBook>,
    /// How old what the source told last may be.
    pub(crate) pulse: Option<Pulse>,
}

impl Start {
    fn new(
        usable: Usable,
        trouble: Option<Trouble>,
        source: Option<Box<dyn RuleSource>>,
        cache: Option<RulesCache>,
        book: Option<RuleBook>,
    ) -> Self {
        let mut memory = Memory::new(book.clone());
        memory.note(&usable, &LastGood::default());
        let Usable { loaded, snapshot, aside } = usable;
        let good = LastGood::of(&snapshot.documents);
        let pulse = source.as_ref().and_then(RuleSource::pulse);
        let changes = source.map(|source| Changes { source, cache, good, book: book.clone(), memory });
        Self { loaded, changes, trouble, aside, book, pulse }
    }
}

/// Rules that can be put in force, with the documents they come from.
pub(crate) struct Usable {
    loaded: Loaded,
    pub(crate) snapshot: Snapshot,
    /// Documents that cannot be.
    pub(crate) aside: Vec<Aside>,
}

impl Usable {
    /// Bad documents that stand by themselves are put aside; anything else that is wrong is wrong with all of it. What was
    /// last good is known to this node, or to the source itself.
    async fn find(snapshot: Snapshot, good: LastGood, book: Option<&RuleBook>) -> Result<Self, Problems> {
        let (snapshot, problems) = match rule_work(move || Loaded::of(snapshot)).await? {
            (Ok(loaded), snapshot) => return Ok(Self { loaded, snapshot, aside: Vec::new() }),
            (Err(problems), snapshot) => (snapshot, problems),
        };
        if !snapshot.apart {
            return Err(problems);
        }
        let look = move || {
            let bad = mend(&snapshot.documents, &good).aside;
            (bad, snapshot, good)
        };
        let (bad, snapshot, mut good) = rule_work(look).await?;
        if bad.is_empty() {
            return Err(problems);
        }
        if let Some(book) = book {
            let names: Vec<String> = bad.into_iter().map(|aside| aside.name).collect();
            // If it cannot be asked, what is known here must do.
            let remembered = book.archive().last_good(&names).await.unwrap_or_default();
            remembered.into_iter().for_each(|(name, text)| good.add(name, text));
        }
        let mend = move || {
            let Mended { documents, aside } = mend(&snapshot.documents, &good);
            (Loaded::of(Snapshot { documents, ..snapshot }), aside)
        };
        let ((loaded, snapshot), aside) = rule_work(mend).await?;
        Ok(Self { loaded: loaded?, snapshot, aside })
    }
}

/// Does something that takes a while where it holds nobody up.
async fn rule_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problems> {
    RULE_WORK.run(work).await.map_err(|error| Problem::whole("rules", error.to_string()).into())
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
        f.write_str(match self.kind {
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
    book: Option<RuleBook>,
    memory: Memory,
}

impl Changes {
    /// Puts every usable change in force, for as long as this runs.
    pub(crate) async fn follow(mut self, node: Arc<Node>) {
        loop {
            tokio::select! {
                event = self.source.next() => match event {
                    Event::Failed(why) => node.keep_rules(&why, vec![why.clone()]),
                    Event::Loaded(snapshot) => self.change(&node, snapshot).await,
                },
                () = self.memory.is_due() => self.memory.write(),
            }
        }
    }

    /// Puts what can be used of `snapshot` in force.
    async fn change(&mut self, node: &Node, snapshot: Snapshot) {
        match Usable::find(snapshot, self.good.clone(), self.book.as_ref()).await {
            Ok(usable) => {
                if let Err(error) = node.limiter.supports(&usable.loaded.rules) {
                    return node.keep_rules(&error.to_string(), vec![error.to_string()]);
                }
                self.memory.note(&usable, &self.good);
                let Usable { loaded, snapshot, aside } = usable;
                node.put_in_force(loaded);
                node.put_aside(aside);
                keep(self.cache.as_ref(), &snapshot);
                self.good = LastGood::of(&snapshot.documents);
            }
            Err(problems) => Trouble::in_rules(&problems).tell(node),
        }
    }
}

/// Rules ready to be put in force.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) rules: RuleSet,
    /// The version their author gave them; the largest if several documents have one.
    pub(crate) document_version: Option<u64>,
    /// The version of the document that each rule is in, by id.
    pub(crate) versions: HashMap<Box<str>, u64>,
}

impl Loaded {
    /// The snapshot is given back: it is not copied for this.
    fn of(snapshot: Snapshot) -> (Result<Self, Problems>, Snapshot) {
        (Self::new(&snapshot), snapshot)
    }

    fn new(snapshot: &Snapshot) -> Result<Self, Problems> {
        let sources: Vec<Source<'_>> =
            snapshot.documents.iter().map(StoredText::as_source).collect::<Result<_, _>>()?;
        let version = Version { shown: snapshot.version, stamp: snapshot.stamp };
        let documents: Result<Vec<Document>, Problems> = sources.iter().map(read).collect();
        let Ok(documents) = documents else {
            // Reading ended at the first document with problems; loading finds those of all.
            let rules = load(&sources, version);
            return rules.map(|rules| Self { rules, document_version: None, versions: HashMap::new() });
        };
        let mut versions = HashMap::new();
        for (document, stored) in documents.iter().zip(&snapshot.documents) {
            versions.extend(document.rules().map(|rule| (rule.id.clone(), stored.version)));
        }
        let document_version = documents.iter().filter_map(Document::version).max();
        let rules = compile(documents, version)?;
        Ok(Self { rules, document_version, versions })
    }
}
