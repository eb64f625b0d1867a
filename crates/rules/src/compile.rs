//! Documents together: joined, checked against each other, compiled.

use std::collections::HashMap;

use tidegate_core::rule::Allowance;
use tidegate_core::tier::Tiers;
use tidegate_core::{RuleSet, RuleSetParts};

use crate::document::{Document, Named};
use crate::domains::{self, Domain};
use crate::plans;
use crate::problem::{Problem, Problems, Report, quoted};
use crate::suggest;
use crate::text::{Place, Placed};

/// Which rules these are. A bare number is both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The source's own version, for people to read.
    pub shown: u64,
    /// What quotas carry; see [`RuleSetParts::stamp`].
    pub stamp: u64,
}

impl From<u64> for Version {
    fn from(number: u64) -> Self {
        Self { shown: number, stamp: number }
    }
}

/// Joins documents and compiles them to the rule set with the source's own `version`.
///
/// No documents are no rules, which is how an empty prefix or table is read.
pub fn compile(documents: Vec<Document>, version: impl Into<Version>) -> Result<RuleSet, Problems> {
    let mut report = check(&documents);
    rules_are_there(&mut report, &documents);
    report.finish(())?;
    let first = documents.first().map_or("rules", Document::name).to_owned();
    RuleSet::new(join(documents, version.into()))
        .map_err(|error| Problem::whole(&first, error.to_string()).into())
}

fn join(documents: Vec<Document>, version: Version) -> RuleSetParts {
    let Version { shown, stamp } = version;
    let mut parts = RuleSetParts { version: shown, stamp: Some(stamp), ..RuleSetParts::default() };
    parts.tiers.plans = plans::of(&documents);
    for document in documents {
        parts.rules.extend(document.rules.into_iter().filter_map(|named| named.value));
        parts.ipv6_prefix = last(document.ipv6_prefix).unwrap_or(parts.ipv6_prefix);
        parts.domains.extend(document.domains.into_iter().map(Domain::terms));
        let Tiers { list, default, users, tenants, from, .. } = &mut parts.tiers;
        list.extend(document.tiers.into_iter().filter_map(|named| named.value));
        users.extend(document.users.into_iter().map(|placed| placed.value));
        tenants.extend(document.tenants.into_iter().map(|placed| placed.value));
        *default = last(document.default_tier).or(default.take());
        if let Some(facets) = last(document.tier_from) {
            *from = facets;
        }
    }
    parts
}

fn last<T>(list: Vec<Placed<T>>) -> Option<T> {
    list.into_iter().last().map(|placed| placed.value)
}

/// What is wrong with documents beside each other.
pub(crate) fn check(documents: &[Document]) -> Report {
    let mut report = contradictions(documents);
    if !documents.iter().any(|document| document.states_plans) {
        plans::products(&mut report, documents, &plans::of(documents));
    }
    tiers_are_there(&mut report, documents);
    report
}

/// What no further document can put right.
pub(crate) fn contradictions(documents: &[Document]) -> Report {
    let mut report = Report::default();
    unique(&mut report, documents, "rule", |document| &document.rules);
    unique(&mut report, documents, "tier", |document| &document.tiers);
    unique(&mut report, documents, "plan", |document| &document.plans);
    if documents.iter().any(|document| document.states_plans) {
        plans::products(&mut report, documents, &plans::of(documents));
    }
    agreed(&mut report, documents, "default_tier", |document| &document.default_tier);
    agreed(&mut report, documents, "tier_from", |document| &document.tier_from);
    agreed(&mut report, documents, "ipv6_prefix", |document| &document.ipv6_prefix);
    members(&mut report, documents, "user", |document| &document.users);
    members(&mut report, documents, "tenant", |document| &document.tenants);
    domains::check(&mut report, documents);
    report
}

/// A place in one of the documents, to be named in a message.
pub(crate) fn spot(document: &Document, at: Place) -> String {
    format!("{}:{}:{}", document.name(), at.line, at.column)
}

fn unique<T>(
    report: &mut Report,
    documents: &[Document],
    what: &str,
    list: impl Fn(&Document) -> &Vec<Named<T>>,
) {
    let mut seen = HashMap::new();
    for document in documents {
        for named in list(document) {
            if let Some((other, at)) = seen.insert(&*named.name, (document, named.at)) {
                let message = format!(
                    "there is already a {what} {} at {}; rename one of them",
                    quoted(&named.name),
                    spot(other, at)
                );
                report.add(|| Problem::new(&document.text, named.at, message));
            }
        }
    }
}

