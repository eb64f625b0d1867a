//! What the keys do, and what the words mean.

use ratatui::text::{Line, Span};

use super::super::palette::Palette;
use super::Lines;

const KEYS: [(&str, &str); 7] = [
    ("Tab, ←, →", "the next view, the one before"),
    ("1 to 5", "overview, rules, hot keys, fleet, events"),
    ("↑, ↓, PgUp, PgDn", "move within what does not fit"),
    ("p, space", "hold what is shown; again to go on"),
    ("r", "draw everything anew"),
    ("?, h", "this help; again to leave it"),
    ("q, Esc, Ctrl-C", "end"),
];

const WORDS: [(&str, &str); 6] = [
    ("NORMAL", "everything works"),
    ("DEGRADED", "something does not; the lines marked WHY say what"),
    ("EMERGENCY", "the node is on its own"),
    ("shadow", "what rules that only watch would have refused"),
    ("failed open", "allowed because limits could not be checked"),
    ("without store", "decided without the servers that share counters"),
];

/// All of it.
pub(crate) fn help(palette: Palette) -> Lines {
    let line = |(what, means): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("  {what:<18}"), palette.strong()), Span::raw(*means)])
    };
    let mut lines = vec![Line::styled("KEYS", palette.head())];
    lines.extend(KEYS.iter().map(line));
    lines.push(Line::default());
    lines.push(Line::styled("WORDS", palette.head()));
    lines.extend(WORDS.iter().map(line));
    lines
}
