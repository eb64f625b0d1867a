//! Tables for people.

use std::io::{self, Write};

use anstyle::Style;

use crate::terminal::{FAINT, safe};

/// Longer texts are cut in tables: an identity may be as long as a log line.
const MAX_CELL_CHARS: usize = 60;

/// Rows under a header, in columns as wide as they need to be.
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(String, Style)>>,
}

/// Which side a column leans to.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Right,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Style)>) {
        self.rows.push(cells.into_iter().map(|(text, style)| (cell(&text), style)).collect());
    }

    /// Writes the table, two spaces in.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(i, (name, _))| self.width(i, name)).collect();
        let header = self.columns.iter().map(|(name, _)| (*name, FAINT));
        self.line(out, &widths, header)?;
        for row in &self.rows {
            self.line(out, &widths, row.iter().map(|(text, style)| (text.as_str(), *style)))?;
        }
        Ok(())
    }

    fn width(&self, column: usize, name: &str) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|(text, _)| text.chars().count());
        cells.max().unwrap_or(0).max(name.len())
    }

    fn line<'c>(
        &self,
        out: &mut dyn Write,
        widths: &[usize],
        cells: impl Iterator<Item = (&'c str, Style)>,
    ) -> io::Result<()> {
        for (index, (text, style)) in cells.enumerate() {
            let padding = widths[index] - text.chars().count();
            let last = index + 1 == widths.len();
            match self.columns[index].1 {
                Align::Right => write!(out, "  {:padding$}{style}{text}{style:#}", "")?,
                Align::Left if last => write!(out, "  {style}{text}{style:#}")?,
                Align::Left => write!(out, "  {style}{text}{style:#}{:padding$}", "")?,
            }
        }
        writeln!(out)
    }
}

fn cell(text: &str) -> String {
    let text = safe(text);
    match text.char_indices().nth(MAX_CELL_CHARS) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::PLAIN;

    #[test]
    fn a_table_is_as_wide_as_it_needs_to_be() {
        let mut table = Table::new(&[("rule", Align::Left), ("left", Align::Right)]);
        table.row([("login".to_owned(), PLAIN), ("12,345".to_owned(), PLAIN)]);
        table.row([("\u{1b}".to_owned(), PLAIN), ("1".to_owned(), PLAIN)]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(text, "  rule      left\n  login   12,345\n  \\u{1b}       1\n");
    }
}
