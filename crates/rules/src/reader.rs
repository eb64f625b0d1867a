//! Reading single values: what is wrong with them is reported, and reading goes on.

use tidegate_core::{Span, Timestamp};

use crate::node::{Entry, Kind, Node};
use crate::problem::{Problem, Report, quoted};
use crate::suggest;
use crate::text::{Place, Text};

/// The longest text that a value may be. Descriptions, the longest, are shown in lists.
pub(crate) const MAX_TEXT_CHARS: usize = 4_096;

/// A text being read, and what is wrong with it so far.
pub(crate) struct Reader<'x> {
    pub(crate) text: &'x Text,
    pub(crate) report: Report,
}

impl<'x> Reader<'x> {
    pub(crate) fn new(text: &'x Text) -> Self {
        Self { text, report: Report::default() }
    }

    pub(crate) fn problem(&mut self, at: Place, message: impl Into<String>) {
        self.report.add(|| Problem::new(self.text, at, message.into()));
    }

    /// Reports that something is of the wrong kind; `fix` says how to write what was probably meant.
    pub(crate) fn expected(&mut self, name: &str, what: &str, node: &Node<'_>, fix: Option<String>) {
        let message = match (&node.kind, fix) {
            (Kind::Null, fix) => {
                let fix = fix.unwrap_or_else(|| "give it a value or remove the key".to_owned());
                format!("{name} must be {what}, and nothing is given; {fix}")
            }
            (_, Some(fix)) => format!("{name} must be {what}, not {}; {fix}", node.describe()),
            (_, None) => format!("{name} must be {what}, not {}", node.describe()),
        };
        self.problem(node.at, message);
    }

    pub(crate) fn text<'n>(&mut self, key: &str, node: &'n Node<'_>) -> Option<&'n str> {
        let fix = match &node.kind {
            Kind::Text(text) => return self.is_short(key, text, node.at).then_some(text),
            Kind::Number(number) => {
                Some(format!("write it in quotes: \"{}\"", quoted(number).replace('`', "")))
            }
            Kind::Flag(flag, _) => Some(format!("write it in quotes: \"{flag}\"")),
            _ => None,
        };
        self.expected(&quoted(key), "a text", node, fix);
        None
    }

    /// A text that may look like a number or a flag: it is what was written.
    pub(crate) fn written<'n>(&mut self, key: &str, node: &'n Node<'_>) -> Option<&'n str> {
        match &node.kind {
            Kind::Text(text) | Kind::Number(text) => self.is_short(key, text, node.at).then_some(text),
            Kind::Flag(_, text) => Some(text),
            _ => self.text(key, node),
        }
    }

    /// Returns whether `text` is within [`MAX_TEXT_CHARS`]; reports it if not.
    fn is_short(&mut self, key: &str, text: &str, at: Place) -> bool {
        let short = text.len() <= MAX_TEXT_CHARS || text.chars().count() <= MAX_TEXT_CHARS;
        if !short {
            let key = quoted(key);
            let message = format!("{key} must not be longer than {MAX_TEXT_CHARS} characters; shorten it");
            self.problem(at, message);
        }
        short
    }

    /// The same, where it must be fit for a name.
    pub(crate) fn written_name<'n>(&mut self, key: &str, node: &'n Node<'_>) -> Option<&'n str> {
        let text = self.written(key, node)?;
        self.is_name(&quoted(key), text, node.at).then_some(text)
    }

    /// A text that is not empty, within a length, and without control characters.
    pub(crate) fn name<'n>(&mut self, key: &str, node: &'n Node<'_>) -> Option<&'n str> {
        let text = self.text(key, node)?;
        self.is_name(&quoted(key), text, node.at).then_some(text)
    }

    /// Whether `text` can be a name; reports why not.
    pub(crate) fn is_name(&mut self, what: &str, text: &str, at: Place) -> bool {
        const CHARS: usize = 256;
        let problem = if text.is_empty() {
            format!("{what} must not be empty; write a name")
        } else if text.chars().count() > CHARS {
            format!("{what} must not be longer than {CHARS} characters; shorten it")
        } else if text.contains(char::is_control) {
            format!("{what} must not contain control characters; remove them from {}", quoted(text))
        } else {
            return true;
        };
        self.problem(at, problem);
        false
    }

    /// A whole number; `hint` is for those who tried to say something else with it.
    pub(crate) fn whole(&mut self, key: &str, node: &Node<'_>, hint: &str) -> Option<u64> {
        const WHAT: &str = "a whole number, 0 or more";
        let fix = match &node.kind {
            Kind::Number(number) => match number.parse() {
                Ok(value) => return Some(value),
                Err(_) if is_digits(number) => Some(format!("use at most {}", u64::MAX)),
                Err(_) if number.starts_with('-') => Some(hint.to_owned()),
                Err(_) => Some("write it in digits only".to_owned()),
            },
            Kind::Text(text) if is_digits(text) => Some("write it without quotes".to_owned()),
            Kind::Text(text) if is_digits(&without_groups(text)) => {
                Some(format!("write {}", without_groups(text)))
            }
            Kind::Text(_) => Some(hint.to_owned()),
            _ => None,
        };
        self.expected(&quoted(key), WHAT, node, fix.filter(|fix| !fix.is_empty()));
        None
    }

