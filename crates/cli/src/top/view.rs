//! Where everything goes, on terminals of any size.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::model::Model;
use super::palette::Palette;
use super::panels::{self, Lines};
use super::screen::{Screen, View};

/// From here on there is room for two panels beside each other.
const TWO_PANELS: u16 = 76;

/// From here on everything is in two columns.
const TWO_COLUMNS: u16 = 120;

/// From here on there is room for an empty line between panels.
const AIRY: u16 = 32;

/// Something that makes lines of a given width.
type Panel = fn(&Model, usize, Palette) -> Lines;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, now: &Model, screen: &mut Screen, palette: Palette) {
    let held = screen.held().cloned();
    let model = held.as_ref().unwrap_or(now);
    let (area, room) = (frame.area(), usize::from(frame.area().width));
    let buffer = frame.buffer_mut();
    let most = if area.height < 20 { 1 } else { usize::from(area.height / 8) };
    let mut lines = vec![panels::header(model, screen, palette), panels::tabs(screen, room, palette)];
    lines.extend(panels::notices(model, screen, room, most, palette));
    let rest = put(buffer, area, &lines);
    if screen.shows_help() {
        page(buffer, rest, &panels::help(palette), screen);
        return;
    }
    match screen.view() {
        View::Overview => overview(buffer, rest, model, palette),
        View::Rules => {
            let lines = joined([panels::rules(model, room, palette), panels::tiers(model, room, palette)]);
            page(buffer, rest, &lines, screen);
        }
        View::HotKeys => {
            let lines =
                joined([panels::hot_keys(model, room, palette), panels::refused(model, room, palette)]);
            page(buffer, rest, &lines, screen);
        }
        View::Fleet => {
            // Nobody may have asked the others before it was told to hold.
            let known = if model.fleet.is_some() { model } else { now };
            page(buffer, rest, &panels::fleet(known, room, palette), screen);
        }
        View::Events => page(buffer, rest, &panels::events(model, palette), screen),
    }
}

/// Lists below each other, with a line between them.
fn joined(lists: impl IntoIterator<Item = Lines>) -> Lines {
    let lists: Vec<Lines> = lists.into_iter().filter(|list| !list.is_empty()).collect();
    lists.join(&Line::default())
}

/// Lines that one can move through.
fn page(buffer: &mut Buffer, area: Rect, lines: &[Line<'static>], screen: &mut Screen) {
    let above = screen.scroll(lines.len(), usize::from(area.height));
    put(buffer, area, &lines[above..]);
}

fn overview(buffer: &mut Buffer, area: Rect, model: &Model, palette: Palette) {
    let rest = put(buffer, area, &panels::rates(model, usize::from(area.width), palette));
    let gap = u16::from(area.height >= AIRY);
    let made = |panel: Panel, area: Rect| panel(model, usize::from(area.width), palette);
    let column = |buffer: &mut Buffer, area: Rect, panels: &[Panel]| {
        let lists: Vec<Lines> = panels.iter().map(|panel| made(*panel, area)).collect();
        let lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
        for (lines, place) in lists.iter().zip(stack(area, gap, &lengths)) {
            cut_off(buffer, place, lines);
        }
    };
    let (left, right) = halves(rest);
    if area.width >= TWO_COLUMNS {
        column(buffer, lower(left, gap), &[panels::store, panels::rules, panels::tiers]);
        column(buffer, lower(right, gap), &[panels::hot_keys, panels::recent, panels::refused]);
        return;
    }
    if area.width < TWO_PANELS {
        column(
            buffer,
            rest,
            &[panels::hot_keys, panels::store, panels::rules, panels::tiers, panels::recent],
        );
        return;
    }
    let (rules, tiers) = (made(panels::rules, left), made(panels::tiers, right));
    let [store, hot, recent] =
        [panels::store, panels::hot_keys, panels::recent].map(|panel| made(panel, rest));
    let lengths = [store.len(), rules.len().max(tiers.len()), hot.len(), recent.len()];
    if let [first, second, third, fourth] = stack(rest, gap, &lengths)[..] {
        let (left, right) = halves(second);
        let all = [(first, store), (left, rules), (right, tiers), (third, hot), (fourth, recent)];
        all.iter().for_each(|(place, lines)| cut_off(buffer, *place, lines));
    }
}

/// Where lists of these lengths go below each other.
fn stack(area: Rect, gap: u16, lengths: &[usize]) -> Vec<Rect> {
    let wanted: Vec<u16> = lengths.iter().map(|length| u16::try_from(*length).unwrap_or(u16::MAX)).collect();
    let gaps = gap.saturating_mul(u16::try_from(lengths.len().saturating_sub(1)).unwrap_or(0));
    let (mut places, mut y) = (Vec::new(), area.y);
    for height in share(area.height.saturating_sub(gaps), &wanted) {
        places.push(Rect { y, height, ..area }.intersection(area));
        if height > 0 {
            y = y.saturating_add(height).saturating_add(gap);
        }
    }
    places
}

/// Rows for everybody, one at a time, until all have what they want or nothing is left. A single row would be a head
/// without anything below it, so that what cannot have two of those that it wants has none.
fn share(mut rows: u16, wanted: &[u16]) -> Vec<u16> {
    let mut given = vec![0; wanted.len()];
    for (given, wanted) in given.iter_mut().zip(wanted) {
        let first = (*wanted).min(2);
        if first <= rows {
            *given = first;
            rows -= first;
        }
    }
    loop {
        let before = rows;
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if rows > 0 && *given > 0 && *given < *wanted {
                *given += 1;
                rows -= 1;
            }
        }
        if rows == before {
            return given;
        }
    }
}

/// Lines from the top, with a word about those that have no room.
fn cut_off(buffer: &mut Buffer, area: Rect, lines: &[Line<'static>]) {
    put(buffer, area, lines);
    let hidden = lines.len().saturating_sub(usize::from(area.height));
    // What is cut off is said at the end of the head, where it takes no row.
    let said = format!(" +{hidden}");
    let width = u16::try_from(said.len()).unwrap_or(u16::MAX);
    if hidden > 0 && area.height > 0 && area.width > width + 20 {
        let head = lines.first().map(title).unwrap_or_default();
        buffer.set_string(area.x + head, area.y, said, Palette::remark());
    }
}

/// How wide the title of a table is.
fn title(head: &Line<'_>) -> u16 {
    let first = head.spans.first().map_or("", |span| span.content.trim_end());
    u16::try_from(first.chars().count()).unwrap_or(0)
}

fn halves(area: Rect) -> (Rect, Rect) {
    let left = area.width.saturating_sub(2) / 2;
    let x = area.x + left + 2.min(area.width.saturating_sub(left));
    let right = (area.x + area.width).saturating_sub(x);
    (Rect { width: left, ..area }, Rect { x, width: right, ..area })
}

/// An area without its first rows.
fn lower(area: Rect, by: u16) -> Rect {
    let by = by.min(area.height);
    Rect { y: area.y + by, height: area.height - by, ..area }
}

/// Writes lines from the top of an area; returns what is left of it.
fn put(buffer: &mut Buffer, area: Rect, lines: &[Line<'static>]) -> Rect {
    let area = area.intersection(buffer.area);
    for (row, line) in area.rows().zip(lines) {
        buffer.set_line(row.x, row.y, line, row.width);
    }
    lower(area, u16::try_from(lines.len()).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests;
