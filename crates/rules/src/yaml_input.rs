//! The characters of a YAML text, for a parser that must not look ahead too far.
//!
//! What is in brackets could be a key, so the parser keeps all of it, some 200 bytes for each part, until it has seen the closing bracket.

use std::cell::Cell;
use std::rc::Rc;

use saphyr_parser::{Input, StrInput};

/// The most commas, colons and brackets that one pair of brackets may hold: thousands of rules in brackets, and no more than some
/// 80 MiB.
pub(crate) const MAX_SEPARATORS: usize = 100_000;

/// How many separators the parser has seen since it last returned something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookahead(Rc<Cell<usize>>);

impl Lookahead {
    /// Begins anew: everything so far has been returned.
    pub(crate) fn begin(&self) {
        self.0.set(0);
    }

    /// Returns whether it has looked ahead too far, and so has been told that the text is over.
    pub(crate) fn is_too_far(&self) -> bool {
        self.0.get() > MAX_SEPARATORS
    }

    fn note(&self, passed: char) {
        if matches!(passed, ',' | ':' | '[' | '{') {
            self.0.set(self.0.get() + 1);
        }
    }
}

/// A text that ends where the parser has looked ahead too far.
pub(crate) struct BoundedInput<'t> {
    text: StrInput<'t>,
    lookahead: Lookahead,
}

impl<'t> BoundedInput<'t> {
    /// Reads `text`; what the parser sees is counted by `lookahead`.
    pub(crate) fn new(text: &'t str, lookahead: Lookahead) -> Self {
        Self { text: StrInput::new(text), lookahead }
    }
}

impl Input for BoundedInput<'_> {
    fn lookahead(&mut self, count: usize) {
        self.text.lookahead(count);
    }

    fn buflen(&self) -> usize {
        self.text.buflen()
    }

    fn bufmaxlen(&self) -> usize {
        self.text.bufmaxlen()
    }

    fn raw_read_ch(&mut self) -> char {
        if self.lookahead.is_too_far() { '\0' } else { self.text.raw_read_ch() }
    }

    fn raw_read_non_breakz_ch(&mut self) -> Option<char> {
        if self.lookahead.is_too_far() { None } else { self.text.raw_read_non_breakz_ch() }
    }

    fn skip(&mut self) {
        self.lookahead.note(self.text.peek());
        self.text.skip();
    }

    fn skip_n(&mut self, count: usize) {
        for _ in 0..count {
            self.skip();
        }
    }

    fn peek(&self) -> char {
        if self.lookahead.is_too_far() { '\0' } else { self.text.peek() }
    }

    fn peek_nth(&self, n: usize) -> char {
        if self.lookahead.is_too_far() { '\0' } else { self.text.peek_nth(n) }
    }

    fn peek_opt(&self) -> Option<char> {
        if self.lookahead.is_too_far() { None } else { self.text.peek_opt() }
    }
}
