//! Records as lines of JSON, where a source has no better place for them.

use serde::{Deserialize, Serialize};

use super::{Action, Author, NewRecord, Record, Subject};

/// One record.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    /// Left out where the place of the record says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<u64>,
    at_ms: u64,
    by: String,
    action: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Created,
    Changed,
    Deleted,
    RolledBack,
}

/// Writes a record; `version` if nothing else will tell it.
pub(crate) fn write(record: &NewRecord, author: &Author, version: Option<u64>) -> String {
    let NewRecord { subject, action, previous, before, after } = record.clone();
    let (rule, document) = match subject {
        Subject::Rule(id) => (Some(id), None),
        Subject::Document(name) => (None, Some(name)),
    };
    let (action, to) = match action {
        Action::Created => (Name::Created, None),
        Action::Changed => (Name::Changed, None),
        Action::Deleted => (Name::Deleted, None),
        Action::RolledBack { to } => (Name::RolledBack, Some(to)),
    };
    let Author { name: by, at_ms } = author.clone();
    let line = Line { rule, document, version, previous, at_ms, by, action, to, before, after };
    // Nothing in it cannot be written.
    serde_json::to_string(&line).unwrap_or_default()
}

/// Reads a record; `version` is what the place of the record says. Nothing if it is none: anybody can write there.
pub(crate) fn read(line: &[u8], version: Option<u64>) -> Option<Record> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let subject = match (line.rule, line.document) {
        (Some(id), None) => Subject::Rule(id),
        (None, Some(name)) => Subject::Document(name),
        _ => return None,
    };
    let action = match (line.action, line.to) {
        (Name::Created, None) => Action::Created,
        (Name::Changed, None) => Action::Changed,
        (Name::Deleted, None) => Action::Deleted,
        (Name::RolledBack, Some(to)) => Action::RolledBack { to },
        _ => return None,
    };
    let change =
        NewRecord { subject, action, previous: line.previous, before: line.before, after: line.after };
    let author = Author { name: line.by, at_ms: line.at_ms };
    Some(Record { version: line.version.or(version)?, author, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let author = Author { name: "ann".to_owned(), at_ms: 7 };
        for (subject, action) in [
            (Subject::Rule("r".to_owned()), Action::Created),
            (Subject::Document("t/documents/d".to_owned()), Action::Changed),
            (Subject::Rule("r".to_owned()), Action::Deleted),
            (Subject::Rule("r".to_owned()), Action::RolledBack { to: 3 }),
        ] {
            let change = NewRecord {
                subject,
                action,
                previous: Some(4),
                before: Some("\"\n".to_owned()),
                after: None,
            };
            let line = write(&change, &author, None);
            assert!(!line.contains('\n'), "{line}");
            let record = |version| Record { version, author: author.clone(), change: change.clone() };
            assert_eq!(read(line.as_bytes(), Some(5)), Some(record(5)));
            assert_eq!(read(line.as_bytes(), None), None);
            assert_eq!(read(write(&change, &author, Some(6)).as_bytes(), Some(5)), Some(record(6)));
        }
        assert_eq!(read(b"{}", Some(1)), None);
    }
}
