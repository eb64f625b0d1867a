//! Names of documents, which are shown in logs, on terminals and in headers.

use crate::StoredText;

/// Says why `name` cannot be the name of a document, if it has characters that could play tricks on a terminal.
pub(crate) fn check(name: &str) -> Result<(), String> {
    if name.contains(char::is_control) {
        return Err(format!(
            "the name `{}` has control characters, which no name may have; leave them out",
            name.escape_debug()
        ));
    }
    Ok(())
}

impl StoredText {
    /// A document as a source holds it. One with a name that [cannot be](check) is no text, and is called by what its name looks
    /// like, escaped.
    pub(crate) fn stored(name: String, version: u64, text: Result<String, String>) -> Self {
        match check(&name) {
            Ok(()) => Self { name, text, version },
            Err(why) => {
                let fix = "store the document under another name, and delete this one where it is stored";
                Self { name: name.escape_debug().to_string(), text: Err(format!("{why}: {fix}")), version }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_control_characters_are_refused_and_shown_escaped() {
        for name in ["rules", "caf\u{e9}/\u{1f30a}.yaml", "", "a b"] {
            assert_eq!(check(name), Ok(()));
            assert_eq!(
                StoredText::stored(name.to_owned(), 1, Ok("x".to_owned())),
                StoredText::new(name, 1, "x")
            );
        }
        for name in ["a\nb", "\u{1b}[2Ja", "a\0", "a\u{7f}", "\u{9b}31m"] {
            let refused = StoredText::stored(name.to_owned(), 7, Ok("x".to_owned()));
            let why = refused.text.unwrap_err();
            assert!(why.contains("has control characters") && why.contains("under another name"), "{why}");
            assert!(!why.contains(char::is_control) && !refused.name.contains(char::is_control), "{why}");
        }
    }
}
