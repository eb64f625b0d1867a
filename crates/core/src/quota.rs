//! How much, per how long, by which algorithm.

#[cfg(feature = "serde")]
mod terms;

use std::fmt;
use std::str::FromStr;

use crate::plan::Multiplier;
use crate::time::Span;

/// How a quota is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Algorithm {
    /// Refills steadily, lets a full bucket go at once: [`TokenBucket`](crate::algorithm::TokenBucket).
    TokenBucket,
    /// Counts per epoch-aligned window: [`FixedWindow`](crate::algorithm::FixedWindow).
    FixedWindow,
    /// Weighs the previous window into the present one: [`SlidingWindow`](crate::algorithm::SlidingWindow).
    SlidingWindow,
    /// Remembers every request of the last window: [`SlidingLog`](crate::algorithm::SlidingLog).
    SlidingLog,
    /// Limits how many requests are in flight at once: [`InFlight`](crate::algorithm::InFlight).
    InFlight,
}

impl Algorithm {
    /// All of them, in the order the documentation lists them.
    pub const ALL: [Self; 5] =
        [Self::TokenBucket, Self::FixedWindow, Self::SlidingWindow, Self::SlidingLog, Self::InFlight];

    /// Algorithms whose quota comes back by waiting.
    pub const REFILLING: [Self; 4] =
        [Self::TokenBucket, Self::FixedWindow, Self::SlidingWindow, Self::SlidingLog];

    /// The name used in rule documents, keys and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingLog => "sliding_log",
            Self::InFlight => "in_flight",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|a| a.name() == text).ok_or(())
    }
}

/// One more than the largest product of capacity and window (in ms) a quota may have.
///
/// All counters but the fixed window multiply the two; below 2^53 the result is exact in a Lua number as well as in an integer,
/// so that every store reaches the same verdict.
pub const MAX_UNITS: u64 = 1 << 53;

/// The longest window: a leap year.
pub const MAX_WINDOW: Span = Span::from_secs(366 * 86_400);

/// The largest limit of a sliding log, which keeps an entry per request.
pub const MAX_LOG_LIMIT: u64 = 100_000;

/// The largest limit of requests in flight, of which a store keeps an entry each.
pub const MAX_IN_FLIGHT: u64 = 10_000;

/// How much of something may be had per how long, counted how.
///
/// Can only be built within the ranges in which every store computes exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "terms::QuotaTerms", into = "terms::QuotaTerms"))]
pub struct Quota {
    limit: u64,
    window: Span,
    capacity: u64,
    version: u64,
    algorithm: Algorithm,
}

impl Quota {
    /// Admits nothing, ever. What an unidentified request meets at a rule that insists on an identity.
    pub const BLOCKED: Self = Self {
        limit: 0,
        window: Span::from_millis(1),
        capacity: 0,
        version: 0,
        algorithm: Algorithm::FixedWindow,
    };

    /// So many in any minute; none at all if 0.
    pub const fn per_minute(limit: u32) -> Self {
        // As wide as it gets, this is far within the ranges below.
        let limit = limit as u64;
        let window = Span::from_secs(60);
        Self { limit, window, capacity: limit, version: 0, algorithm: Algorithm::SlidingWindow }
    }

    /// `limit` per `window`; a limit of 0 blocks. With [`Algorithm::InFlight`], `limit` at once, each for at most `window`.
    pub fn new(algorithm: Algorithm, limit: u64, window: Span) -> Result<Self, QuotaError> {
        Self::with_burst(algorithm, limit, window, limit)
    }

    /// A token bucket that refills with `limit` per `window` and holds up to `burst` (at least `limit`).
    pub fn token_bucket(limit: u64, window: Span, burst: u64) -> Result<Self, QuotaError> {
        Self::with_burst(Algorithm::TokenBucket, limit, window, burst)
    }

    fn with_burst(algorithm: Algorithm, limit: u64, window: Span, burst: u64) -> Result<Self, QuotaError> {
        if window == Span::ZERO || window > MAX_WINDOW {
            return Err(match algorithm {
                Algorithm::InFlight => QuotaError::HoldFor(window),
                _ => QuotaError::Window(window),
            });
        }
        if algorithm == Algorithm::InFlight && limit > MAX_IN_FLIGHT {
            return Err(QuotaError::InFlightLimit(limit));
        }
        if algorithm == Algorithm::SlidingLog && limit > MAX_LOG_LIMIT {
            return Err(QuotaError::LogLimit(limit));
        }
        let capacity = if limit == 0 { 0 } else { limit.max(burst) };
        // A fixed window and requests in flight are counted and never multiplied.
        let counted = matches!(algorithm, Algorithm::FixedWindow | Algorithm::InFlight);
        let factor = if counted { 1 } else { window.as_millis() };
        match capacity.checked_mul(factor) {
            Some(units) if units < MAX_UNITS => Ok(Self { limit, window, capacity, version: 0, algorithm }),
            _ => Err(QuotaError::Units { capacity, window, most: (MAX_UNITS - 1) / factor }),
        }
    }

