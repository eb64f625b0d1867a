//! How much is decided, and how fast.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::model::Model;
use super::super::palette::Palette;
use super::super::text::right;
use super::super::units::{latency, line, percent, rate, whole};
use super::Lines;

/// Where the lines of the last minutes begin.
const FIGURES: usize = 29;

/// Five lines: decisions, refusals, latency, what else became of requests, and all there were.
pub(crate) fn rates(model: &Model, room: usize, palette: Palette) -> Lines {
    let now = model.decisions();
    let took = model.latency();
    let state = model.tick.as_ref().map(|tick| tick.state.clone()).unwrap_or_default();
    let fallback = model.tick.as_ref().map_or(0.0, |tick| tick.point.fallback);
    let drawn = |values: Vec<f64>, style: Style| {
        Span::styled(format!("  {}", line(&values, room.saturating_sub(FIGURES + 2))), style)
    };
    let figure = |name: &'static str, figure: String, share: String, style: Style| {
        [
            Span::raw(format!("{name:<10}")),
            Span::styled(right(&figure, 10), style),
            Span::raw(right(&share, 9)),
        ]
    };
    let named = |pairs: &[(&str, String)]| {
        let words: Vec<String> = pairs.iter().map(|(name, figure)| format!("{name} {figure}")).collect();
        words.join("  ")
    };
    let refused = if now.refused > 0.0 { palette.warning() } else { Style::new() };
    let mut lines = vec![
        figure("decisions", rate(now.all()), String::new(), palette.strong()).to_vec(),
        figure("refused", rate(now.refused), percent(now.refused, now.all()), refused).to_vec(),
        figure("p99", latency(took.p99), String::new(), palette.strong()).to_vec(),
    ];
    lines[0].push(drawn(model.line(|point| point.decisions.all()), palette.good()));
    lines[1].push(drawn(model.line(|point| point.decisions.refused), palette.warning()));
    let p99 = |point: &super::super::wire::Brief| {
        point.latency.as_ref().and_then(|latency| latency.p99).unwrap_or(0.0)
    };
    lines[2].push(drawn(model.line(p99), palette.good()));
    let mut lines: Lines = lines.into_iter().map(Line::from).collect();
    lines.push(Line::raw(named(&[
        ("latency   p50", latency(took.p50)),
        ("p999", latency(took.p999)),
        ("| shadow", rate(now.shadow_refused)),
        ("failed open", rate(now.failed_open)),
        ("unavailable", rate(now.unavailable)),
    ])));
    lines.push(Line::raw(named(&[
        ("total     allowed", whole(state.totals.allowed)),
        ("refused", whole(state.totals.refused)),
        ("| without store", format!("{}, {}", whole(state.fallback_total), rate(fallback))),
    ])));
    lines
}
