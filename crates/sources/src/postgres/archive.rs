//! Rows that can be changed, and what is remembered of every change.

use std::collections::{HashMap, HashSet};
use std::future::Future;

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::time::timeout;

use super::place::{PATIENCE, Place};
use super::trouble::{self, Trouble};
use super::url::PostgresUrl;
use super::{migrate, records, rows};
use crate::archive::{Answer, ArchiveError, Commit, Contents, Record, RuleArchive, Subject, Write};
use crate::{GoodText, StoredText};

/// How many rows are changed in one transaction.
const MAX_WRITES: usize = 1000;

/// The longest name of a document: what a person can still tell from another, and an index can hold.
const MAX_NAME: usize = 512;

/// The writing side of [`PostgresSource`](crate::PostgresSource).
///
/// The server that can be written is found by itself if the URL names several. Each call has a connection of its own:
/// calls are rare, and a connection that is kept may have been lost unnoticed.
#[derive(Debug)]
pub struct PostgresArchive {
    url: PostgresUrl,
}

impl PostgresArchive {
    /// The rows in the database that `url` names. Nothing is connected yet.
    pub fn new(url: PostgresUrl) -> Self {
        Self { url }
    }

    /// Creates the tables and brings them up to date, all or nothing. What is there already is left alone.
    pub fn init(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let (place, mut connection) = self.primary().await?;
            Ok(migrate::run(place, &mut connection).await?)
        })
    }

    /// A connection to the server that can be written.
    async fn primary(&self) -> Result<(Place<'_>, PgConnection), ArchiveError> {
        match self.connect().await? {
            (place, connection, true) => Ok((place, connection)),
            (place, _, false) => Err(trouble::read_only(&self.url.address(place.server)).into()),
        }
    }

    /// The same if there is one; otherwise to one that can only be read. Says which.
    async fn connect(&self) -> Result<(Place<'_>, PgConnection, bool), Trouble> {
        let (mut readable, mut worst): (Option<_>, Option<Trouble>) = (None, None);
        for place in Place::all(&self.url, 0) {
            match open(place).await {
                Ok((connection, true)) => return Ok((place, connection, true)),
                Ok((connection, false)) => {
                    readable.get_or_insert((place, connection, false));
                }
                Err(trouble) => worst = Some(Trouble::more_telling(worst, trouble)),
            }
        }
        readable.ok_or_else(|| trouble::worst(worst))
    }

    async fn contents(&self) -> Result<Contents, ArchiveError> {
        let (place, mut connection, _) = self.connect().await?;
        let rows = rows::read(place, &mut connection).await?;
        Ok(Contents { documents: rows.documents, apart: true, state: rows.version })
    }

    async fn write(&self, commit: Commit) -> Result<u64, ArchiveError> {
        for Write { document, text, .. } in &commit.writes {
            if text.as_ref().is_some_and(|text| !rows::fits(text)) {
                return Err(ArchiveError::Refused(rows::too_long(document)));
            }
        }
        // What is too much by itself need not be sent to find that out.
        rows::check_written(&self.url, &commit.writes)?;
        let (place, mut connection) = self.primary().await?;
        let mut transaction = ask(place, connection.begin()).await?;
        // Triggers put it into the rows.
        let author = sqlx::query("SELECT set_config('tidegate.author', $1, true)").bind(&commit.author.name);
        ask(place, author.execute(&mut *transaction)).await?;
        // From here on nobody else can change a row.
        let question = sqlx::query_as("SELECT tidegate_next_version()");
        let (version,): (i64,) = ask(place, question.fetch_one(&mut *transaction)).await?;
        if version - 1 != records::number(commit.state) {
            return Err(ArchiveError::Moved);
        }
        expect(place, &mut transaction, &commit.writes).await?;
        change(place, &mut transaction, &commit.writes).await?;
        rows::measure(place, &mut transaction).await?;
        let changes = commit.writes.iter().flat_map(|write| &write.records);
        ask(place, records::add(&mut transaction, version, &commit.author, changes)).await?;
        ask(place, transaction.commit()).await?;
        Ok(records::count(version))
    }

    async fn note(&self, good: Vec<StoredText>) -> Result<(), ArchiveError> {
        let mut good: Vec<(String, i64, String)> = good
            .into_iter()
            .filter_map(|document| {
                Some((document.name, records::number(document.version), document.text.ok()?))
            })
            .collect();
        let (place, mut connection, writable) = self.connect().await?;
        // Every node notes the same: all but the first are to find that there is nothing to do, and lock nothing.
        let new = sqlx::query_as(
            "SELECT name FROM tidegate_rules JOIN unnest($1::text[], $2::bigint[]) AS good (name, version) USING (name) \
             WHERE good.version <= tidegate_rules.version AND good.version > coalesce(good_version, -1)",
        );
        let names: Vec<&str> = good.iter().map(|(name, _, _)| &**name).collect();
        let versions: Vec<i64> = good.iter().map(|&(_, version, _)| version).collect();
        let new = new.bind(names).bind(versions);
        let new: Vec<(String,)> = ask(place, new.fetch_all(&mut connection)).await?;
        let new: HashSet<String> = new.into_iter().map(|(name,)| name).collect();
        good.retain(|(name, _, _)| new.contains(name));
        if good.is_empty() {
            return Ok(());
        }
        if !writable {
            return Err(trouble::read_only(&self.url.address(place.server)).into());
        }
        for some in good.chunks(MAX_WRITES) {
            let note = sqlx::query(
                "UPDATE tidegate_rules SET good_version = good.version, good_text = good.text \
                 FROM unnest($1::text[], $2::bigint[], $3::text[]) AS good (name, version, text) \
                 WHERE good.name = tidegate_rules.name AND good.version <= tidegate_rules.version \
                 AND good.version > coalesce(good_version, -1)",
            );
            let names: Vec<&str> = some.iter().map(|(name, _, _)| &**name).collect();
            let versions: Vec<i64> = some.iter().map(|&(_, version, _)| version).collect();
            let texts: Vec<&str> = some.iter().map(|(_, _, text)| &**text).collect();
            ask(place, note.bind(names).bind(versions).bind(texts).execute(&mut connection)).await?;
        }
        Ok(())
    }

    async fn noted(&self, names: &[String]) -> Result<Vec<(String, GoodText)>, ArchiveError> {
        let (place, mut connection, _) = self.connect().await?;
        let question = sqlx::query_as(
            "SELECT name, good_version, good_text FROM tidegate_rules \
             WHERE name = ANY($1) AND good_version IS NOT NULL AND good_text IS NOT NULL",
        );
        let noted: Vec<(String, i64, String)> =
            ask(place, question.bind(names).fetch_all(&mut connection)).await?;
        let good = |(name, version, text)| (name, GoodText { version: records::count(version), text });
        Ok(noted.into_iter().map(good).collect())
    }

    async fn recorded(&self, subject: &Subject) -> Result<Vec<Record>, ArchiveError> {
        let (place, mut connection, _) = self.connect().await?;
        ask(place, records::of(&mut connection, subject)).await
    }
}