    pub(crate) fn signed(&mut self, key: &str, node: &Node<'_>) -> Option<i32> {
        let value = match &node.kind {
            Kind::Number(number) => number.parse().ok(),
            _ => None,
        };
        if value.is_none() {
            let what = format!("a whole number between {} and {}", i32::MIN, i32::MAX);
            self.expected(&quoted(key), &what, node, None);
        }
        value
    }

    pub(crate) fn flag(&mut self, key: &str, node: &Node<'_>) -> Option<bool> {
        let fix = match &node.kind {
            Kind::Flag(flag, _) => return Some(*flag),
            Kind::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Some("write `true`".to_owned()),
                "false" | "no" | "off" => Some("write `false`".to_owned()),
                _ => None,
            },
            _ => None,
        };
        self.expected(&quoted(key), "`true` or `false`", node, fix);
        None
    }

    /// A value out of a table of names.
    pub(crate) fn named<T: Clone>(
        &mut self,
        key: &str,
        node: &Node<'_>,
        table: &'static [(&'static str, T)],
    ) -> Option<T> {
        let known = || table.iter().map(|(name, _)| *name);
        let Kind::Text(text) = &node.kind else {
            self.expected(&quoted(key), &suggest::choice(known()), node, None);
            return None;
        };
        let found = table.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let hint = suggest::hint(text, known(), || format!("; use {}", suggest::choice(known())));
            self.problem(node.at, format!("unknown {} {}{hint}", quoted(key), quoted(text)));
        }
        found.map(|(_, value)| value.clone())
    }

    /// The values of a key that takes one or a list of them.
    pub(crate) fn many<'n, 't>(&mut self, key: &str, node: &'n Node<'t>) -> &'n [Node<'t>] {
        match &node.kind {
            Kind::List(items) => {
                if items.is_empty() {
                    let message =
                        format!("{} is an empty list; name at least one or remove the key", quoted(key));
                    self.problem(node.at, message);
                }
                items
            }
            _ => std::slice::from_ref(node),
        }
    }

    /// A list, whose entries look like `entry`.
    pub(crate) fn list<'n, 't>(
        &mut self,
        key: &str,
        node: &'n Node<'t>,
        entry: &str,
    ) -> Option<&'n [Node<'t>]> {
        if let Kind::List(items) = &node.kind {
            return Some(items);
        }
        let fix = match node.kind {
            Kind::Null => Some("write `[]` for none".to_owned()),
            _ => Some(format!("write each entry like `- {entry}`")),
        };
        self.expected(&quoted(key), "a list", node, fix);
        None
    }

    /// A mapping from names to values, which looks like `example`.
    pub(crate) fn map<'n, 't>(
        &mut self,
        key: &str,
        node: &'n Node<'t>,
        example: &str,
    ) -> Option<&'n [Entry<'t>]> {
        if let Kind::Map(entries) = &node.kind {
            return Some(entries);
        }
        self.expected(&quoted(key), "a mapping", node, Some(format!("write it like `{example}`")));
        None
    }

    pub(crate) fn duration(&mut self, key: &str, node: &Node<'_>) -> Option<Span> {
        match &node.kind {
            Kind::Text(text) => match text.parse() {
                Ok(span) => return Some(span),
                Err(error) => self.problem(node.at, format!("{}: {error}", quoted(key))),
            },
            Kind::Number(number) if is_digits(number) => {
                let number: String = number.chars().take(20).collect();
                let fix =
                    format!("write {number}s for seconds, or {number}ms, {number}m, {number}h, \u{2026}");
                self.expected(&quoted(key), "a duration with a unit", node, Some(fix));
            }
            _ => self.expected(&quoted(key), "a duration such as 500ms, 60s, 5m, 1h or 1d", node, None),
        }
        None
    }

    pub(crate) fn moment(&mut self, key: &str, node: &Node<'_>) -> Option<Timestamp> {
        let text = self.text(key, node)?;
        if let Ok(moment) = text.parse::<jiff::Timestamp>() {
            // Whatever lies before 1970 has ended, whenever that was.
            return Some(Timestamp::from_millis(u64::try_from(moment.as_millisecond()).unwrap_or(0)));
        }
        let message = format!(
            "{}: {} is not a point in time; write date, time and zone, such as 2027-01-01T00:00:00Z",
            quoted(key),
            quoted(text)
        );
        self.problem(node.at, message);
        None
    }
}

/// A number without what people put between groups of digits.
fn without_groups(text: &str) -> String {
    text.replace(['_', ',', '\''], "")
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
