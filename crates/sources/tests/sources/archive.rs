//! Changing rules, wherever they are kept: the same story on every archive.

use std::path::Path;
use std::sync::Arc;

use tidegate_sources::{
    Action, Author, BookError, Change, EtcdArchive, FileArchive, Guard, Record, RuleArchive, RuleBook,
    Subject, Wish, ZookeeperArchive,
};
use tidegate_testkit::{Etcd, Zookeeper};

/// Has the document of a rule be a text.
pub(crate) type ByHand = Box<dyn Fn(&str, &str)>;

/// An archive, and how to write there by other means.
pub(crate) struct Stage {
    pub(crate) book: RuleBook,
    pub(crate) write: ByHand,
    /// Whether each rule has a document of its own.
    pub(crate) apart: bool,
}

pub(crate) fn rule(id: &str, limit: u32) -> String {
    format!("rule_id: {id}\nidentifier_type: user_id\nlimit: {limit} # per minute\nwindow: 1m\n")
}

fn of(id: &str) -> Subject {
    Subject::Rule(id.to_owned())
}

fn author(name: &str) -> Author {
    Author { name: name.to_owned(), at_ms: 1_700_000_000_000 }
}

fn put(id: &str, limit: u32, guard: Guard) -> Change {
    Change { subject: of(id), wish: Wish::Put(rule(id, limit)), guard }
}

impl Stage {
    async fn change(&self, change: Change) -> Result<Option<u64>, BookError> {
        self.book.change(vec![change], &author("ann")).await.map(|(_, version)| version)
    }

    async fn put(&self, id: &str, limit: u32, guard: Guard) -> Result<u64, BookError> {
        Ok(self.change(put(id, limit, guard)).await?.expect("something changes"))
    }

    async fn limit(&self, id: &str) -> String {
        let text = self.book.get(&of(id)).await.unwrap().text.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("limit: "));
        line.unwrap_or_else(|| panic!("no limit in {text}")).trim_end_matches(" # per minute").to_owned()
    }

    async fn history(&self, id: &str) -> Vec<Record> {
        self.book.history(&of(id)).await.unwrap()
    }

    async fn ids(&self) -> Vec<String> {
        self.book.list().await.unwrap().rules.into_iter().map(|entry| entry.name).collect()
    }
}

/// All of it, one thing after the other.
pub(crate) async fn play(stage: &Stage) {
    rules_are_created_changed_deleted_and_brought_back(stage).await;
    what_is_not_good_changes_nothing(stage).await;
    of_two_who_change_the_same_rule_one_wins(stage).await;
    nobody_is_in_the_way_of_those_who_change_other_rules(stage).await;
    whole_documents_have_a_history_too(stage).await;
    old_records_are_forgotten(stage).await;
    if stage.apart {
        what_was_written_by_other_means_is_seen_and_mended(stage).await;
        the_last_rule_stays(stage).await;
    }
}

