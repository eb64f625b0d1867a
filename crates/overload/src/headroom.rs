//! Shares of a limit by tier.

use std::fmt;

/// Share of a limit, from 1 % to 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u8);

impl Share {
    /// The whole limit.
    pub const FULL: Self = Self(100);

    /// Returns the share of so many percent; `None` unless that is 1 to 100.
    pub const fn percent(percent: u8) -> Option<Self> {
        if percent >= 1 && percent <= 100 { Some(Self(percent)) } else { None }
    }

    /// Returns the share half way between this one and the whole limit.
    pub const fn relaxed(self) -> Self {
        Self(self.0 + (100 - self.0) / 2)
    }

    /// Returns the part of `limit` that this share comes to, rounded up.
    pub fn of(self, limit: u32) -> u32 {
        let part = (u64::from(limit) * u64::from(self.0)).div_ceil(100);
        u32::try_from(part).unwrap_or(limit)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Shares of the limit that requests may fill, by their tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// By tiers' names.
    shares: Vec<(Box<str>, Share)>,
    other: Share,
}

/// Requests that are admitted alike: those of a tier that is listed, or all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityClass {
    /// Position of the tier among those that are listed; the number of these for all others.
    pub index: usize,
    /// Part of the limit that they may fill.
    pub share: Share,
}

/// Reason why tiers and their shares are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadroomError {
    /// More than are searched one by one.
    #[error("it lists {0} tiers; list {max} at most", max = Headroom::MAX_TIERS)]
    TooMany(usize),
    /// Names are compared without regard to case, as those of plans are.
    #[error("it lists the tier `{0}` twice (in whatever case); leave one out")]
    Twice(Box<str>),
    /// No name that a tier can have.
    #[error("a tier without a name, or with one of more than 64 bytes; use one that the rules have")]
    Name,
}

impl Headroom {
    /// Maximum number of tiers.
    pub const MAX_TIERS: usize = 32;

    /// Name of the class of all tiers that are not listed.
    pub const OTHER: &str = "other";

    /// Creates it from tiers and their shares, if every tier is listed once. What is listed as [`other`](Self::OTHER) is the share of
    /// all tiers that are not; without it they have the lowest share. Without any, all requests may fill the whole limit.
    pub fn new<S: AsRef<str>>(listed: impl IntoIterator<Item = (S, Share)>) -> Result<Self, HeadroomError> {
        let mut shares: Vec<(Box<str>, Share)> = Vec::new();
        for (name, share) in listed {
            let name = name.as_ref();
            if name.is_empty() || name.len() > 64 {
                return Err(HeadroomError::Name);
            }
            if shares.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                return Err(HeadroomError::Twice(name.into()));
            }
            shares.push((name.into(), share));
        }
        let other = shares.iter().position(|(name, _)| name.eq_ignore_ascii_case(Self::OTHER));
        let other = other.map(|index| shares.remove(index).1);
        if shares.len() > Self::MAX_TIERS {
            return Err(HeadroomError::TooMany(shares.len()));
        }
        let lowest = shares.iter().map(|(_, share)| *share).min();
        Ok(Self { shares, other: other.or(lowest).unwrap_or(Share::FULL) })
    }

    /// Returns the class of a tier. Requests without a tier belong to the class of those that are not listed.
    pub fn class(&self, tier: Option<&str>) -> PriorityClass {
        let named = |tier: &str| self.shares.iter().position(|(name, _)| name.eq_ignore_ascii_case(tier));
        match tier.and_then(named).and_then(|index| Some((index, self.shares.get(index)?))) {
            Some((index, (_, share))) => PriorityClass { index, share: *share },
            None => PriorityClass { index: self.shares.len(), share: self.other },
        }
    }

    /// Returns the names of all classes, in the order of [`PriorityClass::index`].
    pub fn class_names(&self) -> impl Iterator<Item = &str> {
        self.shares.iter().map(|(name, _)| &**name).chain([Self::OTHER])
    }
}

/// 60 % for free, 80 % for standard and basic, 100 % for premium and enterprise.
impl Default for Headroom {
    fn default() -> Self {
        let tiers = [("free", 60), ("standard", 80), ("basic", 80), ("premium", 100), ("enterprise", 100)];
        Self { shares: tiers.map(|(name, percent)| (name.into(), Share(percent))).into(), other: Share(60) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up_and_never_nothing() {
        let share = |percent| Share::percent(percent).unwrap();
        for (percent, limit, part) in
            [(60, 100, 60), (60, 1, 1), (1, 4, 1), (80, 4, 4), (100, u32::MAX, u32::MAX)]
        {
            assert_eq!(share(percent).of(limit), part, "{percent} % of {limit}");
        }
        assert_eq!((Share::percent(0), Share::percent(101)), (None, None));
    }

    #[test]
    fn tiers_that_are_not_listed_have_the_lowest_share() {
        let headroom = Headroom::default();
        let class = |tier| {
            let PriorityClass { index, share } = headroom.class(tier);
            format!("{} {share}", headroom.class_names().nth(index).unwrap())
        };
        assert_eq!(class(Some("FREE")), "free 60%");
        assert_eq!(class(Some("Standard")), "standard 80%");
        assert_eq!(class(Some("premium")), "premium 100%");
        assert_eq!(class(Some("gold")), "other 60%");
        assert_eq!(class(None), "other 60%");
        let listed = [("gold", Share::FULL), ("other", Share(7)), ("free", Share(5))];
        let headroom = Headroom::new(listed).unwrap();
        assert_eq!(headroom.class(None), PriorityClass { index: 2, share: Share(7) });
        assert_eq!(headroom.class(Some("other")), headroom.class(None));
        assert_eq!(Headroom::new::<&str>([]).unwrap().class(None).share, Share::FULL);
    }

    #[test]
    fn tiers_are_listed_once() {
        let error = |names: &[&str]| {
            Headroom::new(names.iter().map(|name| (*name, Share::FULL))).unwrap_err().to_string()
        };
        assert!(error(&["gold", "free", "GOLD"]).contains("`GOLD` twice"));
        assert!(error(&["other", "Other"]).contains("`Other` twice"));
        assert!(error(&[""]).contains("without a name"));
        let many: Vec<String> = (0..33).map(|number| format!("t{number}")).collect();
        assert!(error(&many.iter().map(String::as_str).collect::<Vec<_>>()).contains("33 tiers; list 32"));
    }
}
