//! Changing one rule within a text, and nothing else of it.
//!
//! A text is never written anew: what a rule takes up is found, and only that is replaced, so that comments, order,
//! blank lines and indentation stay what they were. Comments directly above a rule, within it and (further indented
//! than its dash) directly below it belong to it. The result is read and held against what the text said before: if
//! anything but the one rule differs, there is an error and no text.

mod change;
mod check;
mod error;
mod flow;
mod lines;
mod page;
mod piece;
mod spot;

use crate::Source;
use crate::emit;
use change::{Change, Fresh};
use check::{Difference, differ_by};
pub use error::EditError;
use lines::Language;
use page::{Layout, Page, id_of};
use spot::Spot;

/// The rule `rule_id` of a text as a text of its own, with the comments that belong to it; `None` if the text has no such
/// rule.
///
/// What the rule takes from the `defaults` of its document is not part of it.
///
/// ```
/// use tidegate_rules::{Source, rule_text};
///
/// let text = "rules:\n  # Everybody.\n  - rule_id: all # of them\n    identifier_type: global\n    limit: 5\n    window: 1s\n";
/// let rule = rule_text(&Source { name: "rules.yaml", text }, "all")?;
/// let expected = "# Everybody.\nrule_id: all # of them\nidentifier_type: global\nlimit: 5\nwindow: 1s\n";
/// assert_eq!(rule.as_deref(), Some(expected));
/// # Ok::<(), tidegate_rules::EditError>(())
/// ```
pub fn rule_text(source: &Source<'_>, rule_id: &str) -> Result<Option<String>, EditError> {
    let page = Page::open(source).map_err(EditError::Text)?;
    page.find(rule_id)?.map(|spot| text_of(&page, &spot)).transpose()
}

/// Returns several rules of a text like [`rule_text`], reading the text once; `None` for those that are not there or cannot be shown by
/// themselves.
pub fn rule_texts<'i>(
    source: &Source<'_>,
    rule_ids: impl IntoIterator<Item = &'i str>,
) -> Vec<Option<String>> {
    let page = Page::open(source).ok();
    let index = page.as_ref().map(Page::index).unwrap_or_default();
    let text = |id| {
        let (page, &(root, item)) = (page.as_ref()?, index.get(id)?);
        let spot = Spot::of(page, &page.shelf(root)?, item).ok()?;
        text_of(page, &spot).ok()
    };
    rule_ids.into_iter().map(text).collect()
}

/// The text with the rule `rule_id` replaced by `rule`, or with `rule` after the last one if there is none yet.
///
/// `rule` is a text, YAML or JSON, of exactly one rule with that id. Comments above a rule stay when it is replaced, unless
/// `rule` has others; a rule in the other language than the text is translated, which only the comments above it survive.
pub fn put_rule(source: &Source<'_>, rule_id: &str, rule: &str) -> Result<String, EditError> {
    let new = Page::open(&Source { name: rule_id, text: rule }).map_err(EditError::Rule)?;
    let fresh = Fresh::of(&new, rule_id)?;
    let page = Page::open(source).map_err(EditError::Text)?;
    if let Some(spot) = page.find(rule_id)? {
        let difference = Difference::Replaced(spot.root, spot.item, fresh.node);
        return first_sound(source, &page, rule_id, change::replace(&page, &spot, &fresh), difference);
    }
    let holds_rules = |layout| !matches!(layout, Layout::Absent(_));
    let shelf =
        page.shelves().rfind(|shelf| holds_rules(shelf.layout)).or_else(|| page.shelves().next_back());
    let shelf = shelf.ok_or_else(|| page.not_one_by_one())?;
    let difference = match shelf.layout {
        Layout::Document(_) => Difference::Appended(shelf.root, fresh.node),
        _ => Difference::Added(shelf.root, fresh.node),
    };
    first_sound(source, &page, rule_id, change::add(&page, &shelf, &fresh)?, difference)
}

/// The text without the rule `rule_id` and the comments that belong to it. A text that held nothing else becomes
/// `rules: []`.
pub fn remove_rule(source: &Source<'_>, rule_id: &str) -> Result<String, EditError> {
    let page = Page::open(source).map_err(EditError::Text)?;
    let unknown = || EditError::Unknown(rule_id.into());
    let spot = page.find(rule_id)?.ok_or_else(unknown)?;
    let shelf = page.shelves().find(|shelf| shelf.root == spot.root).ok_or_else(unknown)?;
    let others =
        page.roots.iter().enumerate().any(|(root, node)| root != spot.root && check::states_rules(node));
    let ways = change::remove(&page, &shelf, &spot, !others);
    let difference = Difference::Removed(spot.root, spot.item);
    first_sound(source, &page, rule_id, ways, difference)
}

/// All rules of a text that says nothing else, in order: each with its id, and as a text of its own with the comments
/// that belong to it.
///
/// An error names what else the text says, which would be lost: such a text is to be stored whole. Comments that belong
/// to no rule are not kept.
pub fn split(source: &Source<'_>) -> Result<Vec<(String, String)>, EditError> {
    let page = Page::open(source).map_err(EditError::Text)?;
    let each = |spot: Spot| {
        let id = page.rule(&spot).and_then(id_of).unwrap_or_default();
        Ok((id.to_owned(), text_of(&page, &spot)?))
    };
    page.nothing_but_rules()?.into_iter().map(each).collect()
}

/// A rule as it is written or, where it cannot stand by itself like that, as it would usually be written.
fn text_of(page: &Page<'_>, spot: &Spot) -> Result<String, EditError> {
    let rule = page.rule(spot);
    let id = rule.and_then(id_of).unwrap_or_default();
    let rule = rule.ok_or_else(|| EditError::Layout(id.into()))?;
    let mut plain = String::new();
    match page.language {
        Language::Json => plain = flow::written(rule, Language::Json, true) + "\n",
        Language::Yaml => emit::document(&mut plain, rule),
    }
    let stands = |text: &String| {
        let page = Page::open(&Source { name: id, text });
        page.is_ok_and(|page| matches!(page.roots.as_slice(), [only] if only.says_the_same(rule)))
    };
    let texts = [spot.cut(page.text).into_text(), plain];
    texts.into_iter().find(stands).ok_or_else(|| EditError::Layout(id.into()))
}

/// The text after the first of several ways to change it that changes just what it should.
fn first_sound<'n, 't>(
    source: &Source<'_>,
    page: &Page<'t>,
    id: &str,
    ways: Vec<Vec<Change>>,
    difference: Difference<'n, 't>,
) -> Result<String, EditError> {
    let mut error = EditError::Layout(id.into());
    for way in ways {
        let text = change::apply(page.text, way);
        match Page::open(&Source { name: source.name, text: &text }) {
            Ok(after) if differ_by(&page.roots, &after.roots, difference) => {
                let mark = if source.text.starts_with('\u{feff}') { "\u{feff}" } else { "" };
                return Ok(format!("{mark}{text}"));
            }
            Ok(_) => {}
            Err(problems) => error = EditError::Outcome(problems),
        }
    }
    Err(error)
}
