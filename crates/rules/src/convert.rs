//! Documents of any form as one of Tidegate's own.

use std::collections::{BTreeMap, HashSet};

use tidegate_core::cost::DEFAULT_CHARGE_WITHIN;
use tidegate_core::plan::Plan;
use tidegate_core::rule::{DEFAULT_PRIORITY, OnMissingIdentity, OnStoreFailure};
use tidegate_core::tier::Tier;

use crate::cost;
use crate::document::Document;
use crate::emit::{self, is_printable};
use crate::form::{self, Table};
use crate::json;
use crate::problem::{Problem, Problems};
use crate::reader::Reader;
use crate::text::{Placed, Text};
use crate::write::{self, one_or_many};

/// The documents as one YAML text that says from what it was made.
pub(crate) fn to_yaml(documents: &[Document]) -> Result<String, Problems> {
    // By way of JSON, which keeps the order of keys.
    let joined = serde_json::to_string(&join(documents))
        .map_err(|error| Problem::whole("converted rules", error.to_string()))?;
    let text = Text::new("converted rules", &joined);
    let mut reader = Reader::new(&text);
    let roots = json::parse(&mut reader, text.content());
    reader.report.finish(())?;
    let mut out = header(documents);
    roots.iter().for_each(|root| emit::document(&mut out, root));
    Ok(out)
}

fn header(documents: &[Document]) -> String {
    let shown = |c: char| if is_printable(c) { c } else { '\u{fffd}' };
    let names = documents.iter().map(|document| document.name().chars().map(shown).collect::<String>());
    format!("# Converted from {}.\n", names.collect::<Vec<_>>().join(", "))
}

fn join(documents: &[Document]) -> form::Document {
    let all = || documents.iter();
    let some = |table: Table<_>| (!table.0.is_empty()).then_some(table);
    let tiers = all().flat_map(|document| &document.tiers).filter_map(|named| named.value.as_ref());
    let tier = |tier: &Tier| (tier.name.to_string(), write::figures(&tier.quota));
    let plans = all().flat_map(|document| &document.plans).filter_map(|named| named.value.as_ref());
    let plan = |plan: &Plan| (plan.name.to_string(), form::Times(plan.multiplier));
    let plans = Table(plans.map(plan).collect());
    let default_tier = all().flat_map(|document| &document.default_tier).last();
    let facets = |placed: &Placed<Vec<tidegate_core::Facet>>| {
        placed.value.iter().map(|facet| form::TierSource(facet.to_string())).collect()
    };
    let rules = all().flat_map(Document::rules).map(|rule| terse(write::form(rule)));
    form::Document {
        version: all().filter_map(Document::version).max(),
        updated_at: all().filter_map(Document::updated_at).max().and_then(write::moment),
        defaults: None,
        tiers: some(Table(tiers.map(tier).collect())),
        plans: (!plans.0.is_empty()).then_some(plans),
        default_tier: default_tier.map(|placed| placed.value.to_string()),
        users: members(documents, |document| &document.users),
        tenants: members(documents, |document| &document.tenants),
        tier_from: all()
            .flat_map(|document| &document.tier_from)
            .last()
            .map(|last| one_or_many(facets(last))),
        ipv6_prefix: all().flat_map(|document| &document.ipv6_prefix).last().map(|placed| placed.value),
        domains: domains(documents),
        rules: Some(rules.collect()),
    }
}

/// Returns users, or tenants, each once, even where several documents state the same of one.
fn members(
    documents: &[Document],
    list: impl Fn(&Document) -> &Vec<Placed<(Box<str>, Box<str>)>>,
) -> Option<Table<String>> {
    let mut seen = HashSet::new();
    let stated = documents.iter().flat_map(list).map(|placed| &placed.value);
    let first = stated.filter(|(name, _)| seen.insert(name));
    let pairs: Vec<_> = first.map(|(name, tier)| (name.to_string(), tier.to_string())).collect();
    (!pairs.is_empty()).then_some(Table(pairs))
}

/// The domains that rules alone would not tell everything about.
fn domains(documents: &[Document]) -> Option<Table<form::Domain>> {
    let rules = documents.iter().flat_map(Document::rules);
    let ruled: HashSet<&str> =
        rules.filter_map(|rule| rule.descriptor.as_ref()).map(|about| &*about.domain).collect();
    let mut charged: BTreeMap<&str, bool> = BTreeMap::new();
    for domain in documents.iter().flat_map(|document| &document.domains) {
        *charged.entry(&domain.name).or_default() |=
            domain.charge_refused.as_ref().is_some_and(|stated| stated.value);
    }
    charged.retain(|name, charged| *charged || !ruled.contains(name));
    let form = |charged: bool| form::Domain { charge_refused: charged.then_some(true) };
    let pairs: Vec<_> = charged.into_iter().map(|(name, charged)| (name.to_owned(), form(charged))).collect();
    (!pairs.is_empty()).then_some(Table(pairs))
}

/// Without what goes without saying.
fn terse(rule: form::Rule) -> form::Rule {
    let missing = write::on_missing_identity(OnMissingIdentity::default());
    let failure = write::on_store_failure(OnStoreFailure::default());
    form::Rule {
        priority: rule.priority.filter(|priority| *priority != DEFAULT_PRIORITY),
        on_missing_identity: rule.on_missing_identity.filter(|form| form.0 != missing.0),
        cost: rule.cost.map(terse_cost),
        charge: rule.charge.map(terse_charge),
        on_store_failure: rule.on_store_failure.filter(|form| form.0 != failure.0),
        ..rule
    }
}

fn terse_cost(cost: form::Cost) -> form::Cost {
    match cost {
        form::Cost::Fixed(cost) => form::Cost::Fixed(cost),
        form::Cost::Said(said) => form::Cost::Said(form::CostSaid {
            default: said.default.filter(|default| *default != cost::DEFAULT_OTHERWISE),
            max: said.max.filter(|max| *max != cost::DEFAULT_MAX),
            ..said
        }),
    }
}

fn terse_charge(charge: form::Charge) -> form::Charge {
    let usual = DEFAULT_CHARGE_WITHIN.to_string();
    form::Charge { within: charge.within.filter(|within| within.0 != usual), ..charge }
}
