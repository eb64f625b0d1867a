//! Allowed and refused over time, in a bounded number of rows however long the log is.

use std::io::{self, Write};

use tidegate_core::{Span, Timestamp};

use crate::terminal::{BAD, FAINT, GOOD, moment_as, number};

/// The most rows.
const ROWS: u64 = 24;

/// The longest bar, in characters.
const BAR: u64 = 40;

/// How long a row may be, in milliseconds: each divides the next, so that rows can be joined without splitting.
const WIDTHS: [u64; 22] = [
    1,
    10,
    100,
    1_000,
    5_000,
    10_000,
    30_000,
    60_000,
    300_000,
    600_000,
    1_800_000,
    3_600_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
    2_419_200_000,
    31_449_600_000,
    314_496_000_000,
    3_144_960_000_000,
    31_449_600_000_000,
];

/// Requests of one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    allowed: u64,
    refused: u64,
}

/// Counts per stretch of time; the stretches grow as the log goes on.
#[derive(Debug, Default)]
pub(crate) struct Chart {
    /// Position in [`WIDTHS`].
    width: usize,
    /// The number, since the epoch, of the first row.
    first: u64,
    rows: Vec<Row>,
}

impl Chart {
    /// Counts one request.
    pub(crate) fn add(&mut self, at: Timestamp, allowed: bool) {
        if self.rows.is_empty() {
            self.first = at.as_millis() / self.width();
        }
        let mut row = at.as_millis() / self.width();
        while self.span_with(row) > ROWS && self.width + 1 < WIDTHS.len() {
            self.widen();
            row = at.as_millis() / self.width();
        }
        self.reach(row);
        let index = usize::try_from(row - self.first).unwrap_or_default();
        if let Some(row) = self.rows.get_mut(index) {
            row.allowed += u64::from(allowed);
            row.refused += u64::from(!allowed);
        }
    }

    fn width(&self) -> u64 {
        WIDTHS[self.width]
    }

    /// How many rows there would be if `row` were one of them.
    fn span_with(&self, row: u64) -> u64 {
        let end = self.first + self.rows.len() as u64;
        end.max(row + 1) - self.first.min(row)
    }

    /// Makes room for `row`, before or after those that are there.
    fn reach(&mut self, row: u64) {
        let missing = usize::try_from(self.first.saturating_sub(row)).unwrap_or_default();
        self.rows.splice(0..0, std::iter::repeat_n(Row::default(), missing));
        self.first = self.first.min(row);
        let wanted = usize::try_from(row + 1 - self.first).unwrap_or_default();
        if wanted > self.rows.len() {
            self.rows.resize(wanted, Row::default());
        }
    }

    fn widen(&mut self) {
        let factor = WIDTHS[self.width + 1] / self.width();
        let first = self.first / factor;
        let mut rows: Vec<Row> = Vec::new();
        for (number, row) in (self.first..).zip(&self.rows) {
            let index = usize::try_from(number / factor - first).unwrap_or_default();
            rows.resize(rows.len().max(index + 1), Row::default());
            rows[index].allowed += row.allowed;
            rows[index].refused += row.refused;
        }
        self.width += 1;
        (self.first, self.rows) = (first, rows);
    }

    /// Draws the rows.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let most = self.rows.iter().map(|row| row.allowed + row.refused).max().unwrap_or(0).max(1);
        let digits = number(most).len();
        let each = Span::from_millis(self.width());
        writeln!(out, "Over time ({each} per row, UTC; {GOOD}█ allowed{GOOD:#}, {BAD}░ refused{BAD:#})")?;
        for (index, row) in (self.first..).zip(&self.rows) {
            let label = self.label(index);
            let (allowed, refused) = (cells(row.allowed, most), cells(row.refused, most));
            let (full, light) = ("█".repeat(allowed), "░".repeat(refused));
            // A bar of many and few may round up to one cell more.
            let padding = (cells(most, most) + 1).saturating_sub(allowed + refused);
            writeln!(
                out,
                "  {FAINT}{label}{FAINT:#}  {GOOD}{full}{GOOD:#}{BAD}{light}{BAD:#}{:padding$}  {:>digits$}  {:>digits$}",
                "",
                number(row.allowed),
                number(row.refused),
            )?;
        }
        Ok(())
    }

    fn label(&self, row: u64) -> String {
        let format = match self.width() {
            ..1_000 => "%H:%M:%S%.3f",
            1_000..60_000 => "%H:%M:%S",
            60_000..86_400_000 => "%Y-%m-%d %H:%M",
            86_400_000.. => "%Y-%m-%d",
        };
        moment_as(Timestamp::from_millis(row * self.width()), format)
    }
}

/// How much of a bar `part` of `most` is: whatever there is, is seen.
fn cells(part: u64, most: u64) -> usize {
    usize::try_from((u128::from(part) * u128::from(BAR)).div_ceil(u128::from(most))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(requests: &[(u64, bool)]) -> (u64, Vec<(u64, u64)>) {
        let mut chart = Chart::default();
        requests.iter().for_each(|&(ms, allowed)| chart.add(Timestamp::from_millis(ms), allowed));
        (chart.width(), chart.rows.iter().map(|row| (row.allowed, row.refused)).collect())
    }

    #[test]
    fn widths_divide_each_other() {
        assert!(WIDTHS.windows(2).all(|pair| pair[1] % pair[0] == 0 && pair[1] > pair[0]));
    }

    #[test]
    fn rows_grow_with_the_log_and_lose_nothing() {
        assert_eq!(chart(&[(5, true), (7, false), (7, true)]), (1, vec![(1, 0), (0, 0), (1, 1)]));
        assert_eq!(chart(&[(0, true), (24, true), (9, false)]), (10, vec![(1, 1), (0, 0), (1, 0)]));
        let day: Vec<_> = (0..1_440).map(|minute| (minute * 60_000, minute % 2 == 0)).collect();
        let (width, rows) = chart(&day);
        assert_eq!((width, rows), (3_600_000, vec![(30, 30); 24]));
    }

    #[test]
    fn time_may_go_backwards() {
        assert_eq!(
            chart(&[(100_020, true), (100_010, false)]),
            (1, {
                let mut rows = vec![(0, 0); 11];
                (rows[0], rows[10]) = ((0, 1), (1, 0));
                rows
            })
        );
        let (width, rows) = chart(&[(253_402_300_799_999, true), (0, false)]);
        assert!(rows.len() as u64 <= ROWS, "{width}: {}", rows.len());
        assert_eq!((rows[0], rows[rows.len() - 1]), ((0, 1), (1, 0)));
    }

    #[test]
    fn whatever_there_is_is_seen() {
        let mut chart = Chart::default();
        (0..1_000).for_each(|_| chart.add(Timestamp::EPOCH, true));
        chart.add(Timestamp::EPOCH, false);
        let mut out = Vec::new();
        chart.write(&mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert!(text.ends_with(&format!("  00:00:00.000  {}░  1,000      1\n", "█".repeat(40))), "{text}");
    }
}
