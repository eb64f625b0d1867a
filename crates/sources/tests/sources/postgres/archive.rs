//! Rows that are changed through Tidegate, and by hand at the same time.

use std::sync::Arc;

use tidegate_sources::{
    Action, ArchiveError, Author, Commit, GoodText, NewRecord, PostgresArchive, PostgresTiers, RuleArchive,
    RuleBook, StoredText, Subject, Write,
};
use tidegate_testkit::Postgres;

use super::{archive, put, start};
use crate::archive::{Stage, play};

fn author() -> Author {
    Author { name: "ann".to_owned(), at_ms: 1_700_000_000_123 }
}

fn rule(id: &str) -> Subject {
    Subject::Rule(id.to_owned())
}

/// The row `name` is to become `text`, if it still has the version `expected`.
fn write(name: &str, expected: Option<u64>, text: Option<&str>) -> Write {
    let action = match (expected, text) {
        (None, _) => Action::Created,
        (_, Some(_)) => Action::Changed,
        (_, None) => Action::Deleted,
    };
    let after = text.map(str::to_owned);
    let record = NewRecord {
        subject: rule(name),
        action,
        previous: expected,
        before: expected.map(|version| format!("of {version}")),
        after: after.clone(),
    };
    Write { document: name.to_owned(), expected, text: after, records: vec![record] }
}

fn commit(state: u64, writes: impl IntoIterator<Item = Write>) -> Commit {
    Commit { writes: writes.into_iter().collect(), state, author: author() }
}

async fn good(archive: &PostgresArchive, name: &str) -> Option<GoodText> {
    archive.last_good(&[name.to_owned()]).await.unwrap().pop().map(|(_, good)| good)
}

fn text(version: u64, text: &str) -> Option<GoodText> {
    Some(GoodText { version, text: text.to_owned() })
}

async fn present(archive: &PostgresArchive) -> (u64, Vec<StoredText>) {
    let contents = archive.read().await.unwrap();
    assert!(contents.apart);
    (contents.state, contents.documents)
}

#[tokio::test]
async fn the_story_that_is_the_same_on_every_archive() {
    let postgres = start().await;
    let book = RuleBook::new(Arc::new(archive(&postgres.url())));
    let write = move |id: &str, text: &str| put(&postgres, id, text);
    play(&Stage { book, write: Box::new(write), apart: true }).await;
}

#[tokio::test]
async fn what_is_written_is_there_with_its_history() {
    let postgres = start().await;
    let archive = archive(&postgres.url());
    assert_eq!(present(&archive).await, (0, Vec::new()), "nothing at all is no error");
    let first = commit(0, [write("a", None, Some("1")), write("b", None, Some("2"))]);
    assert_eq!(archive.commit(first).await, Ok(1));
    let second = commit(1, [write("a", Some(1), Some("11")), write("b", Some(1), None)]);
    assert_eq!(archive.commit(second).await, Ok(2));
    assert_eq!(present(&archive).await, (2, vec![StoredText::new("a", 2, "11")]));
    // The same text is a change, too, if somebody says so.
    assert_eq!(archive.commit(commit(2, [write("a", Some(2), Some("11"))])).await, Ok(3));
    assert_eq!(present(&archive).await, (3, vec![StoredText::new("a", 3, "11")]));
    assert_eq!(good(&archive, "a").await, text(3, "11"));
    assert_eq!(good(&archive, "b").await, None);
    assert_eq!(postgres.psql("SELECT updated_by FROM tidegate_rules"), "ann\n");

    let history = archive.history(&rule("b")).await.unwrap();
    assert_eq!(history.iter().map(|record| record.version).collect::<Vec<_>>(), [2, 1], "newest first");
    assert_eq!(history[0].author, author());
    assert_eq!(history[0].change, write("b", Some(1), None).records[0]);
    assert_eq!(history[1].change, write("b", None, Some("2")).records[0]);
    assert_eq!(archive.history(&Subject::Document("b".to_owned())).await, Ok(Vec::new()));

    let mut back = write("b", None, Some("2"));
    back.records[0].action = Action::RolledBack { to: 1 };
    back.records.push(NewRecord { subject: Subject::Document("b".to_owned()), ..back.records[0].clone() });
    assert_eq!(archive.commit(commit(3, [back.clone()])).await, Ok(4));
    assert_eq!(archive.history(&rule("b")).await.unwrap()[0].change, back.records[0]);
    assert_eq!(archive.history(&back.records[1].subject).await.unwrap()[0].change, back.records[1]);
}

#[tokio::test]
async fn what_has_moved_is_not_overwritten() {
    let postgres = start().await;
    let archive = archive(&postgres.url());
    archive.commit(commit(0, [write("a", None, Some("1"))])).await.unwrap();
    put(&postgres, "b", "by hand");
    let moved = Err(ArchiveError::Moved);
    assert_eq!(archive.commit(commit(1, [write("a", Some(1), Some("2"))])).await, moved, "another state");
    for bad in [write("a", Some(2), Some("2")), write("a", None, Some("2")), write("c", Some(1), None)] {
        let both = commit(2, [write("b", Some(2), Some("3")), bad.clone()]);
        assert_eq!(archive.commit(both).await, moved, "{bad:?}");
    }
    let (state, documents) = present(&archive).await;
    assert_eq!(state, 2, "a version that was not used is given again");
    assert_eq!(documents, [StoredText::new("a", 1, "1"), StoredText::new("b", 2, "by hand")]);
    assert_eq!(archive.history(&rule("b")).await, Ok(Vec::new()));
}

