//! Rule documents as types: what they may say, key by key.
//!
//! Rules are written with these types, the JSON Schema is generated from them, and the reader takes the keys it
//! knows from that schema: a key that is added here is known everywhere. The reader itself walks the text instead of
//! deserialising it, so as to find every problem and not only the first.

mod cost;
mod descriptor;
mod envoy;
mod plan;
mod table;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use tidegate_core::Facet;

use crate::names;

pub use cost::{Charge, Cost, CostSaid, Status};
pub use descriptor::{Descriptor, Domain, Entry};
pub use envoy::{EnvoyDescriptor, EnvoyDomain, EnvoyRateLimit, EnvoyReplaced};
pub use plan::Times;
pub use table::Table;

/// A text that may only be one of a few, or must have a certain look, with the schema that says so.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident($inner:ty) = $schema:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize)]
        pub struct $name(pub $inner);

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

text_type! {
    /// The name of an algorithm.
    Algorithm(&'static str) = one_of(&names::ALGORITHMS)
}
text_type! {
    /// The name of an algorithm that counts per time.
    EnvoyAlgorithm(&'static str) = one_of(&names::ENVOY_ALGORITHMS)
}
text_type! {
    /// What to do with a request that lacks an identity.
    OnMissingIdentity(&'static str) = one_of(&names::ON_MISSING_IDENTITY)
}
text_type! {
    /// What to do with a request when the store cannot be asked.
    OnStoreFailure(&'static str) = one_of(&names::ON_STORE_FAILURE)
}
text_type! {
    /// What to do with a request for which too little is left.
    OnLimit(&'static str) = one_of(&names::ON_LIMIT)
}
text_type! {
    /// A length of time.
    Duration(String) = json_schema!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d|w)$", "examples": ["60s"]})
}
text_type! {
    /// A point in time.
    Moment(String) = json_schema!({"type": "string", "format": "date-time"})
}

text_type! {
    /// A fact that a rule counts by.
    Counted(String) = json_schema!({"type": "string", "pattern": counted_pattern(), "examples": ["user_id"]})
}
text_type! {
    /// A fact that names a request's tier.
    TierSource(String) = json_schema!({"type": "string", "pattern": "^(header|attribute):.+$"})
}

text_type! {
    /// A text, which may look like a number or a flag.
    Written(String) = json_schema!({"type": ["string", "number", "boolean"]})
}
text_type! {
    /// A unit of time, in upper or lower case.
    Unit(String) = json_schema!({"type": "string", "pattern": unit_pattern(), "examples": ["minute"]})
}

fn unit_pattern() -> String {
    let letter = |c: char| format!("[{c}{}]", c.to_ascii_uppercase());
    let names: Vec<String> =
        names::UNITS.iter().map(|(name, _)| name.chars().map(letter).collect()).collect();
    format!("^({})$", names.join("|"))
}

fn counted_pattern() -> String {
    let plain: Vec<&str> = Facet::plain_names().collect();
    format!("^({}|(header|attribute):.+)$", plain.join("|"))
}

fn one_of<T>(table: &[(&'static str, T)]) -> Schema {
    let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
    json_schema!({"type": "string", "enum": names})
}

/// One or several.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum OneOrMany<T = String> {
    /// One.
    One(T),
    /// Several, at least one.
    Many(Vec<T>),
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]})
    }
}

/// A whole rule document: rules, and the tiers they refer to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The author's own version of the document; shown, and not otherwise used.
    pub version: Option<u64>,
    /// When the document was last changed (RFC 3339); shown, and not otherwise used.
    pub updated_at: Option<Moment>,
    /// What holds for the rules of this document that do not say otherwise.
    pub defaults: Option<Defaults>,
    /// Named figures. A rule with `tiered: true` takes limit, window, burst and algorithm from the request's tier.
    pub tiers: Option<Table<Figures>>,
    /// What the `base_limit` of a rule is multiplied by, by plan: the request's, which is named as a tier is, but in upper
    /// or lower case. 0 blocks. `PREMIUM: 3`, `STANDARD: 2` and `FREE: 1` if no document states any.
    pub plans: Option<Table<Times>>,
    /// The tier, and the plan, of a request that names none that is known. Without it: the tier that allows least, and the
    /// plan with the least multiplier.
    pub default_tier: Option<String>,
    /// The tier or plan of users that is known beforehand: user → tier.
    pub users: Option<Table<String>>,
    /// The tier or plan of tenants that is known beforehand: tenant → plan. It is the limit of rules that count by tenant, whichever
    /// user asks, and of users who have no tier of their own.
    pub tenants: Option<Table<String>>,
    /// Where a request's tier or plan is read from when the request does not state it: `header:<name>` or
    /// `attribute:<name>`, one or a list asked in order. Only name a header that clients cannot set themselves.
    pub tier_from: Option<OneOrMany<TierSource>>,
    /// How many bits of an IPv6 address are counted by, because one client usually has a whole network. Default 64.
    #[schemars(range(max = 128))]
    pub ipv6_prefix: Option<u8>,
    /// How domains are served, by name; those that only rules name are served as usual.
    pub domains: Option<Table<Domain>>,
    /// The rules. All that match a request apply to it.
    pub rules: Option<Vec<Rule>>,
}

