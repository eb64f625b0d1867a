//! Plans: names that stand for multiples of a limit.

use std::fmt;
use std::str::FromStr;

/// One plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name, which is the same in upper and lower case.
    pub name: Box<str>,
    /// What base limits are multiplied by.
    pub multiplier: Multiplier,
}

/// A number with at most three decimal places, exactly.
///
/// ```
/// use tidegate_core::plan::Multiplier;
///
/// let half_more: Multiplier = "1.5".parse()?;
/// assert_eq!((half_more.of(101), half_more.to_string()), (151, "1.5".to_owned()));
/// # Ok::<(), tidegate_core::plan::MultiplierError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Multiplier {
    thousandths: u32,
}

impl Multiplier {
    /// The largest one.
    pub const MAX: Self = Self { thousandths: 1_000_000_000 };

    /// `times` as it is.
    pub const fn whole(times: u16) -> Self {
        Self { thousandths: times as u32 * 1_000 }
    }

    /// So much of `amount`, rounded down.
    pub fn of(self, amount: u64) -> u64 {
        let product = u128::from(amount) * u128::from(self.thousandths) / 1_000;
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    /// The same in thousandths.
    pub const fn thousandths(self) -> u32 {
        self.thousandths
    }
}

/// Digits, with as many places as it takes.
impl fmt::Display for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.thousandths / 1_000, self.thousandths % 1_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let places = format!("{rest:03}");
        write!(f, "{whole}.{}", places.trim_end_matches('0'))
    }
}

/// Why a text is no multiplier; the text of the error names the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiplierError {
    /// It is not written in digits.
    NoNumber,
    /// It has more than three decimal places.
    Places,
    /// It is larger than [`Multiplier::MAX`].
    TooLarge,
}

impl fmt::Display for MultiplierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => write!(f, "write it in digits, such as 2 or 1.5 (0 blocks)"),
            Self::Places => write!(f, "use at most three decimal places, such as 1.125"),
            Self::TooLarge => write!(f, "use at most {}", Multiplier::MAX),
        }
    }
}

impl std::error::Error for MultiplierError {}

impl FromStr for Multiplier {
    type Err = MultiplierError;

    fn from_str(text: &str) -> Result<Self, MultiplierError> {
        let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(places) {
            return Err(MultiplierError::NoNumber);
        }
        let places = places.trim_end_matches('0');
        if places.len() > 3 {
            return Err(MultiplierError::Places);
        }
        let digits = format!("{whole}{places:0<3}");
        let thousandths = digits.parse().map_err(|_| MultiplierError::TooLarge)?;
        Some(Self { thousandths }).filter(|this| *this <= Self::MAX).ok_or(MultiplierError::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written() {
        for (text, thousandths, written) in [
            ("0", 0, "0"),
            ("3", 3_000, "3"),
            ("1.5", 1_500, "1.5"),
            ("0.125", 125, "0.125"),
            ("2.050", 2_050, "2.05"),
            ("2.0000", 2_000, "2"),
            ("007", 7_000, "7"),
            ("1000000", 1_000_000_000, "1000000"),
        ] {
            let multiplier: Multiplier = text.parse().unwrap();
            assert_eq!((multiplier.thousandths(), multiplier.to_string()), (thousandths, written.to_owned()));
        }
        for (text, error) in [
            ("", MultiplierError::NoNumber),
            ("-1", MultiplierError::NoNumber),
            ("+1", MultiplierError::NoNumber),
            ("1e3", MultiplierError::NoNumber),
            ("1.", MultiplierError::NoNumber),
            (".5", MultiplierError::NoNumber),
            ("1.2.3", MultiplierError::NoNumber),
            ("0.0001", MultiplierError::Places),
            ("1000000.001", MultiplierError::TooLarge),
            ("99999999999999999999", MultiplierError::TooLarge),
        ] {
            assert_eq!(text.parse::<Multiplier>(), Err(error), "{text}");
        }
    }

    #[test]
    fn products_are_rounded_down() {
        let of = |text: &str, amount| text.parse::<Multiplier>().unwrap().of(amount);
        assert_eq!((of("3", 100), of("0.333", 100), of("0.5", 1), of("0", 9)), (300, 33, 0, 0));
        assert_eq!(of("1000000", u64::MAX), u64::MAX);
    }
}
