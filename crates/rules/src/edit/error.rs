//! Why a text is left as it is.

use std::fmt;

use crate::problem::{Problems, quoted};

/// Why a rule cannot be changed within its text. Nothing is changed then; the text of the error names the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The text that holds the rules has problems already.
    Text(Problems),
    /// What is given as the new rule has problems.
    Rule(Problems),
    /// The text would have these problems afterwards.
    Outcome(Problems),
    /// What is given as the new rule is so many rules.
    NotOne(usize),
    /// The new rule has another id than the one it is for.
    OtherId {
        /// The id it is for.
        wanted: Box<str>,
        /// The id it has.
        found: Box<str>,
    },
    /// There is no rule with this id.
    Unknown(Box<str>),
    /// This is part of a document (a domain for Envoy, `rate_limits`) that does not write its rules one by one.
    Form(Box<str>),
    /// An alias of YAML leads into this rule or out of it.
    Alias(Box<str>),
    /// Besides rules, the text says this.
    More(Vec<Box<str>>),
    /// The rule is laid out so that it cannot be changed without touching something else.
    Layout(Box<str>),
}

impl EditError {
    /// What is wrong with a text, where that is the reason.
    pub fn problems(&self) -> Option<&Problems> {
        match self {
            Self::Text(problems) | Self::Rule(problems) | Self::Outcome(problems) => Some(problems),
            _ => None,
        }
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(problems) => write!(f, "the text has problems already; fix them first\n{problems}"),
            Self::Rule(problems) => write!(f, "the rule has problems\n{problems}"),
            Self::Outcome(problems) => write!(f, "the text would have problems\n{problems}"),
            Self::NotOne(0) => write!(f, "there is no rule in it; write exactly one"),
            Self::NotOne(count) => write!(f, "these are {count} rules; write exactly one"),
            Self::OtherId { wanted, found } => {
                write!(f, "the rule is called {} and not {}; ", quoted(found), quoted(wanted))?;
                write!(f, "change its `rule_id`, or put it under its own name")
            }
            Self::Unknown(id) => write!(f, "there is no rule {}; name one that is there", quoted(id)),
            Self::Form(what) => {
                write!(f, "{} does not write its rules one by one; change the whole document", quoted(what))
            }
            Self::Alias(id) => write!(
                f,
                "rule {} shares values with the rest of the text by an alias; change the whole document",
                quoted(id)
            ),
            Self::More(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| quoted(key)).collect();
                let keys = keys.join(", ");
                write!(f, "the text says more than rules ({keys}), which would be lost; ")?;
                write!(f, "store it as a whole document")
            }
            Self::Layout(id) => write!(
                f,
                "rule {} cannot be changed without touching what is around it; change the whole document",
                quoted(id)
            ),
        }
    }
}

impl std::error::Error for EditError {}
