//! What somebody should know at once: alerts, why a node is not well, and whether it answers at all.

use ratatui::text::{Line, Span};

use super::super::model::{Link, Model};
use super::super::palette::Palette;
use super::super::screen::Screen;
use super::super::text::{Text, cut};
use super::super::units::{span, whole};
use super::{Lines, clock};

/// One line for each, the worst first, at most `most`; one that says there are none.
pub(crate) fn notices(model: &Model, screen: &Screen, room: usize, most: usize, palette: Palette) -> Lines {
    let mut all = Vec::new();
    if let Link::Lost(why, wait) = &model.link {
        let old = if model.tick.is_some() { "; what is shown is old" } else { "" };
        let again = span(wait.as_secs_f64().ceil());
        all.push(("critical", "NO ANSWER", format!("again in {again}: {why}, at {}{old}", screen.place())));
    }
    if let Some(tick) = &model.tick {
        let mut alerts: Vec<_> = tick.state.alerts.iter().collect();
        alerts.sort_by_key(|alert| rank(&alert.severity));
        for alert in alerts {
            let since = alert.since.as_ref().map(|at| format!(" (since {})", clock(at))).unwrap_or_default();
            all.push((
                severity(&alert.severity),
                word(&alert.severity),
                format!("{}: {}{since}", alert.alert, alert.summary),
            ));
        }
        let mode = tick.state.mode.as_str();
        all.extend(tick.state.reasons.iter().map(|why| ("warning", "WHY", format!("{mode}: {why}"))));
        let bad = tick.state.rules.quarantined;
        if bad > 0.0 {
            all.push(("warning", "RULES", format!("bad and not in force: {}; see the events", whole(bad))));
        }
    }
    if model.unread > 0 {
        let said = format!("{} messages could not be read; is the server of another version?", model.unread);
        all.push(("warning", "ODD", said));
    }
    if all.is_empty() {
        let said = if model.tick.is_some() { "no alerts" } else { "waiting for the first figures" };
        return vec![Line::styled(said, palette.faint())];
    }
    let hidden = all.len().saturating_sub(most);
    let mut lines: Lines = Vec::new();
    for (index, (how, word, said)) in all.into_iter().take(most).enumerate() {
        let more = if hidden > 0 && index + 1 == most { format!(" (+{hidden} more)") } else { String::new() };
        let left = room.saturating_sub(word.len() + 1 + more.len());
        lines.push(Line::from(vec![
            Span::styled(word, palette.word(how)),
            Span::raw(format!(" {}", cut(&said, left))),
            Span::styled(more, palette.strong()),
        ]));
    }
    lines
}

fn rank(severity: &Text) -> u8 {
    match severity.as_str() {
        "critical" => 0,
        "warning" => 1,
        _ => 2,
    }
}

fn severity(severity: &Text) -> &'static str {
    ["critical", "warning", "info"][usize::from(rank(severity))]
}

fn word(severity: &Text) -> &'static str {
    ["CRITICAL", "WARNING", "INFO"][usize::from(rank(severity))]
}
