//! What is done to a rule or a document, in words and for programs.

use std::io::{self, Write};

use serde_json::{Value, json};
use tidegate_sources::{Action, Step, Subject};

use super::opened::Opened;
use super::patch;

/// The rule's id, or the document's name.
pub(super) fn name(subject: &Subject) -> &str {
    let (Subject::Rule(name) | Subject::Document(name)) = subject;
    name
}

/// What was done, as programs call it; the admin listener does, too.
pub(super) fn action_name(action: Action) -> &'static str {
    match action {
        Action::Created => "created",
        Action::Changed => "changed",
        Action::Deleted => "deleted",
        Action::RolledBack { .. } => "rolled_back",
    }
}

/// The version that it was rolled back to, if it was.
pub(super) fn to_version(action: Action) -> Option<u64> {
    match action {
        Action::RolledBack { to } => Some(to),
        _ => None,
    }
}

/// What was done, in words.
pub(super) fn in_words(action: Action) -> String {
    match action {
        Action::RolledBack { to } => format!("rolled back to {to}"),
        other => action_name(other).to_owned(),
    }
}

/// Shows a step as a difference, with the version that it replaces.
pub(super) fn write(out: &mut dyn Write, opened: &Opened, step: &Step) -> io::Result<()> {
    let name = name(&step.subject);
    let elsewhere = match &step.subject {
        Subject::Rule(id) => opened.book.archive().place_of_rule(id) != step.document,
        Subject::Document(_) => false,
    };
    let document = if elsewhere { format!(" of {}", step.document) } else { String::new() };
    let before = match (step.previous, &step.before) {
        (Some(version), Some(_)) => format!("{name} (version {version}{document})"),
        (Some(version), None) => format!("{name} (not in version {version}{document})"),
        (None, _) => format!("{name} (not there)"),
    };
    let after = match (step.action, &step.after) {
        (Action::RolledBack { to }, Some(_)) => format!("{name} (as it was at version {to})"),
        (Action::RolledBack { to }, None) => format!("{name} (not there, as at version {to})"),
        (_, Some(_)) => format!("{name} (new)"),
        (_, None) => format!("{name} (deleted)"),
    };
    patch::write(out, (&before, step.before.as_deref()), (&after, step.after.as_deref()))
}

/// Steps for programs: whether they were taken, and the version that the changed document has by that, if it is only
/// one.
pub(super) fn to_json(steps: &[Step], applied: bool, version: Option<u64>) -> Value {
    let changes = steps.iter().map(|step| {
        json!({
            "kind": match step.subject {
                Subject::Rule(_) => "rule",
                Subject::Document(_) => "document",
            },
            "name": name(&step.subject),
            "document": step.document,
            "action": action_name(step.action),
            "to_version": to_version(step.action),
            "previous_version": step.previous,
            "before": step.before,
            "after": step.after,
        })
    });
    json!({ "changes": changes.collect::<Vec<_>>(), "applied": applied, "version": version })
}
