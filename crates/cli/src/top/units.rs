//! Figures for people, in few places.

use std::time::Duration;

use crate::terminal::duration;

/// The steps of a line drawn in text.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is shown where nothing is known.
pub(super) const UNKNOWN: &str = "-";

/// A number in at most five places: `0`, `2.5`, `312`, `1.23k`, `12.3k`, `4.5M`.
pub(super) fn short(number: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];
    if !number.is_finite() || number >= 999.5e12 {
        return UNKNOWN.to_owned();
    }
    if number < 0.05 {
        return "0".to_owned();
    }
    if number < 999.5 {
        return if number < 9.95 { format!("{number:.1}") } else { format!("{number:.0}") };
    }
    let fits = UNITS.iter().find(|(size, _)| number < 999.5 * size).unwrap_or(&UNITS[3]);
    let scaled = number / fits.0;
    match scaled {
        _ if scaled < 9.995 => format!("{scaled:.2}{}", fits.1),
        _ if scaled < 99.95 => format!("{scaled:.1}{}", fits.1),
        _ => format!("{scaled:.0}{}", fits.1),
    }
}

/// The same each second.
pub(super) fn rate(number: f64) -> String {
    format!("{}/s", short(number))
}

/// A whole number with its thousands apart.
pub(super) fn whole(number: f64) -> String {
    // Beyond that a float knows no single ones any more.
    if !(0.0..=9e15).contains(&number) {
        return short(number);
    }
    format!("{number:.0}").parse().map_or_else(|_| UNKNOWN.to_owned(), crate::terminal::number)
}

/// A time that is mostly far below a second: `12 µs`, `1.2 ms`, `1.5 s`.
pub(super) fn latency(seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) if !seconds.is_finite() || seconds < 0.0 => UNKNOWN.to_owned(),
        Some(seconds) if seconds < 999.5e-6 => {
            let micros = seconds * 1e6;
            if micros < 9.95 { format!("{micros:.1} \u{b5}s") } else { format!("{micros:.0} \u{b5}s") }
        }
        Some(seconds) if seconds < 0.995 => {
            let millis = seconds * 1e3;
            if millis < 9.95 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
        }
        Some(seconds) if seconds < 9.95 => format!("{seconds:.1} s"),
        Some(seconds) => span(seconds),
        None => UNKNOWN.to_owned(),
    }
}

/// A time of seconds and more, in two units: `4m 12s`.
pub(super) fn span(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds.floor()).map_or_else(
        |_| UNKNOWN.to_owned(),
        |time| match time.as_secs() {
            0 => "0s".to_owned(),
            seconds => duration(seconds.saturating_mul(1_000)),
        },
    )
}

/// A part of a whole in per cent; a part that is there is never shown as none, nor all but a part as all.
pub(super) fn percent(part: f64, whole: f64) -> String {
    let share = part / whole * 100.0;
    match share {
        _ if !share.is_finite() || share <= 0.0 => "0%".to_owned(),
        _ if share < 0.1 => "<0.1%".to_owned(),
        _ if share > 99.9 && share < 100.0 => ">99.9%".to_owned(),
        _ if share < 99.95 => format!("{share:.1}%"),
        _ => format!("{share:.0}%"),
    }
}

/// The last `room` of `values` as a line, from 0 to the largest of them.
pub(super) fn line(values: &[f64], room: usize) -> String {
    let shown = &values[values.len().saturating_sub(room)..];
    let largest = shown.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    shown.iter().map(|value| step(*value, largest)).collect()
}

fn step(value: f64, largest: f64) -> char {
    if largest <= 0.0 || !value.is_finite() || value <= 0.0 {
        return STEPS[0];
    }
    let tops = STEPS.iter().zip(1_u8..).map(|(step, top)| (step, f64::from(top) / 8.0));
    tops.into_iter().find(|(_, top)| value / largest <= *top).map_or(STEPS[7], |(step, _)| *step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_few_places() {
        let numbers = [
            (0.0, "0"),
            (0.04, "0"),
            (2.04, "2.0"),
            (9.96, "10"),
            (312.4, "312"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1_234.0, "1.23k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (999_600.0, "1.00M"),
            (4.56e7, "45.6M"),
            (7e12, "7.00T"),
            (-5.0, "0"),
            (f64::NAN, "-"),
            (1e300, "-"),
        ];
        for (number, shown) in numbers {
            assert_eq!(short(number), shown, "{number}");
            assert!(shown.len() <= 5);
        }
        assert_eq!((whole(1_234_567.0).as_str(), whole(-1.0).as_str()), ("1,234,567", "0"));
        assert_eq!(rate(12_345.0), "12.3k/s");
    }

    #[test]
    fn times_of_all_sizes() {
        let times = [
            (Some(0.000_001_2), "1.2 \u{b5}s"),
            (Some(0.000_412), "412 \u{b5}s"),
            (Some(0.001_2), "1.2 ms"),
            (Some(0.25), "250 ms"),
            (Some(1.5), "1.5 s"),
            (Some(75.0), "1m 15s"),
            (Some(-1.0), "-"),
            (None, "-"),
        ];
        for (seconds, shown) in times {
            assert_eq!(latency(seconds), shown);
        }
        assert_eq!((span(0.4).as_str(), span(12.9).as_str(), span(1e300).as_str()), ("0s", "12s", "-"));
        assert_eq!(span(-3.0), "-");
    }

    #[test]
    fn parts_are_neither_hidden_nor_made_up() {
        for (part, whole, shown) in [
            (0.0, 0.0, "0%"),
            (0.0, 5.0, "0%"),
            (1.0, 6.0, "16.7%"),
            (1.0, 1e6, "<0.1%"),
            (5.0, 5.0, "100%"),
            (9_999.0, 10_000.0, ">99.9%"),
        ] {
            assert_eq!(percent(part, whole), shown);
        }
    }

    #[test]
    fn a_line_ends_with_the_latest() {
        assert_eq!(line(&[0.0, 1.0, 4.0, 8.0], 10), "▁▁▄█");
        assert_eq!(line(&[8.0, 0.0, 1.0, 2.0], 3), "▁▄█");
        assert_eq!(
            (line(&[], 5), line(&[0.0, f64::NAN], 5), line(&[1.0], 0)),
            ("".into(), "▁▁".into(), "".into())
        );
    }
}
