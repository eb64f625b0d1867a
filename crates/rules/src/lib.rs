//! Rule documents: YAML or JSON in, a rule set or *all* that is wrong out.
//!
//! ```text
//! text → nodes with places → document → (with others) rule set
//! ```
//!
//! Reading never stops at the first mistake. Each [`Problem`] says where it is, what is wrong and what to write
//! instead; a text with any problem gives no rules at all, so that a typo cannot quietly lift a limit.
//!
//! ```
//! use tidegate_rules::{Source, compile, read};
//!
//! let text = "rules:\n  - rule_id: everybody\n    identifier_type: global\n    limt: 50\n    window: 60s\n";
//! let problems = read(&Source { name: "rules.yaml", text }).unwrap_err();
//! assert_eq!(problems.list()[0].to_string(), "rules.yaml:4:5: unknown key `limt`, did you mean `limit`?");
//!
//! let document = read(&Source { name: "rules.yaml", text: &text.replace("limt", "limit") })?;
//! let rules = compile(vec![document], 1)?;
//! assert_eq!(rules.len(), 1);
//! # Ok::<(), tidegate_rules::Problems>(())
//! ```

mod charge;
mod compile;
mod condition;
mod contents;
mod convert;
mod cost;
mod descriptor;
mod document;
mod domains;
mod edit;
mod emit;
mod envoy;
mod fields;
mod figures;
pub mod form;
mod json;
mod names;
mod node;
mod overrides;
mod patience;
mod plans;
mod problem;
mod reader;
mod rule;
mod schema;
mod suggest;
mod text;
mod write;
mod yaml;
mod yaml_input;

use std::sync::Arc;

use tidegate_core::RuleSet;

pub use compile::{Version, compile};
pub use document::Document;
pub use edit::{EditError, put_rule, remove_rule, rule_text, rule_texts, split};
pub use problem::{MAX_PROBLEMS, Problem, Problems, Snippet, decode};
pub use schema::json_schema;
pub use write::to_json;

use reader::Reader;
use text::Text;

/// The rules in force where none are configured: small, and meant to be read.
pub const EXAMPLE: &str = include_str!("../examples/default.yaml");

/// One text to read: the content of a file, of a key, of a row.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What to call it in messages.
    pub name: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// Reads one text; all that is wrong with it by itself is reported together.
///
/// What it may share with other texts (tiers, unique ids) is [`compile`]'s to check.
pub fn read(source: &Source<'_>) -> Result<Document, Problems> {
    let (document, mut report) = read_as_far_as_possible(source);
    report.append(compile::contradictions(std::slice::from_ref(&document)));
    report.sort(std::slice::from_ref(source));
    report.finish(document)
}

/// Reads and compiles all the texts of a source, and reports all that is wrong with them, by themselves and
/// together.
pub fn load(sources: &[Source<'_>], version: impl Into<Version>) -> Result<RuleSet, Problems> {
    compile(read_together(sources)?, version)
}

/// All the texts of a source as one YAML document in Tidegate's own form, whatever form each of them has. Loading it
/// gives the same rule set.
pub fn convert(sources: &[Source<'_>]) -> Result<String, Problems> {
    let documents = read_together(sources)?;
    let text = convert::to_yaml(&documents)?;
    compile(documents, 1).map(|_| text)
}

fn read_together(sources: &[Source<'_>]) -> Result<Vec<Document>, Problems> {
    let (documents, reports): (Vec<_>, Vec<_>) = sources.iter().map(read_as_far_as_possible).unzip();
    let mut report = problem::Report::default();
    reports.into_iter().for_each(|each| report.append(each));
    report.append(compile::check(&documents));
    report.sort(sources);
    report.finish(documents)
}

fn read_as_far_as_possible(source: &Source<'_>) -> (Document, problem::Report) {
    let text = Arc::new(Text::new(source.name, source.text));
    let mut reader = Reader::new(&text);
    let document = Document::read(&mut reader, &text);
    (document, reader.report)
}
