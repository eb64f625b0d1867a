//! One rule.

use tidegate_core::rule::{Allowance, DEFAULT_PRIORITY, OnLimit, OnMissingIdentity, OnStoreFailure};
use tidegate_core::{Charge, Cost, Facet, Identifier, Quota, Rule};

use crate::charge;
use crate::condition::{self, is_header};
use crate::cost;
use crate::descriptor;
use crate::fields::Fields;
use crate::figures::{self, Base};
use crate::names::{ON_MISSING_IDENTITY, ON_STORE_FAILURE};
use crate::node::Node;
use crate::overrides;
use crate::patience;
use crate::problem::quoted;
use crate::reader::Reader;
use crate::schema::SHAPES;
use crate::suggest;
use crate::text::{Place, Placed};

/// The longest rule id: it becomes part of keys, labels and header values.
pub(crate) const MAX_ID_CHARS: usize = 128;

/// What only rules about requests can say.
const REQUESTS_ONLY: [&str; 10] = [
    "match",
    "identifier_type",
    "on_missing_identity",
    "tiered",
    "base_limit",
    "overrides",
    "cost",
    "charge",
    "on_limit",
    "max_delay",
];

/// What holds for a rule that does not say otherwise.
#[derive(Clone, Copy, Default)]
pub(crate) struct Defaults {
    on_store_failure: OnStoreFailure,
    on_missing_identity: OnMissingIdentity,
}

