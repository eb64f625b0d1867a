//! Tables on a terminal whose width is given: columns share it, and the last ones go when it is too small.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::{left, right};

/// The least that a column of names is given before others have to go.
const MIN_NAME: usize = 10;

/// One column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    /// Names, which share what figures leave over.
    Name(&'static str),
    /// Words of at most so many places.
    Word(&'static str, usize),
    /// Figures of at most so many places.
    Figure(&'static str, usize),
}

/// One cell.
pub(super) type Cell = (String, Style);

/// Rows under a head, at a width.
pub(super) struct Columns {
    columns: Vec<(Column, usize)>,
    lines: Vec<Line<'static>>,
}

impl Columns {
    /// As many of the columns as there is room for, under their titles.
    pub(super) fn new(room: usize, head: Style, columns: &[Column]) -> Self {
        let mut table = Self { columns: fit(room, columns), lines: Vec::new() };
        let titles: Vec<Cell> = columns.iter().map(|column| (column.title().to_owned(), head)).collect();
        table.row(titles);
        table
    }

    /// Adds a row; cells of columns that have no room are left out.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut spans = Vec::new();
        for ((column, width), (text, style)) in self.columns.iter().zip(cells) {
            if !spans.is_empty() {
                spans.push(Span::raw("  "));
            }
            let text = if column.is_figure() { right(&text, *width) } else { left(&text, *width) };
            spans.push(Span::styled(text, style));
        }
        self.lines.push(Line::from(spans));
    }

    /// Adds a line that has no columns.
    pub(super) fn remark(&mut self, remark: String, style: Style) {
        self.lines.push(Line::styled(remark, style));
    }

    /// A remark instead of rows, if there are none.
    pub(super) fn or(mut self, remark: &'static str, style: Style) -> Self {
        if self.lines.len() <= 1 {
            self.lines.push(Line::styled(remark, style));
        }
        self
    }

    /// The table.
    pub(super) fn lines(self) -> Vec<Line<'static>> {
        self.lines
    }
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Name(title) | Self::Word(title, _) | Self::Figure(title, _) => title,
        }
    }

    fn is_figure(self) -> bool {
        matches!(self, Self::Figure(..))
    }

    fn fixed(self) -> usize {
        match self {
            Self::Name(_) => 0,
            Self::Word(_, width) | Self::Figure(_, width) => width,
        }
    }
}

/// The columns that fit, with their widths.
fn fit(room: usize, columns: &[Column]) -> Vec<(Column, usize)> {
    let names = columns.iter().filter(|column| matches!(column, Column::Name(_))).count();
    let taken: usize =
        columns.iter().map(|column| column.fixed()).sum::<usize>() + columns.len().saturating_sub(1) * 2;
    let left = room.saturating_sub(taken);
    if columns.len() > 1 && left < names * MIN_NAME {
        return fit(room, &columns[..columns.len() - 1]);
    }
    let mut extra = left.checked_rem(names).unwrap_or(0);
    let mut width = |column: Column| match column {
        Column::Name(_) => {
            let more = usize::from(extra > 0);
            extra -= more;
            left / names + more
        }
        Column::Word(_, width) | Column::Figure(_, width) => width.min(room),
    };
    columns.iter().map(|column| (*column, width(*column))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: [Column; 4] =
        [Column::Name("RULE"), Column::Figure("rate", 6), Column::Word("mode", 8), Column::Name("why")];

    fn shown(room: usize) -> Vec<String> {
        let mut table = Columns::new(room, Style::new(), &COLUMNS);
        table.row(["per_user", "12", "normal", "日本語日本語"].map(|text| (text.to_owned(), Style::new())));
        table.lines().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_share_what_figures_leave() {
        assert_eq!(
            shown(41),
            ["RULE           rate  mode      why       ", "per_user         12  normal    日本語日… "]
        );
        assert_eq!(
            shown(39),
            ["RULE                     rate  mode    ", "per_user                   12  normal  "]
        );
        assert_eq!(shown(10), ["RULE      ", "per_user  "]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_room(room in 0_usize..200) {
            for line in shown(room) {
                prop_assert!(super::super::text::width(&line) <= room);
            }
        }
    }
}