/// What holds for the rules of a document that do not say otherwise.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// What becomes of a request when the store cannot be asked: `local` (default) decides without it, `allow` lets
    /// it pass, `deny` refuses it.
    pub on_store_failure: Option<OnStoreFailure>,
    /// What becomes of a request without the identity a rule counts by: counted by `ip` (default), counted as one
    /// with all like it (`shared`), left alone by the rule (`skip`), or refused (`refuse`).
    pub on_missing_identity: Option<OnMissingIdentity>,
}

/// Tiers and nothing else: each entry is a tier, and one rule named `tier` counts every user within theirs.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    /// The tiers by name.
    pub rate_limits: Table<Figures>,
    /// The author's own version of the document; shown, and not otherwise used.
    pub version: Option<u64>,
    /// When the document was last changed (RFC 3339); shown, and not otherwise used.
    pub updated_at: Option<Moment>,
}

/// How much, per how long, counted how. Needs a limit and exactly one of `window` and `window_size_seconds`, or `algorithm: in_flight`
/// and neither.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = {"properties": {"algorithm": {"const": "in_flight"}}, "required": ["algorithm"]},
    "then" = {"not": {"anyOf": [
        {"required": ["window"]}, {"required": ["window_size_seconds"]}, {"required": ["burst"]}
    ]}},
    "else" = {
        "oneOf": [{"required": ["window"]}, {"required": ["window_size_seconds"]}],
        "not": {"required": ["hold_for"]}
    }
))]
pub struct Figures {
    /// How much per window. 0 blocks.
    pub limit: u64,
    /// The window: a whole number and `ms`, `s`, `m`, `h`, `d` or `w`; 1ms to 366d.
    pub window: Option<Duration>,
    /// The window in seconds, instead of `window`.
    pub window_size_seconds: Option<u64>,
    /// How long a request is in flight at most, 1ms to 366d: after that its slot is given back, whether or not the request is over.
    /// `in_flight` only. Default 60s.
    pub hold_for: Option<Duration>,
    /// How much a token bucket holds at most; the limit if not given or smaller. Token buckets only.
    pub burst: Option<u64>,
    /// How it is counted. Default `token_bucket`.
    pub algorithm: Option<Algorithm>,
}

