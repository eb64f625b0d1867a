//! Which rules and tiers are busy.

use ratatui::style::Style;

use super::super::columns::{Column, Columns};
use super::super::model::Model;
use super::super::palette::Palette;
use super::super::units::{percent, short};
use super::{Lines, plain};

/// Rules, the busiest first.
pub(crate) fn rules(model: &Model, room: usize, palette: Palette) -> Lines {
    let columns = [
        Column::Name("RULES"),
        Column::Figure("allow/s", 7),
        Column::Figure("refuse/s", 8),
        Column::Figure("share", 6),
        Column::Figure("shadow/s", 8),
    ];
    let mut table = Columns::new(room, palette.head(), &columns);
    for rule in model.tick.iter().flat_map(|tick| &tick.state.by_rule) {
        let name = if rule.rule.is_empty() { "(no rule applies)" } else { rule.rule.as_str() };
        table.row([
            plain(name),
            plain(short(rule.allowed)),
            (short(rule.refused), some(rule.refused, palette)),
            plain(percent(rule.refused, rule.allowed + rule.refused)),
            plain(short(rule.shadow_refused)),
        ]);
    }
    table.or("no requests in the last seconds", palette.faint()).lines()
}

/// Tiers, the busiest first.
pub(crate) fn tiers(model: &Model, room: usize, palette: Palette) -> Lines {
    let columns = [
        Column::Name("TIERS"),
        Column::Figure("allow/s", 7),
        Column::Figure("refuse/s", 8),
        Column::Figure("share", 6),
    ];
    let mut table = Columns::new(room, palette.head(), &columns);
    for tier in model.tick.iter().flat_map(|tick| &tick.point.tiers) {
        table.row([
            plain(&tier.tier),
            plain(short(tier.allowed)),
            (short(tier.refused), some(tier.refused, palette)),
            plain(percent(tier.refused, tier.allowed + tier.refused)),
        ]);
    }
    table.or("no requests with a tier", palette.faint()).lines()
}

fn some(refused: f64, palette: Palette) -> Style {
    if refused > 0.0 { palette.warning() } else { Style::new() }
}
