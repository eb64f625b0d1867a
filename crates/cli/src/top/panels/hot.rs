//! Who asks most, and who is refused most.

use ratatui::style::Style;
use ratatui::text::Line;

use super::super::columns::{Column, Columns};
use super::super::model::Model;
use super::super::palette::Palette;
use super::super::units::{rate, whole};
use super::{Lines, clock, plain};

/// The keys that are asked for most.
pub(crate) fn hot_keys(model: &Model, room: usize, palette: Palette) -> Lines {
    let columns = [
        Column::Name("HOT KEYS"),
        Column::Figure("rate", 8),
        Column::Word("", 4),
        Column::Name("rule"),
        Column::Word("since", 8),
    ];
    let mut table = Columns::new(room, palette.head(), &columns);
    for key in model.tick.iter().flat_map(|tick| &tick.state.hot_keys) {
        let since = key.since.as_ref().map_or("", clock);
        let (word, style) = if key.hot { ("HOT", palette.critical()) } else { ("", Style::new()) };
        table.row([
            plain(&key.identity),
            plain(rate(key.rate_per_second)),
            (word.to_owned(), style),
            plain(&key.rule),
            plain(since),
        ]);
    }
    table.or("no key stands out", palette.faint()).lines()
}

/// Who was refused most in the last five minutes.
pub(crate) fn refused(model: &Model, room: usize, palette: Palette) -> Lines {
    let Some(insight) = &model.insight else { return Vec::new() };
    let refused = &insight.refusals.five_minutes;
    let lists = [
        ("USERS REFUSED MOST, 5 MINUTES", &refused.users),
        ("ADDRESSES REFUSED MOST", &refused.addresses),
        ("TENANTS REFUSED MOST", &refused.tenants),
        ("DESCRIPTORS REFUSED MOST", &refused.descriptors),
        ("RULES THAT REFUSED MOST", &refused.rules),
    ];
    let mut lines = Vec::new();
    for (title, list) in lists {
        if list.is_empty() {
            continue;
        }
        let mut table =
            Columns::new(room, palette.head(), &[Column::Name(title), Column::Figure("refused", 11)]);
        for named in list {
            table.row([plain(&named.name), plain(whole(named.count))]);
        }
        lines.extend(table.lines());
    }
    if lines.is_empty() {
        lines.push(Line::styled("nobody was refused in the last five minutes", palette.faint()));
    }
    lines
}
