//! The rules in force, and whether others would be good: `GET /v1/rules`, `GET /v1/rules/{rule_id}`,
//! `GET /v1/documents`, `POST /v1/rules/validate`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use http::{Request, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use tidegate_rules::{Problem, Problems, Source, decode, load, to_json};
use tidegate_sources::{Aside, Change, Guard, Interrupted, OneAtATime, RULE_WORK, Subject, Wish};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Door;
use super::change::{book, book_in_turn, read, refuse, tagged};
use crate::node::InForce;
use crate::reply::{self, Reply, Wrong};

/// The largest document that is looked at: some 50,000 rules.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How many requests may be worked on or wait for [`RULE_WORK`] at once: rules that have changed elsewhere wait behind them.
const MAX_IN_LINE: usize = 32;

/// Writing the rules in force: they may be tens of thousands.
static LISTINGS: OneAtATime = OneAtATime::new();

/// The places of requests that need [`RULE_WORK`].
#[derive(Debug)]
pub(super) struct Line(Semaphore);

impl Line {
    /// Creates a line with nobody in it.
    pub(super) const fn new() -> Self {
        Self(Semaphore::const_new(MAX_IN_LINE))
    }

    /// Takes a place, or says that there is none.
    pub(super) fn enter(&self) -> Result<SemaphorePermit<'_>, Wrong> {
        self.0.try_acquire().map_err(|_| {
            let message =
                format!("{MAX_IN_LINE} requests about rules are under way already; try again in a second");
            Wrong::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
        })
    }
}

/// What a document sent to be validated is called in messages.
const DOCUMENT: &str = "document";

/// The rules in force.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RulesBody {
    /// Their version, as their source counts.
    rules_version: u64,
    /// The version their author gave them.
    document_version: Option<u64>,
    /// The rules by priority, as rule documents write them.
    #[schemars(schema_with = "rules_schema")]
    rules: Vec<serde_json::Value>,
    /// Documents that are not in force, because something is wrong with them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aside: Vec<AsideBody>,
}

/// A document that is not in force.
#[derive(Debug, Serialize, JsonSchema)]
struct AsideBody {
    /// The document.
    document: String,
    /// Its version.
    version: u64,
    /// Whether its last good version is in force instead.
    replaced: bool,
    /// What is wrong with it.
    errors: Vec<Mistake>,
}

impl From<&Aside> for AsideBody {
    fn from(aside: &Aside) -> Self {
        Self {
            document: aside.name.clone(),
            version: aside.version,
            replaced: aside.replaced,
            errors: aside.problems.list().iter().map(Mistake::from).collect(),
        }
    }
}

/// The documents that hold the rules.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DocumentsBody {
    /// All but those that are single rules.
    documents: Vec<DocumentBody>,
}

/// One of them.
#[derive(Debug, Serialize, JsonSchema)]
struct DocumentBody {
    /// Its name.
    name: String,
    /// Its version.
    version: u64,
}

/// Rules are written as they are read: what is not there is left out.
fn rules_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"$ref": "#/components/schemas/Rule"}})
}

/// Whether a document could be used.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Valid {
    /// Whether it could.
    valid: bool,
    /// All that is wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Mistake>,
}

/// One thing that is wrong with a document.
#[derive(Debug, Serialize, JsonSchema)]
struct Mistake {
    /// The document.
    file: Box<str>,
    /// The line, from 1.
    line: u32,
    /// The column in characters, from 1.
    column: u32,
    /// What is wrong and what to do about it.
    message: String,
}

impl From<&Problem> for Mistake {
    fn from(problem: &Problem) -> Self {
        let Problem { file, line, column, message, .. } = problem.clone();
        Self { file, line, column, message }
    }
}

pub(super) async fn list(State(door): State<Arc<Door>>) -> Reply {
    let write = move || {
        let rules = door.node.limiter.rules();
        let body = RulesBody {
            rules_version: rules.version(),
            document_version: InForce::of(&rules).and_then(|it| it.document_version),
            rules: rules.rules().map(to_json).collect(),
            aside: door.node.aside().iter().map(AsideBody::from).collect(),
        };
        reply::json(StatusCode::OK, &body)
    };
    LISTINGS.run(write).await.unwrap_or_else(interrupted)
}

