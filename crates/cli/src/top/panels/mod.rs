//! What is shown, piece by piece: each makes lines of a given width, and whoever draws them takes as many as there is
//! room for.

mod events;
mod fleet;
mod header;
mod help;
mod hot;
mod notices;
mod rates;
mod rules;
mod store;

pub(super) use events::{events, recent};
pub(super) use fleet::fleet;
pub(super) use header::{header, tabs};
pub(super) use help::help;
pub(super) use hot::{hot_keys, refused};
pub(super) use notices::notices;
pub(super) use rates::rates;
pub(super) use rules::{rules, tiers};
pub(super) use store::store;

use ratatui::style::Style;
use ratatui::text::Line;

use super::columns::Cell;
use super::text::Text;

/// Lines that own what they show.
pub(super) type Lines = Vec<Line<'static>>;

/// A cell that looks like any other.
fn plain(text: impl Into<String>) -> Cell {
    (text.into(), Style::new())
}

/// The time of day in a moment as RFC 3339 has it, or all of what is none.
fn clock(moment: &Text) -> &str {
    moment.as_str().get(11..19).unwrap_or(moment.as_str())
}