    /// The same quota as stated by version `version` of the rules.
    ///
    /// State remembers the version that shaped it; only an equal or newer one may reshape it.
    #[must_use]
    pub const fn at_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// The same for somebody who may have `multiplier` times as much, rounded down; of the burst too.
    pub fn times(&self, multiplier: Multiplier) -> Result<Self, QuotaError> {
        let (limit, burst) = (multiplier.of(self.limit), multiplier.of(self.capacity));
        Self::with_burst(self.algorithm, limit, self.window, burst)
            .map(|quota| quota.at_version(self.version))
    }

    /// What some nodes of all may hand out that cannot ask the others: their share, rounded down, but never nothing where there
    /// is something. Where a limit is smaller than the number of shares, each may hand out one.
    #[must_use]
    pub fn share(&self, of_us: u32, of_all: u32) -> Self {
        let (limit, capacity) = (share_of(self.limit, of_us, of_all), share_of(self.capacity, of_us, of_all));
        Self { limit, capacity: capacity.max(limit), ..*self }
    }

    /// The same with half the burst: for when it is better to be careful. Windows have no burst to halve.
    #[must_use]
    pub fn cautious(&self) -> Self {
        match self.algorithm {
            Algorithm::TokenBucket if self.capacity > 1 => Self { capacity: self.capacity / 2, ..*self },
            _ => *self,
        }
    }

    /// How much per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window the limit is for. With [`Algorithm::InFlight`], how long a request is in flight at most.
    pub const fn window(&self) -> Span {
        self.window
    }

    /// The most that can be had at once: the larger of limit and burst.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The version of the rules that states this quota.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// How it is counted.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether nothing is ever admitted.
    pub const fn is_blocked(&self) -> bool {
        self.limit == 0
    }

    /// Whether both state the same figures, whatever their versions.
    pub fn same_figures(&self, other: &Self) -> bool {
        self.at_version(other.version) == *other
    }

    /// Of the quota a counter was last shaped by and the one a take asks for, the one that counts.
    ///
    /// The newer version wins; a node that still has older rules goes by what is stored, so that old and new
    /// nodes never reshape a counter back and forth. Equal versions with other figures are a change of tier or
    /// the end of an override: the take's own figures count.
    #[must_use]
    pub fn in_force(stored: Self, asked: Self) -> Self {
        if asked.version < stored.version { stored } else { asked }
    }

    /// Capacity in the fine unit in which one request is [`Self::window`] units.
    pub(crate) const fn capacity_units(&self) -> u64 {
        self.capacity * self.window.as_millis()
    }
}

/// Why figures are not a [`Quota`]; the text names the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// The window is zero or longer than a leap year.
    Window(Span),
    /// The time after which requests no longer count as in flight is zero or longer than a leap year.
    HoldFor(Span),
    /// Too many requests in flight would have to be kept track of.
    InFlightLimit(u64),
    /// A sliding log would have to remember too many requests.
    LogLimit(u64),
    /// Capacity × window is too large to compute with exactly.
    Units {
        /// The larger of limit and burst.
        capacity: u64,
        /// The window asked for.
        window: Span,
        /// The most there may be of it.
        most: u64,
    },
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(window) => write!(f, "a window of {window} is out of range; use 1ms to 366d"),
            Self::HoldFor(span) => write!(f, "a hold_for of {span} is out of range; use 1ms to 366d"),
            Self::InFlightLimit(limit) => write!(
                f,
                "an in_flight limit of {limit} would keep track of too many requests; use a limit of at most {MAX_IN_FLIGHT}"
            ),
            Self::LogLimit(limit) => write!(
                f,
                "a sliding_log of {limit} would remember too many requests; use a limit of at most {MAX_LOG_LIMIT}, or algorithm sliding_window"
            ),
            Self::Units { capacity, window, most } => write!(
                f,
                "{capacity} per {window} is too large to count exactly; use at most {most} for this window, a shorter window, or algorithm fixed_window"
            ),
        }
    }
}

impl std::error::Error for QuotaError {}