/// One rule: which requests or descriptors it applies to, by what they are counted, and how much there is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "allOf" = [
        {
            "if": {"required": ["descriptor"]},
            "then": {"not": {"anyOf": [
                {"required": ["match"]}, {"required": ["identifier_type"]}, {"required": ["on_missing_identity"]},
                {"required": ["tiered"]}, {"required": ["base_limit"]}, {"required": ["overrides"]},
                {"required": ["cost"]}, {"required": ["charge"]}, {"required": ["on_limit"]},
                {"required": ["max_delay"]}
            ]}},
            "else": {"required": ["identifier_type"], "not": {"required": ["unlimited"]}}
        },
        {
            "if": {"anyOf": [
                {"properties": {"tiered": {"const": true}}, "required": ["tiered"]},
                {"properties": {"unlimited": {"const": true}}, "required": ["unlimited"]}
            ]},
            "then": {"not": {"anyOf": [
                {"required": ["limit"]}, {"required": ["base_limit"]}, {"required": ["window"]},
                {"required": ["window_size_seconds"]}, {"required": ["hold_for"]}, {"required": ["burst"]},
                {"required": ["algorithm"]}
            ]}},
            "else": {
                "oneOf": [{"required": ["limit"]}, {"required": ["base_limit"]}],
                "if": {"properties": {"algorithm": {"const": "in_flight"}}, "required": ["algorithm"]},
                "then": {"not": {"anyOf": [
                    {"required": ["window"]}, {"required": ["window_size_seconds"]}, {"required": ["burst"]},
                    {"required": ["charge"]}, {"required": ["max_delay"]}
                ]}},
                "else": {
                    "oneOf": [{"required": ["window"]}, {"required": ["window_size_seconds"]}],
                    "not": {"required": ["hold_for"]}
                }
            }
        },
        {
            "if": {"properties": {"on_limit": {"const": "delay"}}, "required": ["on_limit"]},
            "then": {"required": ["max_delay"]},
            "else": {"not": {"required": ["max_delay"]}}
        }
    ]
))]
pub struct Rule {
    /// The rule's name, unique among all rules: letters, digits, `_`, `-` and `.`, at most 128.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{1,128}$"))]
    pub rule_id: String,
    /// What the rule is for, in words: at most 4096 characters.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// The descriptors the rule applies to, and then to nothing else: for proxies that say what a request is instead
    /// of showing it. Instead of `match`, `identifier_type`, `on_missing_identity`, `tiered`, `base_limit`, `overrides`, `cost`,
    /// `charge`, `on_limit` and `max_delay`.
    pub descriptor: Option<Descriptor>,
    /// What is counted by (needed unless the rule has a `descriptor`): `user_id` (within its tenant when there is one), `tenant_id`, `ip_address`, `api_key`,
    /// `header:<name>`, `attribute:<name>`, `path`, `global`, or a list of these counted together.
    pub identifier_type: Option<OneOrMany<Counted>>,
    /// What becomes of a request without the identity this rule counts by: counted by `ip` (default), counted as
    /// one with all like it (`shared`), left alone by this rule (`skip`), or refused (`refuse`).
    pub on_missing_identity: Option<OnMissingIdentity>,
    /// How it is counted. Default `token_bucket`.
    pub algorithm: Option<Algorithm>,
    /// How much per window, or how many requests at once. 0 blocks. Needed unless the rule has a `base_limit`, is tiered or unlimited.
    pub limit: Option<u64>,
    /// How much per window before it is multiplied by what the request's plan says, and rounded down. The burst is
    /// multiplied too. Instead of `limit`.
    pub base_limit: Option<u64>,
    /// The window: a whole number and `ms`, `s`, `m`, `h`, `d` or `w`; 1ms to 366d. A rule with a limit needs
    /// this or `window_size_seconds`, unless it counts requests `in_flight`.
    pub window: Option<Duration>,
    /// The window in seconds, instead of `window`.
    pub window_size_seconds: Option<u64>,
    /// How long a request is in flight at most, 1ms to 366d: after that its slot is given back, whether or not the request is over.
    /// `in_flight` only. Default 60s.
    pub hold_for: Option<Duration>,
    /// How much a token bucket holds at most; the limit if not given or smaller. Token buckets only.
    pub burst: Option<u64>,
    /// Takes limit, window, burst and algorithm from the request's tier instead of stating them. Default false.
    pub tiered: Option<bool>,
    /// Never refuses and counts nothing, instead of stating a limit. Only with `descriptor`. Default false.
    pub unlimited: Option<bool>,
    /// How much of that a request takes: a number, or where the request says it. Default 1.
    pub cost: Option<Cost>,
    /// Has the answer to a request say what it takes; what it costs otherwise is held until then.
    pub charge: Option<Charge>,
    /// What becomes of a request for which too little is left: refused (`reject`, default), or made to wait for its turn,
    /// wherever somebody can wait (`delay`).
    pub on_limit: Option<OnLimit>,
    /// How long a request may be made to wait, 1ms to 60s; then it is refused. Needed with `on_limit: delay`, and only there.
    pub max_delay: Option<Duration>,
    /// Lower goes first in answers and breaks ties. Default 100.
    pub priority: Option<i32>,
    /// Which requests the rule applies to: all conditions given must hold; without any, every request.
    pub r#match: Option<Match>,
    /// Counts and reports, but never refuses and never holds up another rule. Default false.
    pub shadow: Option<bool>,
    /// Other figures for one identity or for everybody, possibly until a date.
    pub overrides: Option<Vec<Override>>,
    /// What becomes of a request when the store cannot be asked: `local` (default) decides without it, `allow` lets
    /// it pass, `deny` refuses it.
    pub on_store_failure: Option<OnStoreFailure>,
}

/// Which requests a rule applies to: all conditions given must hold.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// The path. A trailing `*` is everything below; `*` or `{name}` elsewhere is one segment, `**` any number.
    #[schemars(regex(pattern = "^/"))]
    pub path_pattern: Option<String>,
    /// The methods, one or a list.
    pub methods: Option<OneOrMany>,
    /// Whether there must be a user. `false` is the same as not given: either.
    pub requires_authentication: Option<bool>,
    /// Headers that must be there with these values; `"*"` is any value.
    pub required_headers: Option<Table<String>>,
    /// Attributes that must be there with these values; `"*"` is any value.
    pub required_attributes: Option<Table<String>>,
    /// Networks the address must be in, v4 or v6, one or a list: `192.168.1.0/24`.
    pub ip_subnet: Option<OneOrMany>,
}

/// Other figures than the rule's own. What it does not state (except the burst) is the rule's; an override of a
/// tiered rule states its window.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {"required": ["window", "window_size_seconds"]}))]
pub struct Override {
    /// Whom it is for: a user, an address, whatever the rule counts by. A list names all parts of one identity, such
    /// as tenant and user; a single text is compared with the last part. Without it: everybody.
    pub identity: Option<OneOrMany>,
    /// How much per window. 0 blocks.
    pub limit: u64,
    /// The window, if it is not the rule's.
    pub window: Option<Duration>,
    /// The window in seconds, instead of `window`.
    pub window_size_seconds: Option<u64>,
    /// How long a request is in flight at most, if it is not as in the rule. `in_flight` only.
    pub hold_for: Option<Duration>,
    /// How much a token bucket holds at most; the override's limit if not given.
    pub burst: Option<u64>,
    /// How it is counted, if not like the rule.
    pub algorithm: Option<Algorithm>,
    /// When it ends (RFC 3339). Without it: never.
    pub until: Option<Moment>,
}
