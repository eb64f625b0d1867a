//! The rows that hold documents, in memory.

use futures_util::TryStreamExt;
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::place::Place;
use super::trouble::Trouble;
use super::url::PostgresUrl;
use crate::{StoredText, Write};

/// The largest text that is taken for a document.
const MAX_TEXT: i32 = 1024 * 1024;

/// The most rows.
const MAX_ROWS: i64 = 100_000;

/// The most that all texts together may hold, as with files.
const MAX_BYTES: i64 = 64 * 1024 * 1024;

/// All documents at one moment.
#[derive(Debug)]
pub(super) struct Rows {
    /// The version that the rules have by now.
    pub(super) version: u64,
    /// In the order in which they are to be joined.
    pub(super) documents: Vec<StoredText>,
}

/// The version alone, and whether it comes from a replica.
pub(super) async fn version(place: Place<'_>, connection: &mut PgConnection) -> Result<(u64, bool), Trouble> {
    let question = sqlx::query_as("SELECT (SELECT version FROM tidegate_state), pg_is_in_recovery()");
    let (version, replica): (Option<i64>, bool) = place.ask(question.fetch_one(connection)).await?;
    Ok((known(place.url, version)?, replica))
}

/// Everything, as it was at one moment.
pub(super) async fn read(place: Place<'_>, connection: &mut PgConnection) -> Result<Rows, Trouble> {
    let begin = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    let mut transaction = place.ask(begin).await?;
    // Known before the rest is read.
    let (version, count) = measure(place, &mut transaction).await?;
    let mut documents = Vec::with_capacity(count);
    {
        let all = sqlx::query_as(
            "SELECT name, version, CASE WHEN octet_length(text) <= $1 THEN text END FROM tidegate_rules",
        );
        let mut rows = all.bind(MAX_TEXT).fetch(&mut *transaction);
        while let Some((name, version, text)) = place.ask(rows.try_next()).await? {
            documents.push(document(name, version, text));
        }
    }
    place.ask(transaction.commit()).await?;
    // Servers sort by rules of their own.
    documents.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(Rows { version, documents })
}

/// Sees that there is not more than can be meant. Returns the version and how many rows there are.
pub(super) async fn measure(
    place: Place<'_>,
    connection: &mut PgConnection,
) -> Result<(u64, usize), Trouble> {
    let question = sqlx::query_as(
        "SELECT (SELECT version FROM tidegate_state), count(*), \
         coalesce(sum(octet_length(text)) FILTER (WHERE octet_length(text) <= $1), 0)::bigint FROM tidegate_rules",
    );
    let (version, count, bytes): (Option<i64>, i64, i64) =
        place.ask(question.bind(MAX_TEXT).fetch_one(connection)).await?;
    check(place.url, count, bytes)?;
    Ok((known(place.url, version)?, usize::try_from(count).unwrap_or_default()))
}

/// Whether a text can be a document.
pub(super) fn fits(text: &str) -> bool {
    i32::try_from(text.len()).is_ok_and(|length| length <= MAX_TEXT)
}

/// What is wrong with one that cannot.
pub(super) fn too_long(name: &str) -> String {
    format!("{name} is larger than 1 MiB; spread its rules over several rows")
}

fn document(name: String, version: i64, text: Option<String>) -> StoredText {
    let text = text.ok_or_else(|| too_long(&name));
    StoredText::stored(name, u64::try_from(version).unwrap_or_default(), text)
}

/// The version, which is there unless somebody has removed it.
fn known(url: &PostgresUrl, version: Option<i64>) -> Result<u64, Trouble> {
    version.and_then(|version| u64::try_from(version).ok()).ok_or_else(|| {
        Trouble::data(format!(
            "tidegate_state in {url} is empty; in psql: INSERT INTO tidegate_state (version) \
             SELECT coalesce(max(version), 0) + 1 FROM tidegate_rules"
        ))
    })
}

/// Refuses to write more than there may be.
pub(super) fn check_written(url: &PostgresUrl, writes: &[Write]) -> Result<(), Trouble> {
    let texts = || writes.iter().filter_map(|write| write.text.as_deref());
    let bytes: usize = texts().map(str::len).sum();
    let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
    check(url, number(texts().count()), number(bytes))
}

/// Refuses more than can be meant.
fn check(url: &PostgresUrl, count: i64, bytes: i64) -> Result<(), Trouble> {
    if count > MAX_ROWS {
        return Err(Trouble::data(format!(
            "{url} holds more than {MAX_ROWS} rows with rules; join rules into fewer documents"
        )));
    }
    if bytes > MAX_BYTES {
        let most = MAX_BYTES / (1024 * 1024);
        return Err(Trouble::data(format!(
            "the rules in {url} are larger than {most} MiB; use fewer or shorter rules"
        )));
    }
    Ok(())
}

impl Rows {
    /// All documents. None at all is a mistake in the URL far more often than a wish for no limits.
    pub(super) fn documents(&self, url: &PostgresUrl) -> Result<Vec<StoredText>, Trouble> {
        if self.documents.is_empty() {
            return Err(Trouble::data(format!(
                "{url} holds no rules; put one there, as in: tidegate rules apply rule.yaml, \
                 or in psql: INSERT INTO tidegate_rules (name, text) VALUES ('ID', 'TEXT')"
            )));
        }
        Ok(self.documents.clone())
    }
}

/// A database that does not know what its bytes mean cannot turn them into text.
pub(super) async fn check_encoding(place: Place<'_>, connection: &mut PgConnection) -> Result<(), Trouble> {
    let question = sqlx::query_as("SELECT getdatabaseencoding()::text");
    let (encoding,): (String,) = place.ask(question.fetch_one(connection)).await?;
    if encoding != "SQL_ASCII" {
        return Ok(());
    }
    let url = place.url;
    Err(Trouble::refused(format!(
        "the database of {url} has the encoding SQL_ASCII, which is none; create one with ENCODING 'UTF8'"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_rows_nor_bytes_grow_without_end() {
        let url = "postgres://u@h/d".parse().unwrap();
        assert_eq!(check(&url, MAX_ROWS, MAX_BYTES), Ok(()));
        let told = |count, bytes| check(&url, count, bytes).unwrap_err().text;
        assert!(told(MAX_ROWS + 1, 0).contains("more than 100000 rows"));
        assert!(told(1, MAX_BYTES + 1).contains("larger than 64 MiB"));
        assert!(document("a".to_owned(), 1, None).text.unwrap_err().contains("a is larger than 1 MiB"));
        assert!(
            known(&url, None).unwrap_err().text.contains("tidegate_state in postgres://h:5432/d is empty")
        );
    }
}