/// So many parts of so many, rounded down, but never nothing of something.
fn share_of(whole: u64, of_us: u32, of_all: u32) -> u64 {
    let share = u128::from(whole) * u128::from(of_us) / u128::from(of_all.max(1));
    u64::try_from(share).unwrap_or(whole).clamp(u64::from(whole > 0), whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_in_which_every_store_is_exact() {
        let new = |limit, ms| Quota::new(Algorithm::SlidingWindow, limit, Span::from_millis(ms));
        assert!(new(MAX_UNITS - 1, 1).is_ok());
        assert!(new(MAX_UNITS, 1).is_err());
        assert!(new(1, MAX_WINDOW.as_millis()).is_ok());
        assert!(new(1, MAX_WINDOW.as_millis() + 1).is_err());
        assert!(new(1, 0).is_err());
        assert!(new(u64::MAX, 1_000).is_err());
        assert!(Quota::token_bucket(1, Span::from_secs(1), u64::MAX).is_err());
        let fixed = |limit| Quota::new(Algorithm::FixedWindow, limit, MAX_WINDOW);
        assert!(fixed(MAX_UNITS - 1).is_ok());
        assert!(fixed(MAX_UNITS).is_err());
        let log = |limit| Quota::new(Algorithm::SlidingLog, limit, Span::from_secs(1));
        assert!(log(MAX_LOG_LIMIT).is_ok());
        assert!(log(MAX_LOG_LIMIT + 1).unwrap_err().to_string().contains("sliding_window"));
        let in_flight = |limit, hold_for| Quota::new(Algorithm::InFlight, limit, hold_for);
        assert!(in_flight(MAX_IN_FLIGHT, MAX_WINDOW).is_ok());
        assert_eq!(
            in_flight(MAX_IN_FLIGHT + 1, MAX_WINDOW),
            Err(QuotaError::InFlightLimit(MAX_IN_FLIGHT + 1))
        );
        assert_eq!(in_flight(1, Span::ZERO), Err(QuotaError::HoldFor(Span::ZERO)));
    }

    #[test]
    fn a_burst_never_softens_a_block() {
        let quota = Quota::token_bucket(0, Span::from_secs(1), 100).unwrap();
        assert!(quota.is_blocked());
        assert_eq!(quota.capacity(), 0);
    }

    #[test]
    fn a_multiple_is_rounded_down_and_checked() {
        let base = Quota::token_bucket(5, Span::from_secs(1), 9).unwrap().at_version(7);
        let times =
            |text: &str| base.times(text.parse().unwrap()).map(|quota| (quota.limit(), quota.capacity()));
        assert_eq!(times("3"), Ok((15, 27)));
        assert_eq!(times("0.5"), Ok((2, 4)));
        assert_eq!(times("0.15"), Ok((0, 0)), "less than one is nothing");
        assert_eq!(base.times(Multiplier::whole(1)), Ok(base));
        let log = Quota::new(Algorithm::SlidingLog, MAX_LOG_LIMIT, Span::from_secs(1)).unwrap();
        assert_eq!(log.times(Multiplier::whole(2)), Err(QuotaError::LogLimit(2 * MAX_LOG_LIMIT)));
        let large = Quota::new(Algorithm::FixedWindow, MAX_UNITS - 1, Span::from_secs(1)).unwrap();
        assert!(large.times(Multiplier::MAX).is_err());
    }

    #[test]
    fn shares_never_add_up_to_more_unless_there_is_too_little_to_share() {
        let quota = Quota::token_bucket(10, Span::from_secs(1), 20).unwrap();
        let share = |of_us, of_all| {
            let share = quota.share(of_us, of_all);
            (share.limit(), share.capacity())
        };
        assert_eq!((share(1, 1), share(2, 5), share(3, 5)), ((10, 20), (4, 8), (6, 12)));
        assert_eq!((share(1, 3), share(1, 100), share(5, 0)), ((3, 6), (1, 1), (10, 20)));
        assert_eq!(quota.cautious().capacity(), 10);
        let window = Quota::new(Algorithm::FixedWindow, 10, Span::from_secs(1)).unwrap();
        assert_eq!(window.cautious(), window);
    }

    #[test]
    fn the_newer_rules_count() {
        let quota = |limit, version| {
            Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(1)).unwrap().at_version(version)
        };
        assert_eq!(Quota::in_force(quota(5, 2), quota(9, 1)), quota(5, 2));
        assert_eq!(Quota::in_force(quota(5, 2), quota(9, 2)), quota(9, 2));
        assert_eq!(Quota::in_force(quota(5, 2), quota(9, 3)), quota(9, 3));
    }
}
