//! How often to ask.

use std::str::FromStr;
use std::time::Duration;

/// More than anybody answers; a longer time than none lies between two requests.
const MAX: u32 = 1_000_000;

/// So many requests per second, minute or hour, at even distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// From one request to the next; not zero.
    pub(super) distance: Duration,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => return Err(format!("`{unit}` is none of s, m and h; write it as 50/s")),
        };
        match number.parse() {
            Ok(number @ 1..=MAX) => Ok(Self { distance: Duration::from_secs(seconds) / number }),
            _ => Err(format!("`{number}` is no number from 1 to {MAX}; write it as 50/s")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_distances() {
        for (text, micros) in
            [("50/s", 20_000), ("4", 250_000), ("3/m", 20_000_000), ("2/h", 1_800_000_000), ("1000000/s", 1)]
        {
            assert_eq!(text.parse(), Ok(Rate { distance: Duration::from_micros(micros) }), "{text}");
        }
        for text in ["", "0", "0/s", "-1/s", "1.5/s", "/s", "5/", "5/d", "5/s/s", "1000001/s"] {
            assert!(text.parse::<Rate>().unwrap_err().contains("50/s"), "{text}");
        }
    }
}
