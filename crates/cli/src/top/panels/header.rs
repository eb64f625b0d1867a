//! The first two lines: how the node is, and what else can be looked at.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::model::{Link, Model};
use super::super::palette::Palette;
use super::super::screen::{Screen, View};
use super::super::text::cut;
use super::super::units::{span, whole};

/// The longest name of a node that is shown whole.
const MAX_NAME: usize = 24;

/// How the node is, the most important first: what has no room is cut off at the end.
pub(crate) fn header(model: &Model, screen: &Screen, palette: Palette) -> Line<'static> {
    let mut spans = Vec::new();
    let (link, style) = match &model.link {
        _ if screen.is_paused() => ("PAUSED", palette.warning()),
        Link::Connecting => ("connecting", palette.warning()),
        Link::Live => ("live", palette.good()),
        Link::Lost(..) => ("NO ANSWER", palette.critical()),
    };
    let Some(state) = model.tick.as_ref().map(|tick| &tick.state) else {
        return Line::from(vec![
            Span::styled(link, style),
            Span::styled(format!("  {}", screen.place()), palette.strong()),
        ]);
    };
    let mode = state.mode.as_str();
    let word = if mode.is_empty() { "mode unknown".to_owned() } else { mode.to_uppercase() };
    spans.push(Span::styled(word, palette.word(mode)));
    spans.push(Span::raw(" "));
    spans.push(Span::styled(link, style));
    if state.draining {
        spans.push(Span::raw(" "));
        spans.push(Span::styled("DRAINING", palette.warning()));
    }
    let name = state.name.as_ref().map_or(screen.place(), |name| name.as_str());
    spans.push(Span::styled(format!("  {}", cut(name, MAX_NAME)), palette.strong()));
    let mut more = |text: String| spans.push(Span::styled(text, Style::new()));
    more(format!("  up {}", span(state.uptime_seconds)));
    more(format!("  rules v{} ({})", whole(state.rules.version), whole(state.rules.count)));
    if let Some(others) = &state.cluster {
        let known = others.alive + others.suspect + others.lost;
        more(format!("  nodes {}/{}", whole(others.alive + 1.0), whole(known + 1.0)));
    }
    let kind = if state.gateway { "gateway" } else { "serve" };
    more(format!("  {kind} {}", state.version));
    Line::from(spans)
}

/// What can be looked at, and how to get help.
pub(crate) fn tabs(screen: &Screen, room: usize, palette: Palette) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, view) in (1..).zip(View::ALL) {
        let style = if view == screen.view() { palette.chosen() } else { palette.faint() };
        spans.push(Span::styled(format!(" {number} {} ", view.name()), style));
    }
    let keys = "p pause  ? help  q quit";
    let used: usize = spans.iter().map(Span::width).sum();
    if let Some(gap) = room.checked_sub(used + keys.len()).filter(|gap| *gap > 0) {
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(Span::styled(keys, palette.faint()));
    }
    Line::from(spans)
}