impl Defaults {
    pub(crate) fn read(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Self> {
        let fields = Fields::open(reader, node, &SHAPES.defaults)?;
        Some(Self::default().or_as(reader, &fields))
    }

    /// These, unless `fields` say otherwise.
    fn or_as(self, reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Self {
        let failure = fields.read("on_store_failure", |key, node| reader.named(key, node, &ON_STORE_FAILURE));
        let missing =
            fields.read("on_missing_identity", |key, node| reader.named(key, node, &ON_MISSING_IDENTITY));
        Self {
            on_store_failure: failure.unwrap_or(self.on_store_failure),
            on_missing_identity: missing.unwrap_or(self.on_missing_identity),
        }
    }
}

/// A rule as far as it could be read: its id, if that is sound, and all of it, if that is.
pub(crate) struct Read {
    pub(crate) id: Option<Placed<Box<str>>>,
    pub(crate) rule: Option<Rule>,
    /// Where its base limit is, if it has one.
    pub(crate) base_limit: Option<Place>,
}

/// Reads a rule; what is wrong with it is reported.
pub(crate) fn read(reader: &mut Reader<'_>, node: &Node<'_>, defaults: Defaults) -> Read {
    let Some(fields) = Fields::open(reader, node, &SHAPES.rule) else {
        return Read { id: None, rule: None, base_limit: None };
    };
    let id = id(reader, &fields);
    let what = id.as_ref().map_or_else(|| "a rule".to_owned(), |id| format!("rule `{}`", id.value));
    let description = fields.read("description", |key, node| reader.text(key, node));
    let priority = fields.read("priority", |key, node| reader.signed(key, node));
    let shadow = fields.read("shadow", |key, node| reader.flag(key, node));
    let defaults = defaults.or_as(reader, &fields);
    let subject = if fields.has("descriptor") {
        about_descriptors(reader, &fields, &what)
    } else {
        about_requests(reader, &fields, &what, defaults)
    };
    let rule = id.as_ref().zip(subject).map(|(id, subject)| Rule {
        id: id.value.clone(),
        description: description.map(Into::into),
        priority: priority.unwrap_or(DEFAULT_PRIORITY),
        shadow: shadow.unwrap_or_default(),
        on_store_failure: defaults.on_store_failure,
        ..subject
    });
    Read { id, rule, base_limit: fields.get("base_limit").map(|node| node.at) }
}

/// Which requests a rule is about, who is counted, and how much they may have.
fn about_requests(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    what: &str,
    defaults: Defaults,
) -> Option<Rule> {
    let identifier = identifier(reader, fields, what);
    let condition = fields.read("match", |_, node| condition::read(reader, node));
    if let Some(node) = fields.get("unlimited")
        && reader.flag("unlimited", node).is_some()
    {
        let hint = "to leave requests alone, leave the rule out";
        reader.problem(node.at, format!("`unlimited` is for rules with a `descriptor`; {hint}"));
    }
    let allowance = allowance(reader, fields, what);
    let base = match allowance {
        Some(Allowance::Fixed(quota) | Allowance::Planned(quota)) => Base::Quota(quota),
        Some(Allowance::Tiered | Allowance::Unlimited) => Base::None,
        None => Base::Unknown,
    };
    let price = price(reader, fields, allowance.as_ref());
    let on_limit = patience::read(reader, fields);
    let overrides =
        fields.read("overrides", |key, node| overrides::read(reader, key, node, base, identifier.as_ref()));
    let quotas = overrides.iter().flatten().map(|entry| entry.quota).chain(own_quota(allowance));
    let (cost, charge) = price?;
    if quotas.into_iter().any(|quota| figures::is_in_flight(quota.algorithm()))
        && is_said_in_vain(reader, fields, charge.is_some(), on_limit)
    {
        return None;
    }
    Some(Rule {
        condition: condition.unwrap_or_default(),
        cost,
        charge: charge.map(Box::new),
        on_limit: on_limit?,
        on_missing_identity: defaults.on_missing_identity,
        allowance: allowance?,
        overrides: overrides.unwrap_or_default(),
        ..Rule::new("", identifier?, Quota::BLOCKED)
    })
}

fn own_quota(allowance: Option<Allowance>) -> Option<Quota> {
    match allowance? {
        Allowance::Fixed(quota) | Allowance::Planned(quota) => Some(quota),
        Allowance::Tiered | Allowance::Unlimited => None,
    }
}

/// Complains about what a limit on requests in flight has no use for; returns true if there is any of it.
fn is_said_in_vain(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    charges: bool,
    on_limit: Option<OnLimit>,
) -> bool {
    let delays = matches!(on_limit, Some(OnLimit::Delay { .. }));
    let mut is_vain = false;
    for (key, given, why) in [
        ("charge", charges, "takes a slot back when a request is over, whatever its response says"),
        ("on_limit", delays, "refuses at once, as nobody can tell when a request ends"),
    ] {
        if let Some(at) = fields.key_at(key).filter(|_| given) {
            reader.problem(at, format!("`in_flight` {why}; remove `{key}` or use another algorithm"));
            is_vain = true;
        }
    }
    is_vain
}

/// What a request takes, and what its answer changes about that.
fn price(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    allowance: Option<&Allowance>,
) -> Option<(Cost, Option<Charge>)> {
    let cost = fields.get("cost").map(|node| {
        let cost = cost::read(reader, "cost", node)?;
        cost::fits(reader, node, &cost, allowance);
        Some(cost)
    });
    let charge = fields.get("charge").map(|node| charge::read(reader, node).map(Some));
    Some((cost.unwrap_or_else(|| Some(Cost::default()))?, charge.unwrap_or(Some(None))?))
}

/// Which descriptors a rule is about, and how much they may have.
fn about_descriptors(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, what: &str) -> Option<Rule> {
    for key in REQUESTS_ONLY {
        if let Some(at) = fields.key_at(key) {
            reader.problem(
                at,
                format!("`{key}` is about requests, and `descriptor` is not; remove one of them"),
            );
        }
    }
    let about = fields.read("descriptor", |_, node| descriptor::read(reader, node));
    let allowance = match fields.get("unlimited").map(|node| reader.flag("unlimited", node)) {
        Some(Some(true)) => {
            figures_are_in_vain(reader, fields, |key| {
                format!("an unlimited rule has no `{key}`; remove it, or remove `unlimited`")
            });
            Some(Allowance::Unlimited)
        }
        Some(None) => {
            figures::check(reader, fields);
            None
        }
        // A base limit stands for a limit here, so that only what it is gets reported.
        _ => figures::quota_by(reader, fields, limit_key(fields), what, Base::None).map(Allowance::Fixed),
    };
    Some(Rule {
        descriptor: Some(Box::new(about?)),
        allowance: allowance?,
        ..Rule::new("", Identifier::from(Facet::Global), Quota::BLOCKED)
    })
}

fn id(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Placed<Box<str>>> {
    let Some(node) = fields.get("rule_id") else {
        if fields.lacks("rule_id") {
            reader.problem(fields.at, "a rule has no `rule_id`; give it a name of its own");
        }
        return None;
    };
    let text = reader.text("rule_id", node)?;
    if !text.is_empty() && text.len() <= MAX_ID_CHARS && text.chars().all(is_id_char) {
        return Some(Placed { at: node.at, value: text.into() });
    }
    let message = format!(
        "`rule_id` must be 1 to {MAX_ID_CHARS} letters, digits, `_`, `-` or `.`, not {}; rename it",
        quoted(text)
    );
    reader.problem(node.at, message);
    None
}

/// Whether a rule id may contain `c`.
pub(crate) fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn identifier(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, what: &str) -> Option<Identifier> {
    let Some(node) = fields.get("identifier_type") else {
        if fields.lacks("identifier_type") {
            let hint = "say what to count by, such as `user_id`, `ip_address` or `global`";
            reader.problem(fields.at, format!("{what} has no `identifier_type`; {hint}"));
        }
        return None;
    };
    let items = reader.many("identifier_type", node);
    let facets: Vec<Facet> = items.iter().filter_map(|item| facet(reader, "identifier_type", item)).collect();
    if facets.len() == items.len() { Identifier::new(facets) } else { None }
}

/// One fact to count by.
pub(crate) fn facet(reader: &mut Reader<'_>, key: &str, node: &Node<'_>) -> Option<Facet> {
    let text = reader.text(key, node)?;
    let facet = text.parse().ok();
    match &facet {
        Some(Facet::Header(name)) if !is_header(reader, name, node.at) => return None,
        Some(Facet::Attribute(name)) if !reader.is_name("an attribute's name", name, node.at) => return None,
        Some(_) => {}
        None => {
            let known = || Facet::plain_names().chain(["header:<name>", "attribute:<name>"]);
            let hint = suggest::hint(text, known(), || format!("; use {}", suggest::choice(known())));
            reader.problem(node.at, format!("unknown {} {}{hint}", quoted(key), quoted(text)));
        }
    }
    facet
}

fn allowance(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, what: &str) -> Option<Allowance> {
    let tiered = match fields.get("tiered").map(|node| reader.flag("tiered", node)) {
        Some(Some(tiered)) => tiered,
        None => false,
        Some(None) => {
            figures::check(reader, fields);
            return None;
        }
    };
    if let (Some(_), Some(at)) = (fields.key_at("base_limit"), fields.key_at("limit")) {
        reader.problem(at, "`base_limit` is given as well; remove one of the two");
    }
    if !tiered {
        let key = limit_key(fields);
        let quota = figures::quota_by(reader, fields, key, what, Base::None)?;
        return Some(if key == "limit" { Allowance::Fixed(quota) } else { Allowance::Planned(quota) });
    }
    figures_are_in_vain(reader, fields, |key| match key {
        "base_limit" => "a tiered rule has no `base_limit`; remove it, or remove `tiered`".to_owned(),
        key => format!("a tiered rule takes `{key}` from the tier; remove it, or remove `tiered`"),
    });
    Some(Allowance::Tiered)
}

/// By which key a rule states its limit, or means to.
fn limit_key(fields: &Fields<'_, '_>) -> &'static str {
    let base = fields.has("base_limit") || !fields.has("limit") && fields.means("base_limit");
    if base { "base_limit" } else { "limit" }
}

/// Complains about figures in a rule that has no use for them.
fn figures_are_in_vain(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, message: impl Fn(&str) -> String) {
    for key in figures::KEYS.into_iter().chain(["base_limit"]) {
        if let Some(at) = fields.key_at(key) {
            reader.problem(at, message(key));
        }
    }
}