pub(super) async fn show(State(door): State<Arc<Door>>, Path(rule_id): Path<String>) -> Reply {
    let rules = door.node.limiter.rules();
    let version = InForce::of(&rules).and_then(|it| it.version_of(&rule_id));
    match rules.get(&rule_id) {
        Some(rule) => tagged(reply::json(StatusCode::OK, &to_json(rule)), version),
        None => {
            let message = "there is no such rule; /v1/rules lists them";
            Wrong::new(StatusCode::NOT_FOUND, "not_found", message).about("rule_id").into()
        }
    }
}

/// Whether a document could be used by itself or, with `?rule_id=…`, a rule among all others where they come from.
pub(super) async fn validate(State(door): State<Arc<Door>>, request: Request<Body>) -> Reply {
    let rule_id = match rule_id(request.uri().query()) {
        Ok(rule_id) => rule_id.map(str::to_owned),
        Err(wrong) => return wrong.into(),
    };
    let (guard, bytes) = match read(request).await {
        Ok(read) => read,
        Err(wrong) => return wrong.into(),
    };
    let _place = match door.line.enter() {
        Ok(place) => place,
        Err(wrong) => return wrong.into(),
    };
    if let Some(rule_id) = rule_id {
        return validate_among(&door, rule_id, &bytes, guard).await;
    }
    match RULE_WORK.run(move || problems(&bytes)).await {
        Ok(None) => reply::json(StatusCode::OK, &Valid { valid: true, errors: Vec::new() }),
        Ok(Some(problems)) => invalid(&problems),
        Err(error) => interrupted(error),
    }
}

/// The rule that the query names. Ids have no characters that would have to be escaped there.
fn rule_id(query: Option<&str>) -> Result<Option<&str>, Wrong> {
    match query.map(|query| query.split_once('=')) {
        None => Ok(None),
        Some(Some(("rule_id", id))) => Ok(Some(id)),
        Some(_) => {
            let message = "only `rule_id` can be asked for here";
            Err(Wrong::new(StatusCode::BAD_REQUEST, "bad_request", message).about("rule_id"))
        }
    }
}

async fn validate_among(door: &Door, rule_id: String, bytes: &[u8], guard: Guard) -> Reply {
    let (book, text) = match (book(door), decode(&rule_id, bytes)) {
        (Ok(book), Ok(text)) => (book, text.to_owned()),
        (Err(wrong), _) => return wrong.into(),
        (_, Err(problem)) => return invalid(&problem.into()),
    };
    let change = Change { subject: Subject::Rule(rule_id), wish: Wish::Put(text), guard };
    match book.plan(vec![change]).await {
        Ok(_) => reply::json(StatusCode::OK, &Valid { valid: true, errors: Vec::new() }),
        Err(error) => refuse(&error),
    }
}

fn problems(bytes: &[u8]) -> Option<Problems> {
    match decode(DOCUMENT, bytes) {
        Ok(text) => load(&[Source { name: DOCUMENT, text }], 0).err(),
        Err(problem) => Some(problem.into()),
    }
}

/// The answer when something could not be done to its end.
pub(super) fn interrupted(error: Interrupted) -> Reply {
    Wrong::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()).into()
}

/// The answer to rules with these problems.
pub(super) fn invalid(problems: &Problems) -> Reply {
    let errors = problems.list().iter().map(Mistake::from).collect();
    reply::json(StatusCode::UNPROCESSABLE_ENTITY, &Valid { valid: false, errors })
}

/// `GET /v1/documents`
pub(super) async fn documents(State(door): State<Arc<Door>>) -> Reply {
    let (book, _place) = match book_in_turn(&door) {
        Ok(both) => both,
        Err(wrong) => return wrong.into(),
    };
    match book.documents().await {
        Ok(documents) => {
            let documents = documents.into_iter();
            let documents = documents.map(|(name, version)| DocumentBody { name, version }).collect();
            reply::json(StatusCode::OK, &DocumentsBody { documents })
        }
        Err(error) => refuse(&error),
    }
}