async fn rules_are_created_changed_deleted_and_brought_back(stage: &Stage) {
    assert!(stage.ids().await.is_empty());
    let first = stage.put("a", 1, Guard::Absent).await.unwrap();
    stage.put("b", 5, Guard::Any).await.unwrap();
    assert_eq!(stage.ids().await, ["a", "b"]);
    let known = stage.book.get(&of("a")).await.unwrap().version;
    if stage.apart {
        assert_eq!(known, first, "other rules do not matter");
    }
    let second = stage.put("a", 2, Guard::Version(known)).await.unwrap();
    assert_ne!(second, known);
    assert_eq!(stage.limit("a").await, "2");

    // The same again is no change.
    assert_eq!(stage.change(put("a", 2, Guard::Any)).await.unwrap(), None);

    let conflict = stage.put("a", 3, Guard::Version(known)).await.unwrap_err();
    let BookError::Conflict { expected, present, .. } = &conflict else { panic!("{conflict}") };
    assert_eq!((*expected, *present), (Some(known), Some(second)));
    assert!(conflict.to_string().contains(&format!("version {second}")), "{conflict}");
    assert!(matches!(stage.put("a", 3, Guard::Absent).await, Err(BookError::Conflict { .. })));

    let gone = Change { subject: of("a"), wish: Wish::Delete, guard: Guard::Version(second) };
    stage.change(gone.clone()).await.unwrap();
    assert_eq!(stage.ids().await, ["b"]);
    assert!(matches!(stage.book.get(&of("a")).await, Err(BookError::NotFound(_))));
    assert!(matches!(stage.change(gone).await, Err(BookError::Conflict { .. } | BookError::NotFound(_))));

    let records = stage.history("a").await;
    let told: Vec<_> = records.iter().map(|record| (record.change.action, &*record.author.name)).collect();
    assert_eq!(told, [(Action::Deleted, "ann"), (Action::Changed, "ann"), (Action::Created, "ann")]);
    assert_eq!((records[1].version, records[1].change.previous), (second, Some(known)));
    assert_eq!(records[1].change.before.as_deref(), Some(&*rule("a", 1)));
    assert_eq!(records[1].change.after.as_deref(), Some(&*rule("a", 2)));
    assert_eq!((records[0].change.after.as_deref(), records[0].author.at_ms), (None, 1_700_000_000_000));

    let back = |to| Change { subject: of("a"), wish: Wish::RollBack(to), guard: Guard::Any };
    stage.change(back(records[2].version)).await.unwrap();
    assert_eq!(stage.limit("a").await, "1");
    stage.change(back(second)).await.unwrap();
    assert_eq!(stage.limit("a").await, "2");
    assert_eq!(stage.history("a").await[0].change.action, Action::RolledBack { to: second });
    stage.change(back(records[0].version)).await.unwrap();
    assert_eq!(stage.ids().await, ["b"], "it was not there then");
    let unknown = stage.change(back(999_999)).await.unwrap_err().to_string();
    assert!(unknown.contains("nothing is remembered of rule a at version 999999"), "{unknown}");
}

async fn what_is_not_good_changes_nothing(stage: &Stage) {
    let before = stage.book.archive().read().await.unwrap();
    let put = |id: &str, text: &str| Change {
        subject: of(id),
        wish: Wish::Put(text.to_owned()),
        guard: Guard::Any,
    };
    for (change, words) in [
        (put("c", "rule_id: c\nlimt: 5\n"), "limt"),
        (put("c", &rule("d", 1)), "not c"),
        (put("c", "rules: []"), "one"),
        (put("c", &format!("{}tiers: {{}}\n", rule("c", 1))), "tiers"),
        (put("c", &rule("c", 1).replace("limit: 1 #", "tiered: true #")), "tier"),
        (Change { subject: of("c"), wish: Wish::Delete, guard: Guard::Any }, "no rule c"),
    ] {
        let why = stage.change(change.clone()).await.unwrap_err().to_string();
        assert!(why.contains(words), "{change:?}: {why}");
        // One bad change spoils those that come with it.
        let both = vec![self::put("good", 1, Guard::Any), change];
        assert!(stage.book.change(both, &author("ann")).await.is_err());
    }
    assert_eq!(stage.book.archive().read().await.unwrap(), before);
}

async fn of_two_who_change_the_same_rule_one_wins(stage: &Stage) {
    for round in 0..5 {
        let version = stage.book.get(&of("b")).await.unwrap().version;
        let (one, other) = tokio::join!(
            stage.put("b", 100 + round, Guard::Version(version)),
            stage.put("b", 200 + round, Guard::Version(version)),
        );
        let (won, lost) = match (one, other) {
            (Ok(won), Err(lost)) => ((won, 100 + round), lost),
            (Err(lost), Ok(won)) => ((won, 200 + round), lost),
            both => panic!("{both:?}"),
        };
        assert_eq!(stage.limit("b").await, won.1.to_string());
        let BookError::Conflict { present, .. } = lost else { panic!("{lost}") };
        assert_eq!(present, Some(won.0));
        assert_eq!(stage.history("b").await[0].version, won.0);
    }
}

