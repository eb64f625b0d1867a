//! What a document says, key by key.

use tidegate_core::rule::Allowance;
use tidegate_core::tier::Tier;
use tidegate_core::{Facet, Identifier, Quota, Rule};

use crate::document::{Document, Named};
use crate::domains::{self, Domain};
use crate::fields::Fields;
use crate::figures::{self, Base};
use crate::node::Node;
use crate::problem::quoted;
use crate::reader::Reader;
use crate::rule::{self, Defaults};
use crate::schema::SHAPES;
use crate::suggest;
use crate::text::Placed;

/// The id of the one rule that a text of `rate_limits` stands for.
const RATE_LIMITS_RULE: &str = "tier";

impl Document {
    /// A document with all its keys.
    pub(crate) fn read_whole(&mut self, reader: &mut Reader<'_>, node: &Node<'_>) {
        let Some(fields) = Fields::open(reader, node, &SHAPES.document) else { return };
        self.read_header(reader, &fields);
        let defaults = fields.read("defaults", |_, node| Defaults::read(reader, node)).unwrap_or_default();
        if let Some(node) = fields.get("tiers") {
            self.read_tiers(reader, "tiers", node);
        }
        if let Some(node) = fields.get("plans") {
            self.read_plans(reader, node);
        }
        if let Some(node) = fields.get("default_tier") {
            let name = reader.name("default_tier", node);
            self.default_tier.extend(name.map(|name| Placed { at: node.at, value: name.into() }));
        }
        if let Some(node) = fields.get("users") {
            self.users.extend(members(reader, "users", node, "{ alice: premium }"));
        }
        if let Some(node) = fields.get("tenants") {
            self.tenants.extend(members(reader, "tenants", node, "{ acme: PREMIUM }"));
        }
        if let Some(node) = fields.get("tier_from") {
            let items = reader.many("tier_from", node);
            let facets = items.iter().filter_map(|item| tier_source(reader, item)).collect();
            self.tier_from.push(Placed { at: node.at, value: facets });
        }
        if let Some(node) = fields.get("ipv6_prefix") {
            self.ipv6_prefix.extend(ipv6_prefix(reader, node));
        }
        if let Some(node) = fields.get("domains") {
            self.read_domains(reader, node);
        }
        if let Some(items) = fields.read("rules", |key, node| reader.list(key, node, SHAPES.rule.example)) {
            self.read_rules(reader, items, defaults);
        }
    }

    fn read_header(&mut self, reader: &mut Reader<'_>, fields: &Fields<'_, '_>) {
        let version = fields.read("version", |key, node| reader.whole(key, node, ""));
        let updated_at = fields.read("updated_at", |key, node| reader.moment(key, node));
        self.version = self.version.max(version);
        self.updated_at = self.updated_at.max(updated_at);
    }

    pub(crate) fn read_rules(&mut self, reader: &mut Reader<'_>, items: &[Node<'_>], defaults: Defaults) {
        self.states_rules = true;
        for (index, item) in items.iter().enumerate() {
            if reader.report.gives_up(items.len() - index) {
                break;
            }
            let read = rule::read(reader, item, defaults);
            if let (Some(id), Some(at)) = (&read.id, read.base_limit) {
                self.base_limits.push((id.value.clone(), at));
            }
            self.rules.extend(read.id.map(|id| Named { at: id.at, name: id.value, value: read.rule }));
        }
    }

    fn read_tiers(&mut self, reader: &mut Reader<'_>, key: &str, node: &Node<'_>) {
        let entries = reader.map(key, node, "{ free: { limit: 10, window: 1s } }");
        self.tiers_unclear |= entries.is_none();
        for entry in entries.unwrap_or_default() {
            let name = &*entry.key.value;
            if !reader.is_name("a tier's name", name, entry.key.at) {
                continue;
            }
            let quota = Fields::open(reader, &entry.value, &SHAPES.tier).and_then(|fields| {
                figures::quota(reader, &fields, &format!("tier {}", quoted(name)), Base::None)
            });
            let value = quota.map(|quota| Tier { name: name.into(), quota });
            self.tiers.push(Named { at: entry.key.at, name: name.into(), value });
        }
    }

    fn read_domains(&mut self, reader: &mut Reader<'_>, node: &Node<'_>) {
        for entry in
            reader.map("domains", node, "{ messaging: { charge_refused: true } }").unwrap_or_default()
        {
            let name = &*entry.key.value;
            if let Some(fields) = Fields::open(reader, &entry.value, &SHAPES.domain)
                && reader.is_name("a domain's name", name, entry.key.at)
            {
                let charge_refused = domains::charge_refused(reader, &fields);
                let (at, name) = (entry.key.at, name.into());
                self.domains.push(Domain { at, name, charge_refused, described: false });
            }
        }
    }

    /// Tiers alone, which stand for one rule over all paths.
    pub(crate) fn read_rate_limits(&mut self, reader: &mut Reader<'_>, node: &Node<'_>) {
        let Some(fields) = Fields::open(reader, node, &SHAPES.rate_limits) else { return };
        self.read_header(reader, &fields);
        let Some(node) = fields.get("rate_limits") else { return };
        self.read_tiers(reader, "rate_limits", node);
        let at = fields.key_at("rate_limits").unwrap_or(node.at);
        self.states_rules = true;
        self.rules.push(Named { at, name: RATE_LIMITS_RULE.into(), value: Some(rate_limits_rule()) });
    }
}

/// Reads who is in which tier or plan.
fn members(
    reader: &mut Reader<'_>,
    key: &str,
    node: &Node<'_>,
    example: &str,
) -> Vec<Placed<(Box<str>, Box<str>)>> {
    let mut members = Vec::new();
    for entry in reader.map(key, node, example).unwrap_or_default() {
        let name = &*entry.key.value;
        if let Some(tier) = reader.name(name, &entry.value) {
            members.push(Placed { at: entry.value.at, value: (name.into(), tier.into()) });
        }
    }
    members
}

fn rate_limits_rule() -> Rule {
    Rule {
        description: Some("Every user within their tier".into()),
        allowance: Allowance::Tiered,
        ..Rule::new(RATE_LIMITS_RULE, Identifier::from(Facet::User), Quota::BLOCKED)
    }
}

fn tier_source(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Facet> {
    let facet = rule::facet(reader, "tier_from", node)?;
    if matches!(facet, Facet::Header(_) | Facet::Attribute(_)) {
        return Some(facet);
    }
    let hint = suggest::choice(["header:<name>", "attribute:<name>"]);
    reader.problem(node.at, format!("`{facet}` does not name a tier; use {hint}"));
    None
}

fn ipv6_prefix(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Placed<u8>> {
    let bits = reader.whole("ipv6_prefix", node, "64 is usual")?;
    match u8::try_from(bits) {
        Ok(value @ 0..=128) => Some(Placed { at: node.at, value }),
        _ => {
            let message = format!("`ipv6_prefix` must be 0 to 128 bits, not {bits}; 64 is usual");
            reader.problem(node.at, message);
            None
        }
    }
}
