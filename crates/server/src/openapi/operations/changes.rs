//! Changing rules and whole documents where they come from.

use schemars::Schema;
use serde_json::{Value, json};
use tidegate_wire::ErrorBody;

use super::super::Schemas;
use super::{Listener, Operation};
use crate::admin::{ChangedBody, DocumentsBody, HistoryBody, RollbackBody, Valid};

/// What is changed, and where.
struct What {
    noun: &'static str,
    one: &'static str,
    history: &'static str,
    rollback: &'static str,
    parameter: &'static str,
    described: &'static str,
}

const RULE: What = What {
    noun: "rule",
    one: "/v1/rules/{rule_id}",
    history: "/v1/rules/{rule_id}/history",
    rollback: "/v1/rules/{rule_id}/rollback",
    parameter: "rule_id",
    described: "Its id",
};

const DOCUMENT: What = What {
    noun: "document",
    one: "/v1/documents/{name}",
    history: "/v1/documents/{name}/history",
    rollback: "/v1/documents/{name}/rollback",
    parameter: "name",
    described: "Its name, be it whole or without what all names have in common",
};

/// All of it.
pub(super) fn all(schemas: &mut Schemas) -> Vec<Operation> {
    let error = schemas.response::<ErrorBody>();
    let list = Operation::new(Listener::Admin, "GET", "/v1/documents", "The documents that hold the rules")
        .answers(200, "All but those that are single rules", &schemas.response::<DocumentsBody>())
        .answers(409, "The rules come from nowhere: they are built in", &error)
        .answers(503, "The source is away, or many requests about rules are under way (`busy`)", &error);
    let show = Operation::new(Listener::Admin, "GET", DOCUMENT.one, "One document as it is written")
        .parameter(DOCUMENT.parameter, "path", DOCUMENT.described, &text())
        .answers_text(200, "Its text; ETag is its version", "application/yaml")
        .answers(404, "There is no such document", &error)
        .answers(503, "The source is away, or many requests about rules are under way (`busy`)", &error);
    let both = [RULE, DOCUMENT].map(|what| changes(&what, schemas));
    [list, show].into_iter().chain(both.into_iter().flatten()).collect()
}

fn text() -> Value {
    json!({"type": "string"})
}

fn changes(what: &What, schemas: &mut Schemas) -> [Operation; 4] {
    let (error, valid) = (schemas.response::<ErrorBody>(), schemas.response::<Valid>());
    let changed = schemas.response::<ChangedBody>();
    let new = |method, path, summary| {
        Operation::new(Listener::Admin, method, path, summary).parameter(
            what.parameter,
            "path",
            what.described,
            &text(),
        )
    };
    let is_rule = what.noun == "rule";
    let change = |operation: Operation| outcome(operation, &changed, &error);
    let put = new(
        "PUT",
        what.one,
        if is_rule { "Create or change a rule" } else { "Store a whole document" },
    )
    .details(
        "Written where the rules come from, if all rules together are good; recorded with the caller's name.",
    )
    .parameter("If-None-Match", "header", "`*`: only if it is not there yet", &text())
    .reads_content(&json!({
        "application/yaml": {"schema": {"type": "string"}},
        "application/json": {"schema": {}},
    }))
    .answers(201, "It was created", &changed)
    .answers(422, "It is not good, or not with the others; all that is wrong", &valid);
    let delete = new("DELETE", what.one, if is_rule { "Delete a rule" } else { "Delete a document" })
        .answers(404, "There is none", &error)
        .answers(422, "The others would not be good without it", &valid);
    let history = new("GET", what.history, "Who changed it, when, and what it was").answers(
        200,
        "The changes, newest first",
        &schemas.response::<HistoryBody>(),
    );
    let rollback = new("POST", what.rollback, "Have it be again what it was at a version")
        .reads(&schemas.request::<RollbackBody>())
        .answers(404, "Nothing is remembered of this version", &error)
        .answers(422, "It would not be good any more", &valid);
    [change(put), change(delete), history, change(rollback)]
}

/// What all changes have in common.
fn outcome(operation: Operation, changed: &Schema, error: &Schema) -> Operation {
    operation
        .parameter(
            "If-Match",
            "header",
            "The version that it must have, as ETag gives it; or `*`: it must be there",
            &text(),
        )
        .answers(200, "What has been done; ETag is the new version", changed)
        .answers(403, "The token has not the role write", error)
        .answers(409, "The rules are built in, or these are the last ones", error)
        .answers(412, "It has another version, which ETag gives: somebody else has changed it", error)
        .answers(502, "Where the rules come from refuses; the message names the fix", error)
        .answers(
            503,
            "Where the rules come from is away, or many requests about rules are under way (`busy`)",
            error,
        )
}