/// A setting that holds for all documents may be stated by several only if they agree.
fn agreed<T: PartialEq>(
    report: &mut Report,
    documents: &[Document],
    key: &str,
    list: impl Fn(&Document) -> &Vec<Placed<T>>,
) {
    let mut first: Option<(&Document, &Placed<T>)> = None;
    for document in documents {
        for placed in list(document) {
            match first {
                None => first = Some((document, placed)),
                Some((_, earlier)) if earlier.value == placed.value => {}
                Some((other, earlier)) => {
                    let spot = spot(other, earlier.at);
                    let message = format!("`{key}` is different at {spot}; it holds for all rules: keep one");
                    report.add(|| Problem::new(&document.text, placed.at, message));
                }
            }
        }
    }
}

/// Reports users, or tenants, that are in two tiers.
fn members(
    report: &mut Report,
    documents: &[Document],
    what: &str,
    list: impl Fn(&Document) -> &Vec<Placed<(Box<str>, Box<str>)>>,
) {
    let mut seen: HashMap<&str, (&Document, &Placed<_>)> = HashMap::new();
    for document in documents {
        for placed in list(document) {
            let (name, tier): &(Box<str>, Box<str>) = &placed.value;
            match seen.insert(name, (document, placed)) {
                Some((other, earlier)) if earlier.value.1 != *tier => {
                    let spot = spot(other, earlier.at);
                    let message = format!("{what} {} is in another tier at {spot}; keep one", quoted(name));
                    report.add(|| Problem::new(&document.text, placed.at, message));
                }
                _ => {}
            }
        }
    }
}

/// Every tier that is named exists, as a tier or as a plan, and tiered rules have tiers.
fn tiers_are_there(report: &mut Report, documents: &[Document]) {
    // Where tiers could not be read, nobody can tell which there are.
    if documents.iter().any(|document| document.tiers_unclear) {
        return;
    }
    let known: HashMap<&str, ()> =
        documents.iter().flat_map(|document| &document.tiers).map(|named| (&*named.name, ())).collect();
    let plans = plans::of(documents);
    let is_plan = |name: &str| plans.iter().any(|plan| plan.name.eq_ignore_ascii_case(name));
    let names = || known.keys().copied().chain(plans.iter().map(|plan| &*plan.name));
    for document in documents {
        // A user or tenant may be in a plan that is no tier here, and then has the default; one that looks like a known
        // tier is a slip of the pen.
        let members = document.users.iter().chain(&document.tenants);
        let members = members.map(|placed| (placed.at, &placed.value.1));
        let members = members.filter(|(_, name)| !suggest::nearest(name, names()).is_empty());
        let defaults = document.default_tier.iter().map(|placed| (placed.at, &placed.value));
        let unknown = |name: &str| !known.contains_key(name) && !is_plan(name);
        for (at, name) in members.chain(defaults).filter(|(_, name)| unknown(name)) {
            let hint = suggest::hint(name, names(), || "; add it under `tiers` or name another".to_owned());
            let message = format!("there is no tier {}{hint}", quoted(name));
            report.add(|| Problem::new(&document.text, at, message));
        }
        for named in document.rules.iter().filter(|named| known.is_empty() && is_tiered(named)) {
            let message = format!(
                "rule {} is tiered, but there are no tiers; add some under `tiers`, or give it a limit",
                quoted(&named.name)
            );
            report.add(|| Problem::new(&document.text, named.at, message));
        }
    }
}

fn is_tiered(named: &Named<tidegate_core::Rule>) -> bool {
    named.value.as_ref().is_some_and(|rule| rule.allowance == Allowance::Tiered)
}

/// Saying nothing about rules is more likely a mistake than a wish for no limits at all.
fn rules_are_there(report: &mut Report, documents: &[Document]) {
    if let [first, ..] = documents
        && !documents.iter().any(|document| document.states_rules)
    {
        let message =
            "there are no rules; add some under `rules`, or write `rules: []` if there are to be none";
        report.add(|| Problem::new(&first.text, Place::START, message.to_owned()));
    }
}
