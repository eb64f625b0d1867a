//! Rules: what matches, who is counted, how much they may have.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cost::{Charge, Cost};
use crate::descriptor::DescriptorMatch;
use crate::identity::{Identifier, Identity, Part};
use crate::pattern::Pattern;
use crate::quota::Quota;
use crate::request::counted_ip;
use crate::time::{Span, Timestamp};

/// One rule, as its author meant it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name, unique in a rule set.
    pub id: Box<str>,
    /// What it is for, in words.
    pub description: Option<Box<str>>,
    /// Lower goes first in answers and breaks ties.
    pub priority: i32,
    /// Which requests it applies to.
    pub condition: Condition,
    /// The descriptors it applies to, and then to nothing else: what requests are, and who is counted, is then said
    /// by these alone.
    pub descriptor: Option<Box<DescriptorMatch>>,
    /// What it counts by.
    pub identifier: Identifier,
    /// What becomes of a request that lacks what it counts by.
    pub on_missing_identity: OnMissingIdentity,
    /// How much.
    pub allowance: Allowance,
    /// How much of that a request takes.
    pub cost: Cost,
    /// What the answer to a request changes about that, if anything.
    pub charge: Option<Box<Charge>>,
    /// What becomes of a request for which too little is left.
    pub on_limit: OnLimit,
    /// Counts and reports, but never refuses and never holds up another rule.
    pub shadow: bool,
    /// Other figures for one identity or for all, possibly until a date.
    pub overrides: Vec<Override>,
    /// What becomes of a request when the store cannot be asked.
    pub on_store_failure: OnStoreFailure,
}

impl Rule {
    /// A rule that applies `quota` to every request, counted by `identifier`.
    pub fn new(id: impl Into<Box<str>>, identifier: impl Into<Identifier>, quota: Quota) -> Self {
        Self {
            id: id.into(),
            description: None,
            priority: DEFAULT_PRIORITY,
            condition: Condition::default(),
            descriptor: None,
            identifier: identifier.into(),
            on_missing_identity: OnMissingIdentity::default(),
            allowance: Allowance::Fixed(quota),
            cost: Cost::default(),
            charge: None,
            on_limit: OnLimit::default(),
            shadow: false,
            overrides: Vec::new(),
            on_store_failure: OnStoreFailure::default(),
        }
    }
}

/// The priority of a rule that states none: after those that do state a usual one.
pub const DEFAULT_PRIORITY: i32 = 100;

/// How much a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The same for everybody.
    Fixed(Quota),
    /// What the request's tier says.
    Tiered,
    /// This, times what the request's plan says.
    Planned(Quota),
    /// No end of it: nothing is counted. For rules about descriptors, which would otherwise fall under wider ones.
    Unlimited,
}

/// What becomes of a request for which too little is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// It is refused.
    #[default]
    Refuse,
    /// It waits for its turn, wherever somebody can wait; then it is refused.
    Delay {
        /// No longer than this.
        longest: Span,
    },
}

/// What becomes of a request without the identity a rule counts by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingIdentity {
    /// Counted by address; with all others like it if there is none either.
    #[default]
    Ip,
    /// Counted with all others like it.
    Shared,
    /// The rule does not apply.
    Skip,
    /// Refused.
    Refuse,
}

/// What becomes of a request when the shared store cannot be asked in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// Decided without the shared store, as well as the nodes can; in an emergency, by a small allowance.
    #[default]
    Local,
    /// The same, but refused in an emergency.
    LocalOrDeny,
    /// Allowed, and marked as not enforced.
    Allow,
    /// Refused as unavailable.
    Deny,
}

impl OnStoreFailure {
    /// Whether nodes count by themselves.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Local | Self::LocalOrDeny)
    }
}

/// Which requests a rule applies to: all that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// The path matches.
    pub path: Option<Pattern>,
    /// The method is one of these (upper case); empty means any.
    pub methods: Vec<Box<str>>,
    /// There is a user.
    pub requires_authentication: bool,
    /// These headers (names in lower case) have these values.
    pub headers: Vec<(Box<str>, Wanted)>,
    /// These attributes have these values.
    pub attributes: Vec<(Box<str>, Wanted)>,
    /// The address lies in one of these; empty means any.
    pub subnets: Vec<IpNet>,
}

/// What a header or attribute must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Exactly this.
    Value(Box<str>),
    /// Anything, as long as it is there (`*` in documents).
    Present,
}

impl Wanted {
    /// Whether a field with this value, or none, will do.
    pub(crate) fn accepts(&self, value: Option<&str>) -> bool {
        match self {
            Self::Value(wanted) => value == Some(&**wanted),
            Self::Present => value.is_some(),
        }
    }
}

/// Other figures than the rule's own.
#[derive(Clone, Debug)]
pub struct Override {
    /// Whom it is for.
    pub target: Target,
    /// The figures that count instead.
    pub quota: Quota,
    /// When it ends; `None` is never.
    pub until: Option<Timestamp>,
}

/// Whom an override is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everybody the rule counts.
    Everybody,
    /// One identity. A single text is compared with the last part, so that a user is meant in every tenant;
    /// several with all parts.
    Identity(Vec<Box<str>>),
}

impl Target {
    /// Whether `identity` is meant.
    pub fn matches(&self, identity: &Identity<'_>, ipv6_prefix: u8) -> bool {
        match self {
            Self::Everybody => true,
            Self::Identity(texts) => match (texts.as_slice(), identity.parts()) {
                ([text], [.., last]) => is_part(text, last, ipv6_prefix),
                (texts, parts) => {
                    texts.len() == parts.len()
                        && texts.iter().zip(parts).all(|(text, part)| is_part(text, part, ipv6_prefix))
                }
            },
        }
    }
}

fn is_part(text: &str, part: &Part<'_>, ipv6_prefix: u8) -> bool {
    match part {
        Part::Tenant(value)
        | Part::User(value)
        | Part::ApiKey(value)
        | Part::Header(value)
        | Part::Attribute(value)
        | Part::Path(value) => text == *value,
        Part::Ip(ip) => text.parse().is_ok_and(|wanted: IpAddr| counted_ip(wanted, ipv6_prefix) == *ip),
        Part::Shared => false,
    }
}
