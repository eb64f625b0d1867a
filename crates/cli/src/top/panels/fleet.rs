//! All nodes beside each other.

use ratatui::text::{Line, Span};

use super::super::columns::{Column, Columns};
use super::super::model::Model;
use super::super::palette::Palette;
use super::super::units::{UNKNOWN, latency, percent, rate, short, span, whole};
use super::super::wire::{Brief, Fleet, Node};
use super::{Lines, plain};

/// The nodes, and what they do together.
pub(crate) fn fleet(model: &Model, room: usize, palette: Palette) -> Lines {
    match &model.fleet {
        None => vec![Line::styled("asking all nodes", palette.faint())],
        Some(Err(why)) => vec![Line::from(vec![
            Span::styled("WARNING", palette.warning()),
            Span::raw(format!(" the nodes cannot be asked: {why}")),
        ])],
        Some(Ok(fleet)) => nodes(fleet, room, palette),
    }
}

fn nodes(fleet: &Fleet, room: usize, palette: Palette) -> Lines {
    let sum = &fleet.sum;
    let (all, mode) = (&sum.point.decisions, sum.mode.as_str());
    let mut lines = vec![
        Line::from(vec![
            Span::raw(format!("together  {} of {} nodes answered  ", whole(sum.answered), whole(sum.asked))),
            Span::styled(mode.to_uppercase(), palette.word(mode)),
            Span::raw(format!("  {}  refused {} ", rate(all.all()), percent(all.refused, all.all()))),
            Span::raw(format!(" p99 {}", latency(p99(&sum.point)))),
        ]),
        Line::default(),
    ];
    let columns = [
        Column::Name("NODES"),
        Column::Word("state", 7),
        Column::Word("mode", 9),
        Column::Figure("decis/s", 7),
        Column::Figure("refused", 7),
        Column::Figure("p99", 7),
        Column::Figure("rules", 6),
        Column::Figure("up", 7),
    ];
    let mut table = Columns::new(room, palette.head(), &columns);
    for node in &fleet.nodes {
        table.row(cells(node, palette));
    }
    lines.extend(table.or("no node is known", palette.faint()).lines());
    for node in &fleet.nodes {
        if let Some(problem) = &node.problem {
            lines.push(Line::from(vec![
                Span::styled("PROBLEM", palette.warning()),
                Span::raw(format!(" {}: {problem}", name(node))),
            ]));
        }
    }
    lines
}

fn cells(node: &Node, palette: Palette) -> [(String, ratatui::style::Style); 8] {
    let unknown = || plain(UNKNOWN);
    let state = node.state.as_str();
    let me = if node.me { " (asked)" } else { "" };
    let first = [plain(format!("{}{me}", name(node))), (state.to_owned(), palette.word(state))];
    let [name, state] = first;
    let Some(tick) = &node.tick else {
        return [name, state, unknown(), unknown(), unknown(), unknown(), unknown(), unknown()];
    };
    let (decisions, mode) = (&tick.point.decisions, tick.state.mode.as_str());
    [
        name,
        state,
        (mode.to_owned(), palette.word(mode)),
        plain(short(decisions.all())),
        plain(percent(decisions.refused, decisions.all())),
        plain(latency(p99(&tick.point))),
        plain(format!("v{}", whole(tick.state.rules.version))),
        plain(span(tick.state.uptime_seconds)),
    ]
}

fn name(node: &Node) -> &str {
    node.name.as_ref().or(node.address.as_ref()).map_or("this node", |name| name.as_str())
}

fn p99(point: &Brief) -> Option<f64> {
    point.latency.as_ref().and_then(|latency| latency.p99)
}
