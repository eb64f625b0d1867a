//! A rule as a rule document writes it.

use std::ops::RangeInclusive;

use serde_json::Value;
use tidegate_core::descriptor::{DescriptorMatch, EntryPattern};
use tidegate_core::rule::{Allowance, OnLimit, OnMissingIdentity, OnStoreFailure, Override, Target, Wanted};
use tidegate_core::{Algorithm, Charge, Condition, Cost, Quota, Rule, Span, Timestamp};

use crate::condition::ANY_VALUE;
use crate::figures::is_in_flight;
use crate::form::{self, OneOrMany, Table};
use crate::names::{self, name_of};

/// A rule in the form of a rule document, for people and programs to read; reading it gives the same rule.
pub fn to_json(rule: &Rule) -> Value {
    without_null(serde_json::to_value(form(rule)).unwrap_or_default())
}

/// A rule in the form of a rule document, with all that it says.
pub(crate) fn form(rule: &Rule) -> form::Rule {
    let about_requests = rule.descriptor.is_none();
    let quota = match rule.allowance {
        Allowance::Fixed(quota) | Allowance::Planned(quota) => Some(quota),
        Allowance::Tiered | Allowance::Unlimited => None,
    };
    let planned = matches!(rule.allowance, Allowance::Planned(_));
    form::Rule {
        rule_id: rule.id.to_string(),
        description: rule.description.as_deref().map(str::to_owned),
        descriptor: rule.descriptor.as_deref().map(descriptor),
        identifier_type: about_requests.then(|| {
            one_or_many(
                rule.identifier.facets().iter().map(|facet| form::Counted(facet.to_string())).collect(),
            )
        }),
        on_missing_identity: about_requests.then(|| on_missing_identity(rule.on_missing_identity)),
        algorithm: quota.map(|quota| form::Algorithm(quota.algorithm().name())),
        limit: quota.filter(|_| !planned).map(|quota| quota.limit()),
        base_limit: quota.filter(|_| planned).map(|quota| quota.limit()),
        window: quota.and_then(|quota| window(&quota)),
        window_size_seconds: None,
        hold_for: quota.and_then(|quota| hold_for(&quota)),
        burst: quota.and_then(|quota| burst(&quota)),
        tiered: (rule.allowance == Allowance::Tiered).then_some(true),
        unlimited: (rule.allowance == Allowance::Unlimited).then_some(true),
        cost: cost(&rule.cost),
        charge: rule.charge.as_deref().map(charge),
        on_limit: delay(rule.on_limit).map(|_| form::OnLimit(name_of(&names::ON_LIMIT, &true))),
        max_delay: delay(rule.on_limit).map(|longest| form::Duration(longest.to_string())),
        priority: Some(rule.priority),
        r#match: condition(&rule.condition),
        shadow: rule.shadow.then_some(true),
        overrides: (!rule.overrides.is_empty()).then(|| rule.overrides.iter().map(r#override).collect()),
        on_store_failure: Some(on_store_failure(rule.on_store_failure)),
    }
}

pub(crate) fn on_missing_identity(value: OnMissingIdentity) -> form::OnMissingIdentity {
    form::OnMissingIdentity(name_of(&names::ON_MISSING_IDENTITY, &value))
}

pub(crate) fn on_store_failure(value: OnStoreFailure) -> form::OnStoreFailure {
    form::OnStoreFailure(name_of(&names::ON_STORE_FAILURE, &value))
}

/// Figures as a tier states them.
pub(crate) fn figures(quota: &Quota) -> form::Figures {
    form::Figures {
        limit: quota.limit(),
        window: window(quota),
        window_size_seconds: None,
        hold_for: hold_for(quota),
        burst: burst(quota),
        algorithm: Some(form::Algorithm(quota.algorithm().name())),
    }
}

fn descriptor(about: &DescriptorMatch) -> form::Descriptor {
    let written = |text: &str| form::Written(text.to_owned());
    let entry = |entry: &EntryPattern| form::Entry {
        key: written(&entry.key),
        value: entry.value.text().map(written),
        share_threshold: entry.shared.then_some(true),
        value_to_metric: entry.in_metric.then_some(true),
    };
    form::Descriptor {
        domain: written(&about.domain),
        entries: about.entries.iter().map(entry).collect(),
        name: about.name.as_deref().map(written),
        replaces: (!about.replaces.is_empty())
            .then(|| OneOrMany::Many(about.replaces.iter().map(|name| written(name)).collect())),
        quota_mode: about.quota_mode.then_some(true),
        charge_refused: about.charge_refused.then_some(true),
        detailed_metric: about.detailed_metric.then_some(true),
    }
}

/// What a request costs, unless that is one.
fn cost(cost: &Cost) -> Option<form::Cost> {
    match cost {
        Cost::Fixed(1) => None,
        Cost::Fixed(cost) => Some(form::Cost::Fixed(*cost)),
        Cost::Header { name, otherwise, most } => Some(form::Cost::Said(form::CostSaid {
            header: Some(name.to_string()),
            default: Some(*otherwise),
            body: None,
            max: Some(*most),
        })),
        Cost::Body { unit, most } => Some(form::Cost::Said(form::CostSaid {
            header: None,
            default: None,
            body: Some(*unit),
            max: Some(*most),
        })),
    }
}

fn charge(charge: &Charge) -> form::Charge {
    form::Charge {
        header: charge.header.as_deref().map(str::to_owned),
        statuses: (!charge.statuses.is_empty())
            .then(|| one_or_many(charge.statuses.iter().map(status).collect())),
        within: Some(form::Duration(charge.within.to_string())),
    }
}

fn status(range: &RangeInclusive<u16>) -> form::Status {
    match (*range.start(), *range.end()) {
        (first, last) if first == last => form::Status::One(first),
        (first, last) if first % 100 == 0 && last == first + 99 => {
            form::Status::Many(format!("{}xx", first / 100))
        }
        (first, last) => form::Status::Many(format!("{first}-{last}")),
    }
}

fn delay(on_limit: OnLimit) -> Option<Span> {
    match on_limit {
        OnLimit::Refuse => None,
        OnLimit::Delay { longest } => Some(longest),
    }
}

/// Leaves out what is not said.
fn without_null(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_null(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_null).collect(),
        other => other,
    }
}

pub(crate) fn one_or_many<T>(mut texts: Vec<T>) -> OneOrMany<T> {
    match texts.pop() {
        Some(only) if texts.is_empty() => OneOrMany::One(only),
        last => {
            texts.extend(last);
            OneOrMany::Many(texts)
        }
    }
}

fn window(quota: &Quota) -> Option<form::Duration> {
    (!is_in_flight(quota.algorithm())).then(|| form::Duration(quota.window().to_string()))
}

fn hold_for(quota: &Quota) -> Option<form::Duration> {
    is_in_flight(quota.algorithm()).then(|| form::Duration(quota.window().to_string()))
}

fn burst(quota: &Quota) -> Option<u64> {
    let capacity = quota.capacity();
    (quota.algorithm() == Algorithm::TokenBucket && capacity != quota.limit()).then_some(capacity)
}

fn condition(condition: &Condition) -> Option<form::Match> {
    let some = |texts: Vec<String>| (!texts.is_empty()).then(|| one_or_many(texts));
    let form = form::Match {
        path_pattern: condition.path.as_ref().map(ToString::to_string),
        methods: (!condition.methods.is_empty())
            .then(|| OneOrMany::Many(condition.methods.iter().map(ToString::to_string).collect())),
        requires_authentication: condition.requires_authentication.then_some(true),
        required_headers: wanted(&condition.headers),
        required_attributes: wanted(&condition.attributes),
        ip_subnet: some(condition.subnets.iter().map(ToString::to_string).collect()),
    };
    let says_something = condition.path.is_some()
        || form.methods.is_some()
        || condition.requires_authentication
        || form.required_headers.is_some()
        || form.required_attributes.is_some()
        || form.ip_subnet.is_some();
    says_something.then_some(form)
}

fn wanted(list: &[(Box<str>, Wanted)]) -> Option<Table<String>> {
    let value = |wanted: &Wanted| match wanted {
        Wanted::Value(text) => text.to_string(),
        Wanted::Present => ANY_VALUE.to_owned(),
    };
    let pairs = || list.iter().map(|(name, wanted)| (name.to_string(), value(wanted)));
    (!list.is_empty()).then(|| Table(pairs().collect()))
}

/// A pattern that means the same; the names its author gave to segments are not kept.
fn r#override(entry: &Override) -> form::Override {
    form::Override {
        identity: match &entry.target {
            Target::Everybody => None,
            Target::Identity(texts) => Some(one_or_many(texts.iter().map(ToString::to_string).collect())),
        },
        limit: entry.quota.limit(),
        window: window(&entry.quota),
        window_size_seconds: None,
        hold_for: hold_for(&entry.quota),
        burst: burst(&entry.quota),
        algorithm: Some(form::Algorithm(entry.quota.algorithm().name())),
        until: entry.until.and_then(moment),
    }
}

/// RFC 3339; what lies beyond the year 9999 never comes.
pub(crate) fn moment(at: Timestamp) -> Option<form::Moment> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(at.as_millis()).ok()?).ok()?;
    Some(form::Moment(at.to_string()))
}
