//! Domains: how they are served, and that no two rules are about the same descriptors.

use std::collections::HashMap;

use tidegate_core::descriptor::DomainTerms;

use crate::compile::spot;
use crate::document::Document;
use crate::fields::Fields;
use crate::problem::{Problem, Report, quoted};
use crate::reader::Reader;
use crate::text::{Place, Placed};

/// A domain as a document names it.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) at: Place,
    pub(crate) name: Box<str>,
    pub(crate) charge_refused: Option<Placed<bool>>,
    /// Whether all its descriptors are there too, as in the files of Envoy's rate limit service.
    pub(crate) described: bool,
}

impl Domain {
    pub(crate) fn terms(self) -> DomainTerms {
        let charge_refused = self.charge_refused.is_some_and(|stated| stated.value);
        DomainTerms { name: self.name, charge_refused }
    }
}

/// Whether refused requests are charged, if `fields` say so.
pub(crate) fn charge_refused(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Placed<bool>> {
    let at = fields.get("charge_refused")?.at;
    fields.flag(reader, "charge_refused").map(|value| Placed { at, value })
}

/// What documents say about domains must not contradict itself.
pub(crate) fn check(report: &mut Report, documents: &[Document]) {
    described_once(report, documents);
    agreed(report, documents);
    no_descriptors_twice(report, documents);
}

fn all(documents: &[Document]) -> impl Iterator<Item = (&Document, &Domain)> {
    documents.iter().flat_map(|document| document.domains.iter().map(move |domain| (document, domain)))
}

fn described_once(report: &mut Report, documents: &[Document]) {
    let mut seen = HashMap::new();
    for (document, domain) in all(documents).filter(|(_, domain)| domain.described) {
        if let Some((other, at)) = seen.insert(&*domain.name, (document, domain.at)) {
            let message = format!(
                "domain {} is already described at {}; put all its descriptors there, or rename one of the two",
                quoted(&domain.name),
                spot(other, at)
            );
            report.add(|| Problem::new(&document.text, domain.at, message));
        }
    }
}

fn agreed(report: &mut Report, documents: &[Document]) {
    let mut seen: HashMap<&str, (&Document, &Placed<bool>)> = HashMap::new();
    for (document, domain) in all(documents) {
        let Some(stated) = &domain.charge_refused else { continue };
        let (other, first) = seen.entry(&domain.name).or_insert((document, stated));
        if first.value != stated.value {
            let spot = spot(other, first.at);
            let message = format!("`charge_refused` of this domain is different at {spot}; keep one");
            report.add(|| Problem::new(&document.text, stated.at, message));
        }
    }
}

fn no_descriptors_twice(report: &mut Report, documents: &[Document]) {
    let mut seen = HashMap::new();
    for document in documents {
        for named in &document.rules {
            let Some(about) = named.value.as_ref().and_then(|rule| rule.descriptor.as_ref()) else {
                continue;
            };
            let path: Vec<_> = about.entries.iter().map(|entry| (&*entry.key, &entry.value)).collect();
            if let Some((other, at)) = seen.insert((&*about.domain, path), (document, named.at)) {
                let message = format!(
                    "rule {} is about the same descriptors as the rule at {}; remove one of them",
                    quoted(&named.name),
                    spot(other, at)
                );
                report.add(|| Problem::new(&document.text, named.at, message));
            }
        }
    }
}
