//! A whole text: which shape it has, and what it says.

use std::sync::Arc;

use tidegate_core::plan::Plan;
use tidegate_core::tier::Tier;
use tidegate_core::{Facet, Rule, Timestamp};

use crate::domains::Domain;
use crate::fields::known_keys;
use crate::node::{Kind, Node};
use crate::reader::Reader;
use crate::rule::Defaults;
use crate::schema::SHAPES;
use crate::text::{Place, Placed, Text};
use crate::{json, yaml};

/// What one text says: its rules and tiers, each with its place.
#[derive(Debug)]
pub struct Document {
    pub(crate) text: Arc<Text>,
    pub(crate) version: Option<u64>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) rules: Vec<Named<Rule>>,
    pub(crate) tiers: Vec<Named<Tier>>,
    /// Plans, named in lower case.
    pub(crate) plans: Vec<Named<Plan>>,
    /// The rules that have a base limit, and where that is.
    pub(crate) base_limits: Vec<(Box<str>, Place)>,
    pub(crate) default_tier: Vec<Placed<Box<str>>>,
    /// Users and the tiers they are in.
    pub(crate) users: Vec<Placed<(Box<str>, Box<str>)>>,
    /// Tenants and their tiers or plans.
    pub(crate) tenants: Vec<Placed<(Box<str>, Box<str>)>>,
    pub(crate) tier_from: Vec<Placed<Vec<Facet>>>,
    pub(crate) ipv6_prefix: Vec<Placed<u8>>,
    pub(crate) domains: Vec<Domain>,
    /// Whether there may be tiers or plans that could not be read at all.
    pub(crate) tiers_unclear: bool,
    /// Whether it says which plans there are.
    pub(crate) states_plans: bool,
    /// Whether it says which rules there are, be it none.
    pub(crate) states_rules: bool,
}

/// Something with a name; the value is missing if it could not be read, so that the name is still known.
#[derive(Debug)]
pub(crate) struct Named<T> {
    pub(crate) at: Place,
    pub(crate) name: Box<str>,
    pub(crate) value: Option<T>,
}

impl Document {
    /// The author's own version, as the text states it; the largest where several documents of a text do.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// When the author last changed it, as the text states it.
    pub fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }

    /// The name of the text.
    pub fn name(&self) -> &str {
        self.text.name()
    }

    /// The rules in the order of the text.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter_map(|named| named.value.as_ref())
    }

    fn empty(text: &Arc<Text>) -> Self {
        Self {
            text: Arc::clone(text),
            version: None,
            updated_at: None,
            rules: Vec::new(),
            tiers: Vec::new(),
            plans: Vec::new(),
            base_limits: Vec::new(),
            default_tier: Vec::new(),
            users: Vec::new(),
            tenants: Vec::new(),
            tier_from: Vec::new(),
            ipv6_prefix: Vec::new(),
            domains: Vec::new(),
            tiers_unclear: false,
            states_plans: false,
            states_rules: false,
        }
    }

    /// Reads a text as far as it can be read; what is wrong is reported.
    pub(crate) fn read(reader: &mut Reader<'_>, text: &Arc<Text>) -> Self {
        let roots = parse(reader, text.content());
        let mut document = Self { tiers_unclear: !reader.report.is_empty(), ..Self::empty(text) };
        let mut said = false;
        for root in &roots {
            said |= document.read_root(reader, root);
        }
        // Nothing must not pass for "no limits": a file caught half written looks just like it.
        if !said && reader.report.is_empty() {
            reader.problem(
                Place::START,
                "the document is empty; write `rules: []` if there are to be no rules",
            );
        }
        document
    }

    /// Reads one document of the text; `false` if it says nothing.
    fn read_root(&mut self, reader: &mut Reader<'_>, node: &Node<'_>) -> bool {
        match Form::of(node) {
            Form::Nothing => return false,
            Form::List => self.read_rules(reader, node.items(), Defaults::default()),
            Form::RateLimits => self.read_rate_limits(reader, node),
            Form::Envoy => self.read_envoy(reader, node),
            Form::Whole => self.read_whole(reader, node),
            Form::Rule => self.read_rules(reader, std::slice::from_ref(node), Defaults::default()),
            Form::Scalar => {
                let message = format!(
                    "a rule document must be a mapping or a list of rules, not {}; start with `rules:`",
                    node.describe()
                );
                reader.problem(node.at, message);
            }
        }
        true
    }
}

/// The documents of a text, in whichever language it is.
pub(crate) fn parse<'t>(reader: &mut Reader<'_>, content: &'t str) -> Vec<Node<'t>> {
    if json::looks_like(content) { json::parse(reader, content) } else { yaml::parse(reader, content) }
}

/// What one document of a text means to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Nothing,
    /// Rules in a list.
    List,
    /// Tiers alone.
    RateLimits,
    /// Descriptors, as Envoy's rate limit service reads them.
    Envoy,
    /// Rules and all else there may be.
    Whole,
    /// One rule.
    Rule,
    /// Nothing that a document could be.
    Scalar,
}

impl Form {
    pub(crate) fn of(node: &Node<'_>) -> Self {
        let has = |key: &str| node.get(key).is_some();
        match &node.kind {
            Kind::Null => Self::Nothing,
            Kind::List(_) => Self::List,
            Kind::Map(entries) if entries.is_empty() => Self::Nothing,
            Kind::Map(_) if has("rate_limits") => Self::RateLimits,
            Kind::Map(_) if (has("domain") || has("descriptors")) && !has("rule_id") => Self::Envoy,
            Kind::Map(_) if has("rules") || !is_rule(node, has("rule_id")) => Self::Whole,
            Kind::Map(_) => Self::Rule,
            _ => Self::Scalar,
        }
    }
}

/// Whether a mapping without `rules` is a single rule: it names itself, or knows more of a rule's keys.
fn is_rule(node: &Node<'_>, has_id: bool) -> bool {
    has_id || known_keys(node, &SHAPES.rule) > known_keys(node, &SHAPES.document)
}