impl RuleArchive for PostgresArchive {
    fn read(&self) -> Answer<'_, Contents> {
        Box::pin(self.contents())
    }

    fn commit(&self, commit: Commit) -> Answer<'_, u64> {
        Box::pin(self.write(commit))
    }

    fn history<'a>(&'a self, subject: &'a Subject) -> Answer<'a, Vec<Record>> {
        Box::pin(self.recorded(subject))
    }

    fn remember(&self, good: Vec<StoredText>) -> Answer<'_, ()> {
        Box::pin(self.note(good))
    }

    fn last_good<'a>(&'a self, names: &'a [String]) -> Answer<'a, Vec<(String, GoodText)>> {
        Box::pin(self.noted(names))
    }

    fn place_of_rule(&self, rule_id: &str) -> String {
        rule_id.to_owned()
    }

    fn place_of_document(&self, name: &str) -> Result<String, String> {
        if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
            return Err(format!(
                "`{}` is no name of a document; it has one to {MAX_NAME} bytes and no control characters",
                name.escape_debug()
            ));
        }
        Ok(name.to_owned())
    }

    fn max_writes(&self) -> usize {
        MAX_WRITES
    }
}

/// Connects; says whether the server can be written.
async fn open(place: Place<'_>) -> Result<(PgConnection, bool), Trouble> {
    let mut connection = place.connect().await?;
    let question = sqlx::query_as("SELECT current_setting('transaction_read_only') = 'off'");
    let (writable,): (bool,) = place.ask(question.fetch_one(&mut connection)).await?;
    Ok((connection, writable))
}

/// Sees that rows are what they are expected to be.
async fn expect(
    place: Place<'_>,
    connection: &mut PgConnection,
    writes: &[Write],
) -> Result<(), ArchiveError> {
    let names: Vec<&str> = writes.iter().map(|write| &*write.document).collect();
    let question =
        sqlx::query_as("SELECT name, version FROM tidegate_rules WHERE name = ANY($1)").bind(names);
    let present: Vec<(String, i64)> = ask(place, question.fetch_all(connection)).await?;
    let present: HashMap<String, i64> = present.into_iter().collect();
    let is_expected =
        |write: &Write| present.get(&write.document).copied() == write.expected.map(records::number);
    if writes.iter().all(is_expected) { Ok(()) } else { Err(ArchiveError::Moved) }
}

/// Writes rows, which are good: whoever writes here has checked them.
async fn change(
    place: Place<'_>,
    connection: &mut PgConnection,
    writes: &[Write],
) -> Result<(), ArchiveError> {
    let gone: Vec<&str> =
        writes.iter().filter(|write| write.text.is_none()).map(|write| &*write.document).collect();
    let (names, texts): (Vec<&str>, Vec<&str>) =
        writes.iter().filter_map(|write| Some((&*write.document, write.text.as_deref()?))).unzip();
    if !gone.is_empty() {
        let delete = sqlx::query("DELETE FROM tidegate_rules WHERE name = ANY($1)").bind(gone);
        ask(place, delete.execute(&mut *connection)).await?;
    }
    if !names.is_empty() {
        // A version that is set makes the row a changed one, whatever its text.
        let put = sqlx::query(
            "INSERT INTO tidegate_rules (name, text, good_text) \
             SELECT name, text, text FROM unnest($1::text[], $2::text[]) AS new (name, text) \
             ON CONFLICT (name) DO UPDATE \
             SET text = excluded.text, good_text = excluded.good_text, version = excluded.version",
        );
        ask(place, put.bind(names).bind(texts).execute(connection)).await?;
    }
    Ok(())
}

/// Waits for an answer, but not for ever.
async fn ask<T>(
    place: Place<'_>,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, ArchiveError> {
    match timeout(PATIENCE, answer).await {
        Ok(Err(error)) if trouble::is_conflict(&error) => Err(ArchiveError::Moved),
        Ok(answer) => answer.map_err(|error| place.trouble(&error).into()),
        Err(_) => Err(place.silent().into()),
    }
}