async fn nobody_is_in_the_way_of_those_who_change_other_rules(stage: &Stage) {
    let ids: Vec<String> = (0..4).map(|number| format!("many{number}")).collect();
    let all = ids.iter().map(|id| stage.put(id, 7, Guard::Absent));
    for done in futures_util::future::join_all(all).await {
        done.unwrap();
    }
    let known = stage.ids().await;
    assert!(ids.iter().all(|id| known.contains(id)), "{known:?}");
    // All in one step, and all or none.
    let gone =
        ids.iter().map(|id| Change { subject: of(id), wish: Wish::Delete, guard: Guard::Any }).collect();
    let (steps, _) = stage.book.change(gone, &author("bob")).await.unwrap();
    assert_eq!(steps.len(), 4);
    assert_eq!(stage.ids().await, ["b"]);
}

async fn whole_documents_have_a_history_too(stage: &Stage) {
    let name = if stage.apart { "main".to_owned() } else { stage.book.archive().place_of_rule("main") };
    let subject = Subject::Document(name.clone());
    let tiers = |limit| {
        let own =
            if stage.apart { String::new() } else { format!("rules:\n  - {}", indented(&rule("b", 5))) };
        format!("tiers: {{ free: {{ limit: {limit}, window: 1s }} }}\n{own}")
    };
    let wish = |wish| Change { subject: subject.clone(), wish, guard: Guard::Any };
    let first = stage.change(wish(Wish::Put(tiers(1)))).await.unwrap().unwrap();
    stage.change(wish(Wish::Put(tiers(2)))).await.unwrap();
    let text = stage.book.get(&subject).await.unwrap().text.unwrap();
    assert_eq!(text, tiers(2));
    // A rule that needs the tiers keeps them there.
    let tiered = rule("t", 1).replace("limit: 1", "tiered: true").replace("window: 1m\n", "");
    stage.change(Change { subject: of("t"), wish: Wish::Put(tiered), guard: Guard::Any }).await.unwrap();
    if stage.apart {
        let why = stage.change(wish(Wish::Delete)).await.unwrap_err();
        assert!(matches!(why, BookError::Invalid(_)), "{why}");
        stage.change(wish(Wish::RollBack(first))).await.unwrap();
        assert_eq!(stage.book.get(&subject).await.unwrap().text.unwrap(), tiers(1));
        assert_eq!(stage.book.history(&subject).await.unwrap().len(), 3);
    }
    stage.change(Change { subject: of("t"), wish: Wish::Delete, guard: Guard::Any }).await.unwrap();
    let text = stage.book.get(&subject).await.unwrap().text.unwrap();
    assert!(text.contains("tiers:"), "{text}");
}

fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ") + "\n"
}

async fn old_records_are_forgotten(stage: &Stage) {
    for limit in 1000..1102 {
        stage.put("b", limit, Guard::Any).await.unwrap();
    }
    let records = stage.history("b").await;
    assert_eq!(records.len(), 100);
    let limits = |record: &Record| record.change.after.clone().unwrap();
    assert!(limits(&records[0]).contains("limit: 1101") && limits(&records[99]).contains("limit: 1002"));
}

async fn what_was_written_by_other_means_is_seen_and_mended(stage: &Stage) {
    stage.put("hand", 1, Guard::Any).await.unwrap();
    (stage.write)("hand", &rule("hand", 2));
    assert_eq!(stage.limit("hand").await, "2");
    let good = stage.book.get(&of("hand")).await.unwrap();
    stage.book.archive().remember(stage.book.archive().read().await.unwrap().documents).await.unwrap();
    (stage.write)("hand", &rule("hand", 3).replace("limit", "limt"));

    let listing = stage.book.list().await.unwrap();
    let aside = &listing.aside[..];
    assert!(
        aside.len() == 1 && aside[0].replaced && aside[0].problems.to_string().contains("limt"),
        "{aside:?}"
    );
    let names = [good.document.clone()];
    let remembered = stage.book.archive().last_good(&names).await.unwrap();
    assert_eq!((remembered[0].1.version, &*remembered[0].1.text), (good.version, &*rule("hand", 2)));

    // Others go on; it is mended by putting it right, or by going back.
    stage.put("b", 5, Guard::Any).await.unwrap();
    let bad = stage.book.get(&of("hand")).await.unwrap();
    assert!(bad.version > good.version && bad.text.unwrap().contains("limt"));
    stage.put("hand", 4, Guard::Version(bad.version)).await.unwrap();
    assert!(stage.book.list().await.unwrap().aside.is_empty());
    let record = &stage.history("hand").await[0];
    assert!(record.change.before.as_deref().unwrap().contains("limt"), "{record:?}");
    (stage.write)("hand", &rule("hand", 9));
    let by_hand = stage.book.get(&of("hand")).await.unwrap().version;
    stage.put("hand", 10, Guard::Any).await.unwrap();
    let back = Change { subject: of("hand"), wish: Wish::RollBack(by_hand), guard: Guard::Any };
    stage.change(back).await.unwrap();
    assert_eq!(stage.limit("hand").await, "9", "what was written by other means can be had again");
}

