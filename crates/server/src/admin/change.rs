//! Looking at rules and documents where they come from, and changing them there:
//! `GET|PUT|DELETE /v1/rules/{rule_id}` and `/v1/documents/{name}`, their `/history` and `/rollback`

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use bytes::Bytes;
use http::header::{ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, Request, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_rules::decode;
use tidegate_sources::{
    Action, ArchiveError, Author, BookError, Change, Guard, Record, RuleBook, Step, Subject, Wish,
};
use tokio::sync::SemaphorePermit;

use super::rules::{MAX_BYTES, interrupted, invalid};
use super::{Door, rfc3339};
use crate::body;
use crate::caller::Caller;
use crate::reply::{self, Reply, Wrong};

/// How long a change may take to be in force on this node before it is told that it is not yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a change has done.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedBody {
    /// The rule, or the document.
    name: String,
    /// Whether anything had to be changed.
    changed: bool,
    /// The version of its document now; null if it is not there any more.
    version: Option<u64>,
    /// The version of its document before; null if it was not there.
    previous_version: Option<u64>,
    /// Whether this node decides by it already.
    in_force: bool,
}

/// What is remembered of a rule or a document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryBody {
    /// The rule, or the document.
    name: String,
    /// The changes, newest first.
    changes: Vec<RecordBody>,
}

/// One change.
#[derive(Debug, Serialize, JsonSchema)]
struct RecordBody {
    /// The version of the document since then.
    version: u64,
    /// The version before; null if it was not there.
    previous_version: Option<u64>,
    /// When (RFC 3339).
    at: String,
    /// The name of the token, or of the user of the machine.
    by: String,
    /// `created`, `changed`, `deleted` or `rolled_back`.
    action: &'static str,
    /// The version that it was rolled back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    to_version: Option<u64>,
    /// What was written before.
    before: Option<String>,
    /// What has been written since.
    after: Option<String>,
}

/// Which version is to be had again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollbackBody {
    /// A version that the history lists.
    to_version: u64,
}

/// What there is to change: `/v1/rules` is about rules, `/v1/documents` about whole documents.
pub(super) type About = fn(String) -> Subject;

