//! What is remembered of changes, as rows.

use std::collections::BTreeSet;

use sqlx::Error;
use sqlx::postgres::PgConnection;

use crate::archive::{Action, Author, MAX_RECORDS, NewRecord, Record, Subject};

/// A version, as PostgreSQL counts. No version is that large.
pub(super) fn number(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

/// The same, back. No version is negative.
pub(super) fn count(version: i64) -> u64 {
    u64::try_from(version).unwrap_or_default()
}

/// Adds records, and forgets the oldest of those that have too many.
pub(super) async fn add<'r>(
    connection: &mut PgConnection,
    version: i64,
    author: &Author,
    changes: impl Iterator<Item = &'r NewRecord>,
) -> Result<(), Error> {
    let mut columns = Columns::default();
    changes.for_each(|change| columns.push(change));
    if columns.kinds.is_empty() {
        return Ok(());
    }
    let subjects: BTreeSet<(&str, &str)> =
        columns.kinds.iter().copied().zip(columns.subjects.iter().copied()).collect();
    let (kinds, names): (Vec<&str>, Vec<&str>) = subjects.into_iter().unzip();
    let add = sqlx::query(
        "INSERT INTO tidegate_rule_history \
         (kind, subject, version, previous, at, author, action, rolled_back_to, before, after) \
         SELECT kind, subject, $1, previous, to_timestamp($2::double precision / 1000), $3, action, rolled_back_to, \
         before, after \
         FROM unnest($4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::text[], $10::text[]) \
         WITH ORDINALITY AS new (kind, subject, previous, action, rolled_back_to, before, after, position) \
         ORDER BY position",
    );
    let add = add.bind(version).bind(number(author.at_ms)).bind(&author.name);
    let add = add.bind(columns.kinds).bind(columns.subjects).bind(columns.previous).bind(columns.actions);
    add.bind(columns.rolled_back_to)
        .bind(columns.before)
        .bind(columns.after)
        .execute(&mut *connection)
        .await?;
    let trim = sqlx::query(
        "DELETE FROM tidegate_rule_history WHERE id IN (\
         SELECT id FROM (\
         SELECT id, row_number() OVER (PARTITION BY kind, subject ORDER BY id DESC) AS age FROM tidegate_rule_history \
         JOIN unnest($1::text[], $2::text[]) AS touched (kind, subject) USING (kind, subject)\
         ) AS all_of_them WHERE age > $3)",
    );
    let most = i64::try_from(MAX_RECORDS).unwrap_or(i64::MAX);
    trim.bind(kinds).bind(names).bind(most).execute(connection).await.map(drop)
}

/// The records of a subject, newest first.
pub(super) async fn of(connection: &mut PgConnection, subject: &Subject) -> Result<Vec<Record>, Error> {
    type Row = (i64, Option<i64>, i64, String, String, Option<i64>, Option<String>, Option<String>);
    let (kind, name) = split(subject);
    let question = sqlx::query_as(
        "SELECT version, previous, round(extract(epoch FROM at) * 1000)::bigint, author, action, rolled_back_to, \
         before, after FROM tidegate_rule_history WHERE kind = $1 AND subject = $2 ORDER BY id DESC LIMIT $3",
    );
    let most = i64::try_from(MAX_RECORDS).unwrap_or(i64::MAX);
    let rows: Vec<Row> = question.bind(kind).bind(name).bind(most).fetch_all(connection).await?;
    let record = |(version, previous, at, author, action, to, before, after): Row| Record {
        version: count(version),
        author: Author { name: author, at_ms: count(at) },
        change: NewRecord {
            subject: subject.clone(),
            action: action_of(&action, to),
            previous: previous.map(count),
            before,
            after,
        },
    };
    Ok(rows.into_iter().map(record).collect())
}

/// Records by their columns, so that any number of them is one statement.
#[derive(Default)]
struct Columns<'r> {
    kinds: Vec<&'r str>,
    subjects: Vec<&'r str>,
    previous: Vec<Option<i64>>,
    actions: Vec<&'r str>,
    rolled_back_to: Vec<Option<i64>>,
    before: Vec<Option<&'r str>>,
    after: Vec<Option<&'r str>>,
}

impl<'r> Columns<'r> {
    fn push(&mut self, change: &'r NewRecord) {
        let (kind, subject) = split(&change.subject);
        let (action, to) = match change.action {
            Action::Created => ("created", None),
            Action::Changed => ("changed", None),
            Action::Deleted => ("deleted", None),
            Action::RolledBack { to } => ("rolled_back", Some(number(to))),
        };
        self.kinds.push(kind);
        self.subjects.push(subject);
        self.previous.push(change.previous.map(number));
        self.actions.push(action);
        self.rolled_back_to.push(to);
        self.before.push(change.before.as_deref());
        self.after.push(change.after.as_deref());
    }
}

fn split(subject: &Subject) -> (&'static str, &str) {
    match subject {
        Subject::Rule(id) => ("rule", id),
        Subject::Document(name) => ("document", name),
    }
}

/// The table takes no other words.
fn action_of(word: &str, to: Option<i64>) -> Action {
    match (word, to) {
        ("created", _) => Action::Created,
        ("deleted", _) => Action::Deleted,
        ("rolled_back", Some(to)) => Action::RolledBack { to: count(to) },
        _ => Action::Changed,
    }
}
