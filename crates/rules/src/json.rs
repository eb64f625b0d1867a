//! JSON with comments to nodes.

use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::tokens::Token;
use jsonc_parser::{ParseStringErrorKind, Scanner, ScannerOptions};

use crate::node::{Entry, Kind, MAX_DEPTH, Node, NodeBudget};
use crate::problem::quoted;
use crate::reader::Reader;
use crate::text::{Cursor, Place, Placed};

/// JSON as it is standardised, plus comments: the scanner can do without.
const STRICT: ScannerOptions = ScannerOptions {
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Whether a text means to be JSON: it opens a brace or bracket and goes on as only JSON does, or it starts with a
/// comment of the JSON kind. Documents with `---` between them are YAML, however JSON-like each of them is.
pub(crate) fn looks_like(content: &str) -> bool {
    opens_like(content) && !content.lines().any(|line| line.trim_end() == "---")
}

fn opens_like(content: &str) -> bool {
    let rest = content.trim_start();
    if rest.starts_with("//") || rest.starts_with("/*") {
        return true;
    }
    rest.strip_prefix(['{', '[']).is_some_and(|inside| {
        let inside = inside.trim_start();
        inside.starts_with(['"', '{', '[', '}', ']']) || inside.starts_with("//") || inside.starts_with("/*")
    })
}

/// The tokens of a JSON text.
pub(crate) fn scanner(content: &str) -> Scanner<'_> {
    Scanner::new(content, &STRICT)
}

/// The values of a JSON text, one after the other. What cannot be parsed is reported, and ends the text.
pub(crate) fn parse<'t>(reader: &mut Reader<'_>, content: &'t str) -> Vec<Node<'t>> {
    let mut parser = Json {
        scanner: scanner(content),
        cursor: Cursor::new(content),
        at: Place::START,
        token: None,
        reader,
        nodes: NodeBudget::of(content.len()),
    };
    let mut values = Vec::new();
    while parser.advance().is_ok() && parser.token.is_some() {
        match parser.value(0) {
            Ok(value) => values.push(value),
            Err(Stop) => break,
        }
    }
    values
}

/// Reading cannot go on; why is reported.
struct Stop;

struct Json<'t, 'r, 'x> {
    scanner: Scanner<'t>,
    cursor: Cursor<'t>,
    /// The present token and where it starts; `None` at the end.
    token: Option<Token<'t>>,
    at: Place,
    reader: &'r mut Reader<'x>,
    nodes: NodeBudget,
}

impl<'t> Json<'t, '_, '_> {
    /// Goes on to the next token that is no comment.
    fn advance(&mut self) -> Result<(), Stop> {
        loop {
            match self.scanner.scan() {
                Ok(Some(Token::CommentLine(_) | Token::CommentBlock(_))) => {}
                Ok(token) => {
                    self.at = self.cursor.advance_to(self.scanner.token_start());
                    self.token = token;
                    return self.check_text();
                }
                Err(error) => {
                    self.at = self.cursor.advance_to(error.range().start);
                    return Err(self.stop(scan_error(&error)));
                }
            }
        }
    }

    /// The scanner lets a text run over lines; what follows a forgotten quote would make no sense.
    fn check_text(&mut self) -> Result<(), Stop> {
        let written = self.scanner.file_text().get(self.scanner.token_start()..self.scanner.token_end());
        if matches!(self.token, Some(Token::String(_)))
            && written.is_some_and(|text| text.contains(|c: char| c < ' '))
        {
            return Err(self.stop("not JSON: this text does not end on its line; add the closing `\"`"));
        }
        Ok(())
    }

    fn stop(&mut self, message: impl Into<String>) -> Stop {
        self.reader.problem(self.at, message);
        Stop
    }

    /// Counts a value or key.
    fn count(&mut self) -> Result<(), Stop> {
        self.nodes.take().map_err(|message| self.stop(message))
    }