pub(super) async fn put(
    about: About,
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Reply {
    let (guard, bytes) = match read(request).await {
        Ok(read) => read,
        Err(wrong) => return wrong.into(),
    };
    match decode(&name, &bytes) {
        Ok(text) => change(&door, caller, about(name), Wish::Put(text.to_owned()), guard).await,
        Err(problem) => invalid(&problem.into()),
    }
}

pub(super) async fn delete(
    about: About,
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Reply {
    match guard(&headers) {
        Ok(guard) => change(&door, caller, about(name), Wish::Delete, guard).await,
        Err(wrong) => wrong.into(),
    }
}

pub(super) async fn roll_back(
    about: About,
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Reply {
    let (guard, bytes) = match read(request).await {
        Ok(read) => read,
        Err(wrong) => return wrong.into(),
    };
    match serde_json::from_slice::<RollbackBody>(&bytes) {
        Ok(body) => change(&door, caller, about(name), Wish::RollBack(body.to_version), guard).await,
        Err(error) => {
            let message = format!("the body must be {{\"to_version\": VERSION}}: {error}");
            Wrong::new(StatusCode::BAD_REQUEST, "bad_request", message).about("to_version").into()
        }
    }
}

pub(super) async fn history(about: About, State(door): State<Arc<Door>>, Path(name): Path<String>) -> Reply {
    let (book, _place) = match book_in_turn(&door) {
        Ok(both) => both,
        Err(wrong) => return wrong.into(),
    };
    match book.history(&about(name.clone())).await {
        Ok(records) => {
            let changes = records.into_iter().map(RecordBody::from).collect();
            reply::json(StatusCode::OK, &HistoryBody { name, changes })
        }
        Err(error) => refuse(&error),
    }
}

/// `GET /v1/documents/{name}`
pub(super) async fn show_document(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Reply {
    let (book, _place) = match book_in_turn(&door) {
        Ok(both) => both,
        Err(wrong) => return wrong.into(),
    };
    match book.get(&Subject::Document(name)).await {
        Ok(entry) => {
            let text = entry.text.unwrap_or_default();
            tagged(reply::text(StatusCode::OK, "application/yaml", text), Some(entry.version))
        }
        Err(error) => refuse(&error),
    }
}

async fn change(door: &Door, caller: Caller, subject: Subject, wish: Wish, guard: Guard) -> Reply {
    let (book, _place) = match book_in_turn(door) {
        Ok(both) => both,
        Err(wrong) => return wrong.into(),
    };
    let author = Author { name: caller.name, at_ms: door.node.now().as_millis() };
    let change = Change { subject: subject.clone(), wish, guard };
    match book.change(vec![change], &author).await {
        Ok((steps, version)) => tell(door, book, subject, steps.first(), version).await,
        Err(error) => refuse(&error),
    }
}

async fn tell(
    door: &Door,
    book: &RuleBook,
    subject: Subject,
    step: Option<&Step>,
    version: Option<u64>,
) -> Reply {
    // Nothing had to be done: it is what it is.
    let present =
        if step.is_none() { book.get(&subject).await.ok().map(|entry| entry.version) } else { None };
    let version = step.map_or(present, |step| version.filter(|_| step.after.is_some()));
    let in_force = match &subject {
        Subject::Rule(id) => door.node.has_in_force(id, version, PATIENCE).await,
        Subject::Document(_) => false,
    };
    let created = step.is_some_and(|step| step.action == Action::Created);
    let (Subject::Rule(name) | Subject::Document(name)) = subject;
    if let Some(step) = step {
        tracing::info!(name, version, action = action_name(step.action), "rules changed by the admin API");
    }
    let body = ChangedBody {
        name,
        changed: step.is_some(),
        version,
        previous_version: step.map_or(present, |step| step.previous),
        in_force,
    };
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    tagged(reply::json(status, &body), version)
}

pub(super) fn book(door: &Door) -> Result<&RuleBook, Wrong> {
    door.node.book.as_ref().ok_or_else(|| {
        let message = "the built-in rules cannot be changed; serve with `--rules SOURCE`";
        Wrong::new(StatusCode::CONFLICT, "no_source", message)
    })
}

/// Returns where the rules can be changed, with a place among those who work with it.
pub(super) fn book_in_turn(door: &Door) -> Result<(&RuleBook, SemaphorePermit<'_>), Wrong> {
    Ok((book(door)?, door.line.enter()?))
}

/// What a request asks a rule or a document to be, and its body.
pub(super) async fn read(request: Request<Body>) -> Result<(Guard, Bytes), Wrong> {
    let guard = guard(request.headers())?;
    Ok((guard, body::read(request.into_body(), MAX_BYTES).await?))
}

/// What the headers ask a rule or a document to be.
fn guard(headers: &HeaderMap) -> Result<Guard, Wrong> {
    let value = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default().trim());
    match (value(&IF_MATCH), value(&IF_NONE_MATCH)) {
        (None, None) => Ok(Guard::Any),
        (Some("*"), None) => Ok(Guard::Present),
        (None, Some("*")) => Ok(Guard::Absent),
        (Some(tag), None) => version_in(tag).map(Guard::Version).ok_or_else(|| {
            let message = "If-Match must be one version in quotes, as ETag has it, or *";
            Wrong::new(StatusCode::BAD_REQUEST, "bad_request", message).about("if-match")
        }),
        _ => {
            let message = "If-None-Match must be * and the only condition";
            Err(Wrong::new(StatusCode::BAD_REQUEST, "bad_request", message).about("if-none-match"))
        }
    }
}

fn version_in(tag: &str) -> Option<u64> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    let bare = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(tag);
    bare.parse().ok()
}

/// With the version as its tag, if there is one.
pub(super) fn tagged(mut reply: Reply, version: Option<u64>) -> Reply {
    let tag = version.and_then(|version| HeaderValue::try_from(format!("\"{version}\"")).ok());
    reply.headers_mut().extend(tag.map(|tag| (ETAG, tag)));
    reply
}

pub(super) fn refuse(error: &BookError) -> Reply {
    let (status, name) = match error {
        BookError::Invalid(problems) => return invalid(problems),
        BookError::Interrupted(error) => return interrupted(*error),
        BookError::Edit { error, .. } if error.problems().is_some() => {
            return error.problems().map_or_else(Reply::default, invalid);
        }
        BookError::Conflict { present, .. } => {
            let wrong = Wrong::new(StatusCode::PRECONDITION_FAILED, "conflict", error.to_string());
            return tagged(wrong.into(), *present);
        }
        BookError::NotFound(_) | BookError::NoSuchVersion { .. } => (StatusCode::NOT_FOUND, "not_found"),
        BookError::Edit { .. } | BookError::Name(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
        BookError::Last | BookError::Archive(ArchiveError::Moved) => (StatusCode::CONFLICT, "conflict"),
        BookError::Archive(ArchiveError::Refused(_)) => (StatusCode::BAD_GATEWAY, "source_refused"),
        BookError::Archive(ArchiveError::Away(_)) => (StatusCode::SERVICE_UNAVAILABLE, "source_away"),
    };
    Wrong::new(status, name, error.to_string()).into()
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Created => "created",
        Action::Changed => "changed",
        Action::Deleted => "deleted",
        Action::RolledBack { .. } => "rolled_back",
    }
}

impl From<Record> for RecordBody {
    fn from(Record { version, author, change }: Record) -> Self {
        Self {
            version,
            previous_version: change.previous,
            at: rfc3339(author.at_ms),
            by: author.name,
            action: action_name(change.action),
            to_version: match change.action {
                Action::RolledBack { to } => Some(to),
                _ => None,
            },
            before: change.before,
            after: change.after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_browsers_and_people_write_them() {
        let guard_of = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
            guard(&headers.collect())
        };
        assert_eq!(guard_of(&[]), Ok(Guard::Any));
        for tag in ["\"7\"", "W/\"7\"", "7", " \"7\" "] {
            assert_eq!(guard_of(&[("if-match", tag)]), Ok(Guard::Version(7)), "{tag}");
        }
        assert_eq!(guard_of(&[("if-match", "*")]), Ok(Guard::Present));
        assert_eq!(guard_of(&[("if-none-match", "*")]), Ok(Guard::Absent));
        for wrong in
            [("if-match", "\"7\", \"8\""), ("if-match", "x"), ("if-none-match", "\"7\""), ("if-match", "")]
        {
            assert_eq!(guard_of(&[wrong]).unwrap_err().status(), 400, "{wrong:?}");
        }
        assert!(guard_of(&[("if-match", "7"), ("if-none-match", "*")]).is_err());
    }
}
