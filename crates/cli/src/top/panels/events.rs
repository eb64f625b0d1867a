//! What has happened.

use ratatui::text::{Line, Span};

use super::super::columns::{Column, Columns};
use super::super::model::Model;
use super::super::palette::Palette;
use super::super::wire::Entry;
use super::{Lines, clock, plain};

/// One line for each, newest first.
pub(crate) fn recent(model: &Model, room: usize, palette: Palette) -> Lines {
    let columns = [Column::Word("EVENTS", 8), Column::Word("", 8), Column::Name("")];
    let mut table = Columns::new(room, palette.head(), &columns);
    for entry in entries(model) {
        let severity = entry.severity.as_str();
        let said = if entry.detail.is_empty() {
            entry.title.to_string()
        } else {
            format!("{}: {}", entry.title, entry.detail)
        };
        table.row([plain(clock(&entry.at)), (severity.to_owned(), palette.word(severity)), plain(said)]);
    }
    table.or("nothing has happened yet", palette.faint()).lines()
}

/// Two lines for each, with their dates and details.
pub(crate) fn events(model: &Model, palette: Palette) -> Lines {
    let mut lines = Vec::new();
    for entry in entries(model) {
        let severity = entry.severity.as_str();
        let day = entry.at.as_str().get(..10).unwrap_or("");
        lines.push(Line::from(vec![
            Span::styled(format!("{day} {} ", clock(&entry.at)), palette.faint()),
            Span::styled(severity.to_owned(), palette.word(severity)),
            Span::raw(format!(" {} ", entry.kind)),
            Span::styled(entry.title.to_string(), palette.strong()),
        ]));
        if !entry.detail.is_empty() {
            lines.push(Line::raw(format!("    {}", entry.detail)));
        }
    }
    if lines.is_empty() {
        lines.push(Line::styled("nothing has happened yet", palette.faint()));
    }
    lines
}

fn entries(model: &Model) -> impl Iterator<Item = &Entry> {
    model.journal.iter().flat_map(|journal| &journal.entries)
}