#[tokio::test]
async fn of_two_who_write_at_once_one_wins() {
    let postgres = start().await;
    let (one, two) = (archive(&postgres.url()), archive(&postgres.url()));
    for state in 0..20 {
        let expected = Some(state).filter(|&state| state > 0);
        let by = |who: &str| commit(state, [write("a", expected, Some(who))]);
        let outcomes = tokio::join!(one.commit(by("one")), two.commit(by("two")));
        let winner = match outcomes {
            (Ok(version), Err(ArchiveError::Moved)) if version == state + 1 => "one",
            (Err(ArchiveError::Moved), Ok(version)) if version == state + 1 => "two",
            other => panic!("{other:?}"),
        };
        assert_eq!(present(&one).await, (state + 1, vec![StoredText::new("a", state + 1, winner)]));
    }
}

/// Locks are taken in one order, by whomever.
#[tokio::test(flavor = "multi_thread")]
async fn writers_and_hands_do_not_wait_for_each_other_for_ever() {
    let postgres = start().await;
    put(&postgres, "a", "0");
    put(&postgres, "b", "0");
    let hands = "UPDATE tidegate_rules SET text = text || 'x' WHERE name = 'b'; \
                 UPDATE tidegate_rules SET text = text || 'x' WHERE name = 'a';";
    std::thread::scope(|scope| {
        let hand =
            scope.spawn(|| (0..10).for_each(|_| drop(postgres.psql(&format!("BEGIN; {hands} COMMIT")))));
        let archive = archive(&postgres.url());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        scope.spawn(move || {
            runtime.block_on(async {
                while !hand.is_finished() {
                    let (state, documents) = present(&archive).await;
                    let writes = documents
                        .iter()
                        .map(|document| write(&document.name, Some(document.version), Some("0")));
                    match archive.commit(commit(state, writes)).await {
                        Ok(_) | Err(ArchiveError::Moved) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                hand.join().unwrap();
            });
        });
    });
}

#[tokio::test]
async fn histories_have_an_end() {
    let postgres = start().await;
    let archive = archive(&postgres.url());
    for state in 0..103 {
        let expected = Some(state).filter(|&state| state > 0);
        archive.commit(commit(state, [write("a", expected, Some("x"))])).await.unwrap();
    }
    let history = archive.history(&rule("a")).await.unwrap();
    let versions = [&history[0], &history[99]].map(|record| record.version);
    assert_eq!((history.len(), versions), (100, [103, 4]));
    assert_eq!(postgres.psql("SELECT count(*) FROM tidegate_rule_history"), "100\n");
}

#[tokio::test]
async fn what_is_good_is_remembered() {
    let postgres = start().await;
    let archive = archive(&postgres.url());
    put(&postgres, "a", "1");
    archive.remember(vec![StoredText::new("a", 1, "1"), StoredText::new("gone", 1, "1")]).await.unwrap();
    assert_eq!(good(&archive, "a").await, text(1, "1"));
    put(&postgres, "a", "bad");
    assert_eq!(good(&archive, "a").await, text(1, "1"));
    put(&postgres, "a", "3");
    // A node that is behind the others.
    archive.remember(vec![StoredText::new("a", 3, "3")]).await.unwrap();
    archive.remember(vec![StoredText::new("a", 1, "1")]).await.unwrap();
    assert_eq!(good(&archive, "a").await, text(3, "3"));
    let bad = StoredText { text: Err("no text".to_owned()), ..StoredText::new("a", 3, "") };
    archive.remember(vec![bad, StoredText::new("a", 9, "from elsewhere")]).await.unwrap();
    assert_eq!(good(&archive, "a").await, text(3, "3"));
    assert_eq!(present(&archive).await.0, 3, "that is no change");
    // What was good once and is put back by hand is known to be good.
    put(&postgres, "a", "4");
    put(&postgres, "a", "3");
    assert_eq!(good(&archive, "a").await, text(5, "3"));
}

#[tokio::test]
async fn tables_are_created_once_whoever_comes_first() {
    let postgres = Postgres::start();
    let archives = [(); 3].map(|()| archive(&postgres.url()));
    let [one, two, three] = &archives;
    let created = tokio::join!(one.init(), two.init(), three.init());
    assert_eq!(created, (Ok(()), Ok(()), Ok(())));
    put(&postgres, "a", "1");
    one.init().await.unwrap();
    assert_eq!(present(one).await, (1, vec![StoredText::new("a", 1, "1")]), "and left alone from then on");
    assert_eq!(postgres.psql("SELECT number FROM tidegate_migrations ORDER BY number"), "1\n2\n3\n");
}

#[tokio::test]
async fn many_rows_are_written_at_once_and_too_much_is_refused() {
    let postgres = start().await;
    let archive = archive(&postgres.url());
    let names: Vec<String> = (0..archive.max_writes()).map(|name| format!("{name:04}")).collect();
    let many = commit(0, names.iter().map(|name| write(name, None, Some("1"))));
    assert_eq!(archive.commit(many).await, Ok(1));
    let (_, documents) = present(&archive).await;
    assert!(documents.iter().map(|document| &document.name).eq(&names));

    let refused = |error: ArchiveError| match error {
        ArchiveError::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    let long = " ".repeat(1024 * 1024);
    let why =
        refused(archive.commit(commit(1, [write("a", None, Some(&format!("{long} ")))])).await.unwrap_err());
    assert!(why.contains("a is larger than 1 MiB"), "{why}");
    let much = (0..65).map(|name| write(&format!("x{name}"), None, Some(&long)));
    let why = refused(archive.commit(commit(1, much)).await.unwrap_err());
    assert!(why.contains("larger than 64 MiB"), "{why}");
    let why = refused(archive.commit(commit(1, [write("a", None, Some("\0"))])).await.unwrap_err());
    assert!(why.contains("leave the character out"), "{why}");
    assert_eq!(present(&archive).await.0, 1);

    // Together with what is there already.
    postgres.psql(
        "INSERT INTO tidegate_rules (name, text) SELECT 'y' || n, repeat(' ', 1048576) FROM generate_series(1, 63) n",
    );
    let (version, _) = present(&archive).await;
    let why = refused(archive.commit(commit(version, [write("a", None, Some(&long))])).await.unwrap_err());
    assert!(why.contains("larger than 64 MiB"), "{why}");
    assert_eq!(present(&archive).await.0, version);
}

#[tokio::test]
async fn the_server_that_can_be_written_is_found() {
    let primary = start().await;
    let replica = Postgres::replica_of(&primary);
    let both = format!("{},{}", replica.address(), primary.address());
    let url = primary.url().replace(&primary.address().to_string(), &both);
    assert_eq!(archive(&url).commit(commit(0, [write("a", None, Some("1"))])).await, Ok(1));
    let reader = archive(&replica.url());
    let write = reader.commit(commit(1, [write("a", Some(1), Some("2"))])).await;
    assert!(
        matches!(&write, Err(ArchiveError::Refused(why)) if why.contains("--rules-primary")),
        "{write:?}"
    );
    primary.kill();
    let away = archive(&primary.url()).commit(commit(1, [])).await;
    assert!(matches!(&away, Err(ArchiveError::Away(why)) if why.contains("see that it runs")), "{away:?}");
    assert_eq!(archive(&url).read().await.unwrap().documents.len(), 1, "reading is possible still");
}

/// What docs/operations/postgres.md grants is enough, and not too much.
#[tokio::test]
async fn permissions() {
    let postgres = start().await;
    let page = include_str!("../../../../../docs/operations/postgres.md");
    let grants = page.split("```sql\n").skip(1).filter_map(|part| part.split("```").next());
    let grants: Vec<&str> = grants.filter(|part| part.contains("GRANT")).collect();
    assert_eq!(grants.len(), 1);
    postgres.psql(grants[0]);
    let as_user = |user: &str| archive(&format!("postgres://{user}:secret@{}/postgres", postgres.address()));
    let (node, admin) = (as_user("tidegate_node"), as_user("tidegate_admin"));
    assert_eq!(admin.commit(commit(0, [write("a", None, Some("1"))])).await, Ok(1));
    assert_eq!(admin.commit(commit(1, [write("a", Some(1), Some("2"))])).await, Ok(2));
    assert_eq!(admin.history(&rule("a")).await.unwrap().len(), 2);
    put(&postgres, "a", "3");
    node.remember(vec![StoredText::new("a", 3, "3")]).await.unwrap();
    assert_eq!((present(&node).await.0, good(&node, "a").await), (3, text(3, "3")));
    let denied = node.commit(commit(3, [write("a", Some(3), None)])).await;
    assert!(matches!(&denied, Err(ArchiveError::Refused(why)) if why.contains("postgres.md")), "{denied:?}");
    assert_eq!(admin.commit(commit(3, [write("a", Some(3), None)])).await, Ok(4));
    assert_eq!(postgres.psql("SELECT author FROM tidegate_rule_history LIMIT 1"), "ann\n");
    let tiers = PostgresTiers::new(
        format!("postgres://tidegate_node:secret@{}/postgres", postgres.address()).parse().unwrap(),
    );
    assert_eq!(tiers.tier_of(None, "ann").await, Ok(None));
}

#[test]
fn names_of_documents() {
    let archive = archive("postgres://u@h/d");
    assert_eq!(archive.place_of_rule("each"), "each");
    assert_eq!(archive.place_of_document("main rules").as_deref(), Ok("main rules"));
    for name in ["", "a\nb", &"x".repeat(513)] {
        assert!(archive.place_of_document(name).unwrap_err().contains("no control characters"), "{name:?}");
    }
}