async fn the_last_rule_stays(stage: &Stage) {
    let listing = stage.book.list().await.unwrap();
    let mut all: Vec<Change> = listing
        .rules
        .iter()
        .map(|entry| Change { subject: of(&entry.name), wish: Wish::Delete, guard: Guard::Any })
        .collect();
    let documents = listing.documents.iter().map(|(name, _)| Subject::Document(name.clone()));
    all.extend(documents.map(|subject| Change { subject, wish: Wish::Delete, guard: Guard::Any }));
    let why = stage.book.change(all, &author("ann")).await.unwrap_err();
    assert!(matches!(why, BookError::Last), "{why}");
}

fn book(archive: impl RuleArchive + 'static) -> RuleBook {
    RuleBook::new(Arc::new(archive))
}

#[tokio::test]
async fn a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    play(&Stage { book: book(FileArchive::new(&path)), write: Box::new(|_, _| {}), apart: false }).await;
    assert!(std::fs::read_to_string(&path).unwrap().contains("# per minute"), "comments stay");
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".rules.yaml.history", ".rules.yaml.lock", "rules.yaml"]);
}

#[tokio::test]
async fn etcd() {
    let etcd = Etcd::start();
    let url = format!("etcd://{}/t", etcd.address()).parse().unwrap();
    let write = move |id: &str, text: &str| etcd.put(&format!("t/rules/{id}"), text);
    play(&Stage { book: book(EtcdArchive::new(url)), write: Box::new(write), apart: true }).await;
}

#[tokio::test]
async fn zookeeper() {
    let zookeeper = Zookeeper::start();
    let url = format!("zookeeper://{}/config/rules", zookeeper.address()).parse().unwrap();
    let write = move |id: &str, text: &str| {
        zookeeper.put(&format!("/config/rules/{id}"), text);
    };
    play(&Stage { book: book(ZookeeperArchive::new(url)), write: Box::new(write), apart: true }).await;
}

/// A folder has a file for each new rule, and changes rules where they are.
#[tokio::test]
async fn a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("main.yaml");
    std::fs::write(
        &main,
        "# ours\nrules:\n  # the first\n  - {rule_id: a, identifier_type: global, limit: 1, window: 1s}\n",
    )
    .unwrap();
    let stage =
        Stage { book: book(FileArchive::new(folder.path())), write: Box::new(|_, _| {}), apart: false };
    stage.put("b", 2, Guard::Absent).await.unwrap();
    stage.put("a", 3, Guard::Any).await.unwrap();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(&folder.path().join("b.yaml")), rule("b", 2));
    let changed = text(&main);
    assert!(
        changed.starts_with("# ours\nrules:\n  # the first\n") && changed.contains("limit: 3"),
        "{changed}"
    );
    // What an editor has changed meanwhile is not written over.
    let version = stage.book.get(&of("a")).await.unwrap().version;
    std::fs::write(&main, changed.replace("limit: 3", "limit: 4")).unwrap();
    assert!(matches!(stage.put("a", 5, Guard::Version(version)).await, Err(BookError::Conflict { .. })));
    stage.change(Change { subject: of("b"), wish: Wish::Delete, guard: Guard::Any }).await.unwrap();
    assert!(!folder.path().join("b.yaml").exists());
}