    /// The value that starts with the present token; ends at its last token.
    fn value(&mut self, depth: usize) -> Result<Node<'t>, Stop> {
        self.count()?;
        if depth > MAX_DEPTH {
            return Err(self.stop(format!("nested more than {MAX_DEPTH} levels deep; flatten it")));
        }
        let at = self.at;
        let kind = match self.token.take() {
            Some(Token::OpenBrace) => return self.map(at, depth),
            Some(Token::OpenBracket) => self.list(at, depth)?,
            Some(Token::String(text)) => Kind::Text(text),
            Some(Token::Number(number)) => Kind::Number(number.into()),
            Some(Token::Boolean(flag)) => Kind::Flag(flag, if flag { "true" } else { "false" }),
            Some(Token::Null) => Kind::Null,
            Some(Token::Comma) if depth == 0 => {
                return Err(
                    self.stop("no comma goes between documents; remove it, or put `[` and `]` around all")
                );
            }
            other => return Err(self.unexpected("a value", other.as_ref())),
        };
        Ok(Node { at, kind })
    }

    fn list(&mut self, at: Place, depth: usize) -> Result<Kind<'t>, Stop> {
        let mut items = Vec::new();
        self.advance()?;
        if self.token == Some(Token::CloseBracket) {
            return Ok(Kind::List(items.into()));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.ends(at, &Token::CloseBracket)? {
                return Ok(Kind::List(items.into()));
            }
        }
    }

    fn map(&mut self, at: Place, depth: usize) -> Result<Node<'t>, Stop> {
        let mut entries = Vec::new();
        self.advance()?;
        if self.token == Some(Token::CloseBrace) {
            return Ok(Node::map(self.reader, at, entries));
        }
        loop {
            let key_at = self.at;
            self.count()?;
            let key = match self.token.take() {
                Some(Token::String(key)) => Placed { at: key_at, value: key },
                other => return Err(self.unexpected("a key in double quotes", other.as_ref())),
            };
            self.advance()?;
            if self.token != Some(Token::Colon) {
                let found = self.token.take();
                return Err(self.unexpected("`:` after the key", found.as_ref()));
            }
            self.advance()?;
            entries.push(Entry { key, value: self.value(depth + 1)? });
            if self.ends(at, &Token::CloseBrace)? {
                return Ok(Node::map(self.reader, at, entries));
            }
        }
    }

    /// After an element: whether `close` ends the list or mapping that began at `open`; otherwise goes on to the
    /// next element.
    fn ends(&mut self, open: Place, close: &Token<'_>) -> Result<bool, Stop> {
        self.advance()?;
        match self.token.take() {
            Some(token) if token == *close => Ok(true),
            Some(Token::Comma) => {
                let comma = self.at;
                self.advance()?;
                if self.token.as_ref() == Some(close) {
                    self.at = comma;
                    return Err(self.stop(format!("remove the comma before `{}`", close.as_str())));
                }
                Ok(false)
            }
            None => {
                self.at = open;
                Err(self.stop(format!("not JSON: this is never closed; add `{}`", close.as_str())))
            }
            Some(token) if !matches!(token, Token::Colon | Token::CloseBrace | Token::CloseBracket) => {
                Err(self.stop(format!("not JSON: a comma is missing before {}", written(&token))))
            }
            other => Err(self.unexpected(&format!("`,` or `{}`", close.as_str()), other.as_ref())),
        }
    }

    fn unexpected(&mut self, expected: &str, found: Option<&Token<'_>>) -> Stop {
        let found = found.map_or_else(|| "the end of the text".to_owned(), written);
        self.stop(format!("not JSON: expected {expected}, found {found}"))
    }
}

/// A token, to be named in a message.
fn written(token: &Token<'_>) -> String {
    match token {
        Token::String(text) => format!("the text {}", quoted(text)),
        token => quoted(token.as_str()),
    }
}

/// What the scanner found, with the way out.
fn scan_error(error: &ParseError) -> String {
    let fix = match error.kind() {
        ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            "this text has no closing `\"`; add it"
        }
        ParseErrorKind::String(_) => "bad escape in a text; write `\\\\` for a backslash",
        ParseErrorKind::SingleQuotedStringsNotAllowed => "texts go in double quotes",
        ParseErrorKind::UnterminatedCommentBlock => "this comment has no end; add `*/`",
        ParseErrorKind::HexadecimalNumbersNotAllowed => "write the number in decimal",
        ParseErrorKind::UnaryPlusNumbersNotAllowed => "remove the `+`",
        ParseErrorKind::NonFiniteNumbersNotAllowed => "write a finite number",
        ParseErrorKind::ExpectedDigit
        | ParseErrorKind::ExpectedDigitFollowingNegativeSign
        | ParseErrorKind::BareDecimalPointNumbersNotAllowed
        | ParseErrorKind::ExpectedPlusMinusOrDigitInNumberLiteral => "a digit is missing in this number",
        _ => "this cannot stand here; put a text in double quotes, and start a comment with `//`",
    };
    format!("not JSON: {fix}")
}

#[cfg(test)]
mod tests {
    use super::looks_like;

    #[test]
    fn json_is_told_from_yaml() {
        for json in ["{}", " [ { ", "{\n  \"a\"", "// x\n", "/* x */ {}", "{ // x\n}", "[]", "[[", "[\"x\""] {
            assert!(looks_like(json), "{json}");
        }
        for yaml in
            ["", "rules: []", "{rules: []}", "[a, b]", "# x\n{}", "- {}", "{ # x\n}", "--- {}", "{}\n---\n{}"]
        {
            assert!(!looks_like(yaml), "{yaml}");
        }
    }
}
