//! Plans: what base limits are multiplied by.

use std::collections::HashMap;

use tidegate_core::plan::{Multiplier, Plan};
use tidegate_core::rule::Allowance;

use crate::document::{Document, Named};
use crate::node::{Kind, Node};
use crate::problem::{Problem, Report, quoted};
use crate::reader::Reader;

/// The plans where base limits are used and no document states any; the least is the default.
const USUAL: [(&str, u16); 3] = [("PREMIUM", 3), ("STANDARD", 2), ("FREE", 1)];

impl Document {
    pub(crate) fn read_plans(&mut self, reader: &mut Reader<'_>, node: &Node<'_>) {
        let entries = reader.map("plans", node, "{ premium: 3, standard: 2, free: 1 }");
        self.tiers_unclear |= entries.is_none();
        self.states_plans = true;
        for entry in entries.unwrap_or_default() {
            let name = &*entry.key.value;
            if !reader.is_name("a plan's name", name, entry.key.at) {
                continue;
            }
            let value = multiplier(reader, name, &entry.value)
                .map(|multiplier| Plan { name: name.into(), multiplier });
            // In lower case, because names of plans are the same in any.
            self.plans.push(Named { at: entry.key.at, name: name.to_ascii_lowercase().into(), value });
        }
        if entries.is_some_and(<[_]>::is_empty) {
            reader.problem(node.at, "`plans` is empty; name at least one or remove the key");
        }
    }
}

fn multiplier(reader: &mut Reader<'_>, name: &str, node: &Node<'_>) -> Option<Multiplier> {
    let fix = match &node.kind {
        Kind::Number(number) => match number.parse() {
            Ok(multiplier) => return Some(multiplier),
            Err(error) => Some(format!("{error}")),
        },
        Kind::Text(text) if text.parse::<Multiplier>().is_ok() => Some("write it without quotes".to_owned()),
        Kind::Map(_) => Some("limits go under `tiers`; here, say how many times a `base_limit`".to_owned()),
        _ => None,
    };
    reader.expected(&format!("plan {}", quoted(name)), "a multiplier, 0 or more", node, fix);
    None
}

/// The plans of documents together: those they state or, where base limits are used without any, the usual ones.
pub(crate) fn of(documents: &[Document]) -> Vec<Plan> {
    let stated = || documents.iter().flat_map(|document| &document.plans);
    if documents.iter().any(|document| document.states_plans) {
        return stated().filter_map(|named| named.value.clone()).collect();
    }
    let used = documents.iter().flat_map(Document::rules).any(is_planned);
    if used { usual() } else { Vec::new() }
}

fn usual() -> Vec<Plan> {
    USUAL
        .iter()
        .map(|&(name, times)| Plan { name: name.into(), multiplier: Multiplier::whole(times) })
        .collect()
}

fn is_planned(rule: &tidegate_core::Rule) -> bool {
    matches!(rule.allowance, Allowance::Planned(_))
}

/// The most limits that base limits and plans may make together: each takes memory, however short the document is.
const MAX_PRODUCTS: usize = 1_000_000;

/// Reports more limits than [`MAX_PRODUCTS`]; returns whether there are as many.
fn are_too_many(report: &mut Report, documents: &[Document], plans: &[Plan]) -> bool {
    let limits = documents.iter().flat_map(Document::rules).filter(|rule| is_planned(rule)).count();
    let first = documents.iter().find_map(|document| Some((document, document.base_limits.first()?.1)));
    let Some((document, at)) = first.filter(|_| limits.saturating_mul(plans.len()) > MAX_PRODUCTS) else {
        return false;
    };
    let message = format!(
        "{limits} rules with a `base_limit` times {} plans are more than {MAX_PRODUCTS} limits; use fewer plans, or tiers",
        plans.len()
    );
    report.add(|| Problem::new(&document.text, at, message));
    true
}

/// Every base limit times every plan is a limit. Where no plans are stated, another document may yet do so, or nobody
/// does and the usual ones count.
pub(crate) fn products(report: &mut Report, documents: &[Document], plans: &[Plan]) {
    if are_too_many(report, documents, plans) {
        return;
    }
    for document in documents {
        let places: HashMap<&str, _> = document.base_limits.iter().map(|(id, at)| (&**id, *at)).collect();
        for rule in document.rules() {
            let Allowance::Planned(base) = rule.allowance else { continue };
            let products = plans.iter().map(|plan| (plan, base.times(plan.multiplier)));
            for (plan, error) in products.filter_map(|(plan, product)| Some((plan, product.err()?))) {
                let Some(at) = places.get(&*rule.id) else { continue };
                let message = format!(
                    "`base_limit` {} times {} in plan {}: {error}",
                    base.limit(),
                    plan.multiplier,
                    quoted(&plan.name)
                );
                report.add(|| Problem::new(&document.text, *at, message));
            }
        }
    }
}
