//! From a request to what it demands, through the public surface.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::plan::Plan;
use tidegate_core::quota::QuotaError;
use tidegate_core::rule::{Allowance, OnMissingIdentity, Override, Target};
use tidegate_core::ruleset::{Kept, MAX_STAMP, RuleSetError};
use tidegate_core::tier::{Tier, Tiers};
use tidegate_core::{
    Algorithm, Condition, Decision, Demand, Facet, Identifier, Path, Quota, Request, Rule, RuleSet,
    RuleSetParts, Secret, Span, Timestamp,
};

const NOW: Timestamp = Timestamp::from_millis(1_704_067_200_000);
const SECRET: Secret = Secret::new([7; 16]);

fn quota(limit: u64) -> Quota {
    Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(60)).unwrap()
}

fn rule(id: &str, facet: Facet, limit: u64) -> Rule {
    Rule::new(id, facet, quota(limit))
}

fn compile(rules: Vec<Rule>) -> RuleSet {
    RuleSet::new(RuleSetParts { rules, version: 3, ..RuleSetParts::default() }).unwrap()
}

fn demand<'r>(rules: &'r RuleSet, request: &Request<'_>) -> Demand<'r> {
    rules.demand(request, &Path::parse(request.path).unwrap(), &SECRET, NOW)
}

/// The limits demanded, by rule id.
fn limits<'r>(rules: &'r RuleSet, request: &Request<'_>) -> Vec<(&'r str, u64)> {
    demand(rules, request).group.iter().map(|op| (op.take.key.rule_id, op.take.quota.limit())).collect()
}

#[test]
fn all_matching_rules_apply_lower_priority_first() {
    let prioritised = |id, priority| Rule { priority, ..rule(id, Facet::Global, 1) };
    let elsewhere = Rule {
        condition: Condition { path: Some("/other".parse().unwrap()), ..Condition::default() },
        ..rule("elsewhere", Facet::Global, 1)
    };
    let rules =
        compile(vec![prioritised("last", 20), elsewhere, prioritised("first", -5), prioritised("also", 20)]);
    assert_eq!(limits(&rules, &Request::new("/")), [("first", 1), ("last", 1), ("also", 1)]);
    assert_eq!(demand(&rules, &Request::new("/")).group[0].take.quota.version(), 3);
}

/// Everything a rule set can demand carries the stamp, whatever the version is.
#[test]
fn quotas_carry_the_stamp() {
    let everybody = Override { target: Target::Everybody, quota: quota(5), until: None };
    let compile = |stamp| {
        let rules = vec![
            rule("fixed", Facet::Global, 1),
            Rule { allowance: Allowance::Tiered, ..rule("tiered", Facet::Global, 1) },
            Rule { allowance: Allowance::Planned(quota(1)), ..rule("planned", Facet::Global, 1) },
            Rule { overrides: vec![everybody.clone()], ..rule("overridden", Facet::Global, 1) },
            Rule { on_missing_identity: OnMissingIdentity::Refuse, ..rule("blocked", Facet::User, 1) },
        ];
        let tiers = Tiers { plans: plans(), ..tiers(None) };
        let parts = RuleSetParts { rules, tiers, version: 3, stamp, ..RuleSetParts::default() };
        RuleSet::new(parts).unwrap()
    };
    for (stamp, carried) in [(None, 3), (Some(1), 1), (Some(1 << 52), 1 << 52), (Some(u64::MAX), MAX_STAMP)] {
        let rules = compile(stamp);
        let versions = demand(&rules, &Request::new("/")).group.into_iter().map(|op| op.take.quota.version());
        assert_eq!(versions.collect::<Vec<_>>(), [carried; 5]);
        assert_eq!((rules.version(), rules.stamp()), (3, carried));
    }
}

#[test]
fn one_key_per_rule_and_identity() {
    let rules = compile(vec![rule("a", Facet::User, 1), rule("b", Facet::User, 1), rule("c", Facet::Ip, 1)]);
    let keys = |request: &Request<'_>| -> Vec<[u64; 2]> {
        demand(&rules, request).group.iter().map(|op| op.take.key.fingerprint()).collect()
    };
    let alice = Request { user: Some("alice"), ip: Some("192.0.2.1".parse().unwrap()), ..Request::new("/") };
    let group = demand(&rules, &alice).group;
    assert_eq!(group[0].take.key.tag, group[1].take.key.tag, "rules about one identity share its tag");
    assert_ne!(group[0].take.key.fingerprint(), group[1].take.key.fingerprint());
    assert_ne!(group[0].take.key.tag, group[2].take.key.tag);
    assert_eq!(keys(&alice), keys(&Request { method: Some("GET"), ..alice }));
    let acme = Request { tenant: Some("acme"), ..alice };
    let globex = Request { tenant: Some("globex"), ..alice };
    assert_ne!(keys(&alice)[0], keys(&acme)[0]);
    assert_ne!(keys(&acme)[0], keys(&globex)[0], "a user is counted within its tenant");
    assert_eq!(keys(&acme)[2], keys(&globex)[2]);
    let odd = Request { tenant: Some("a"), user: Some("b/c"), ..Request::new("/") };
    let other = Request { tenant: Some("a/b"), user: Some("c"), ..Request::new("/") };
    assert_ne!(keys(&odd)[0], keys(&other)[0]);
}

#[test]
fn a_missing_identity_is_handled_as_the_rule_says() {
    let ip = Some("192.0.2.1".parse().unwrap());
    let with = |on_missing_identity| compile(vec![Rule { on_missing_identity, ..rule("r", Facet::User, 5) }]);
    let tag = |rules: &RuleSet, request: &Request<'_>| demand(rules, request).group[0].take.key.tag;

    let by_ip = with(OnMissingIdentity::Ip);
    let from = |ip: &str| Request { ip: Some(ip.parse().unwrap()), ..Request::new("/") };
    assert_ne!(tag(&by_ip, &from("192.0.2.1")), tag(&by_ip, &from("192.0.2.2")));
    assert_eq!(tag(&by_ip, &from("2001:db8::1")), tag(&by_ip, &from("2001:db8::2")));
    assert_ne!(
        tag(&by_ip, &from("192.0.2.1")),
        tag(&by_ip, &Request { user: Some("192.0.2.1"), ..Request::new("/") })
    );

    let shared = with(OnMissingIdentity::Shared);
    assert_eq!(tag(&shared, &from("192.0.2.1")), tag(&shared, &from("192.0.2.2")));
    assert_eq!(
        tag(&shared, &from("192.0.2.1")),
        tag(&by_ip, &Request::new("/")),
        "no address either: shared"
    );

    let nobody = Request { ip, ..Request::new("/") };
    assert!(demand(&with(OnMissingIdentity::Skip), &nobody).group.is_empty());
    assert_eq!(limits(&with(OnMissingIdentity::Refuse), &nobody), [("r", 0)]);
    let alice = Request { user: Some("alice"), ..nobody };
    assert_eq!(limits(&with(OnMissingIdentity::Refuse), &alice), [("r", 5)]);
}

#[test]
fn overrides_replace_the_figures() {
    let soon = NOW + Span::from_secs(1);
    let entry = |identity: &[&str], limit, until| Override {
        target: match identity {
            [] => Target::Everybody,
            texts => Target::Identity(texts.iter().map(|text| Box::from(*text)).collect()),
        },
        quota: quota(limit),
        until,
    };
    let by_user = compile(vec![Rule {
        overrides: vec![
            entry(&[], 500, Some(soon)),
            entry(&["mallory"], 0, None),
            entry(&["bob"], 7, Some(NOW)),
            entry(&["acme", "carol"], 9, None),
        ],
        ..rule("u", Facet::User, 100)
    }]);
    let limit = |tenant, user, now| {
        let request = Request { user: Some(user), tenant, ..Request::new("/") };
        by_user.demand(&request, &Path::parse("/").unwrap(), &SECRET, now).group[0].take.quota.limit()
    };
    assert_eq!(limit(None, "alice", NOW), 500);
    assert_eq!(limit(None, "alice", soon), 100, "a promotion ends by itself");
    assert_eq!(limit(None, "mallory", NOW), 0, "one's own comes before everybody's");
    assert_eq!(limit(Some("acme"), "mallory", NOW), 0, "a user is meant in every tenant");
    assert_eq!(limit(None, "bob", NOW), 500, "an override that has ended is none");
    assert_eq!(limit(Some("acme"), "carol", soon), 9);
    assert_eq!(limit(Some("globex"), "carol", soon), 100);

    let by_ip = compile(vec![Rule {
        overrides: vec![entry(&["2001:db8::7"], 1, None), entry(&["192.0.2.1"], 2, None)],
        ..rule("i", Facet::Ip, 100)
    }]);
    let from =
        |ip: &str| limits(&by_ip, &Request { ip: Some(ip.parse().unwrap()), ..Request::new("/") })[0].1;
    assert_eq!(from("2001:db8::ffff"), 1, "an address is meant with its network");
    assert_eq!(from("::ffff:192.0.2.1"), 2);
    assert_eq!(from("192.0.2.2"), 100);
}

fn tiers(default: Option<&str>) -> Tiers {
    let tier = |name: &str, limit| Tier { name: name.into(), quota: quota(limit) };
    Tiers {
        list: vec![tier("premium", 1_000), tier("free", 10), tier("basic", 100)],
        plans: Vec::new(),
        default: default.map(Into::into),
        users: vec![("alice".into(), "premium".into())],
        tenants: vec![("acme".into(), "basic".into())],
        from: vec!["header:x-plan".parse().unwrap(), "attribute:plan".parse().unwrap()],
    }
}

fn tiered(default: Option<&str>) -> RuleSet {
    let rules = vec![Rule { allowance: Allowance::Tiered, ..rule("t", Facet::User, 1) }];
    RuleSet::new(RuleSetParts { rules, tiers: tiers(default), ..RuleSetParts::default() }).unwrap()
}

#[test]
fn a_tiered_rule_asks_the_tier() {
    let rules = tiered(Some("basic"));
    let limit = |request: &Request<'_>| limits(&rules, request)[0].1;
    let bob = Request { user: Some("bob"), ..Request::new("/") };
    assert_eq!(limit(&bob), 100, "the default");
    assert_eq!(limit(&Request { user: Some("alice"), ..bob }), 1_000, "known beforehand");
    assert_eq!(limit(&Request { tier: Some("free"), user: Some("alice"), ..bob }), 10, "told by the caller");
    assert_eq!(limit(&Request { tier: Some("gold"), ..bob }), 100, "told, but unknown");
    assert_eq!(limit(&Request { headers: &[("X-Plan", "free")], ..bob }), 10);
    assert_eq!(limit(&Request { attributes: &[("plan", "free")], ..bob }), 10);
    assert_eq!(
        limit(&Request { headers: &[("X-Plan", "?")], attributes: &[("plan", "premium")], ..bob }),
        1_000
    );
}

#[test]
fn without_a_default_the_least_tier_counts() {
    assert_eq!(limits(&tiered(None), &Request::new("/"))[0].1, 10);
}

fn plans() -> Vec<Plan> {
    let plan = |name: &str, times: &str| Plan { name: name.into(), multiplier: times.parse().unwrap() };
    vec![plan("PREMIUM", "3"), plan("Standard", "1.5"), plan("trial", "0.05"), plan("gone", "0")]
}

/// A rule `t` that goes by tiers and a rule `p` of 10 that goes by plans.
fn tiered_and_planned(tiers: Tiers) -> RuleSet {
    let by_user = |id, allowance| Rule { allowance, ..rule(id, Facet::User, 1) };
    let rules = vec![by_user("t", Allowance::Tiered), by_user("p", Allowance::Planned(quota(10)))];
    RuleSet::new(RuleSetParts { rules, tiers, ..RuleSetParts::default() }).unwrap()
}

#[test]
fn a_base_limit_is_multiplied_by_what_the_plan_says() {
    let planned = Rule { allowance: Allowance::Planned(quota(10)), ..rule("p", Facet::User, 1) };
    let plans = || Tiers { list: Vec::new(), plans: plans(), ..tiers(Some("standard")) };
    let compile =
        |rule, tiers| RuleSet::new(RuleSetParts { rules: vec![rule], tiers, ..RuleSetParts::default() });
    let rules = compile(planned.clone(), plans()).unwrap();
    let limit = |request: &Request<'_>| limits(&rules, request)[0].1;
    let bob = Request { user: Some("bob"), ..Request::new("/") };
    assert_eq!(limit(&bob), 15, "the default");
    assert_eq!(limit(&Request { user: Some("alice"), ..bob }), 30, "known beforehand, in another case");
    assert_eq!(limit(&Request { tier: Some("Trial"), ..bob }), 0, "less than one is nothing");
    assert_eq!(limit(&Request { tier: Some("gone"), ..bob }), 0);
    assert_eq!(limit(&Request { tier: Some("gold"), ..bob }), 15, "told, but unknown");
    assert_eq!(limit(&Request { headers: &[("X-Plan", "PREMIUM")], ..bob }), 30);
    assert_eq!(limit(&Request { attributes: &[("plan", "premium")], ..bob }), 30);
    let names: Vec<_> = rules.tiers().iter().map(|standing| &*standing.name).collect();
    assert_eq!(names, ["PREMIUM", "Standard", "trial", "gone"]);
    let name = |request: &Request<'_>| names[demand(&rules, request).tier.unwrap().get()];
    assert_eq!(name(&bob), "Standard");
    assert_eq!(name(&Request { tier: Some("premium"), ..bob }), "PREMIUM");

    let least = compile(planned.clone(), Tiers { default: None, ..plans() }).unwrap();
    assert_eq!(limits(&least, &bob)[0].1, 0, "without a default the least counts");

    let entry = Override { target: Target::Everybody, quota: quota(7), until: None };
    let overridden = Rule { overrides: vec![entry], ..planned };
    let rules = compile(overridden, plans()).unwrap();
    assert_eq!(limits(&rules, &Request { tier: Some("premium"), ..bob })[0].1, 7, "an override is absolute");
}

#[test]
fn bursts_are_multiplied_too() {
    let base = Quota::token_bucket(10, Span::from_secs(1), 25).unwrap();
    let planned = Rule { allowance: Allowance::Planned(base), ..rule("p", Facet::User, 1) };
    let tiers = Tiers { plans: plans(), ..Tiers::default() };
    let rules =
        RuleSet::new(RuleSetParts { rules: vec![planned], tiers, ..RuleSetParts::default() }).unwrap();
    let quota = demand(&rules, &Request { tier: Some("standard"), ..Request::new("/") }).group[0].take.quota;
    assert_eq!((quota.limit(), quota.capacity(), quota.algorithm()), (15, 37, Algorithm::TokenBucket));
}

/// What a name is only one of does not decide about the other.
#[test]
fn tiers_and_plans_side_by_side() {
    let both = |default| tiered_and_planned(Tiers { plans: plans(), ..tiers(default) });
    let limits = |rules: &RuleSet, tier| -> Vec<u64> {
        limits(rules, &Request { tier, ..Request::new("/") }).into_iter().map(|(_, limit)| limit).collect()
    };
    for (default, tier, expected) in [
        // No default is named: the least of each.
        (None, None, [10, 0]),
        (None, Some("premium"), [1_000, 30]),
        (None, Some("PREMIUM"), [10, 30]),
        (None, Some("basic"), [100, 0]),
        (None, Some("standard"), [10, 15]),
        // The default is both.
        (Some("premium"), None, [1_000, 30]),
        (Some("premium"), Some("basic"), [100, 30]),
        (Some("premium"), Some("STANDARD"), [1_000, 15]),
        // The default is only a tier, or only a plan.
        (Some("basic"), None, [100, 0]),
        (Some("basic"), Some("standard"), [100, 15]),
        (Some("standard"), None, [10, 15]),
        (Some("standard"), Some("basic"), [100, 15]),
    ] {
        assert_eq!(limits(&both(default), tier), expected, "{default:?} {tier:?}");
    }
    let rules = both(Some("standard"));
    let name = |tier| {
        let tier = demand(&rules, &Request { tier, ..Request::new("/") }).tier.unwrap();
        &*rules.tiers()[tier.get()].name
    };
    assert_eq!([name(None), name(Some("basic")), name(Some("Trial"))], ["Standard", "basic", "trial"]);
}

#[test]
fn a_tier_is_wanted_where_it_matters_and_nobody_names_it() {
    let rules = tiered_and_planned(Tiers { plans: plans(), ..tiers(Some("basic")) });
    let bob = Request { user: Some("bob"), ..Request::new("/") };
    assert!(rules.wants_tier(&bob));
    assert!(rules.wants_tier(&Request { tier: Some("gold"), ..bob }), "named, but unknown");
    assert!(!rules.wants_tier(&Request { tier: Some("basic"), ..bob }));
    assert!(!rules.wants_tier(&Request { tier: Some("Standard"), ..bob }));
    assert!(!rules.wants_tier(&Request { headers: &[("X-Plan", "free")], ..bob }));
    assert!(rules.wants_tier(&Request { headers: &[("X-Plan", "?")], ..bob }));
    assert!(!rules.wants_tier(&Request { user: Some("alice"), ..bob }), "known beforehand");
    assert!(!rules.wants_tier(&Request::new("/")), "nobody to ask about");
    assert!(!rules.wants_tier(&Request { user: Some(""), ..bob }));
    let parts = RuleSetParts {
        rules: vec![rule("f", Facet::User, 1)],
        tiers: tiers(None),
        ..RuleSetParts::default()
    };
    assert!(!RuleSet::new(parts).unwrap().wants_tier(&bob), "no rule asks for it");
}

/// Rules by tenant, by tenant and path, and by user, and what each allows a request.
fn by_tenant_and_user(request: &Request<'_>) -> [u64; 3] {
    let tiered = |id, facets: &[Facet]| {
        let identifier = Identifier::new(facets.to_vec()).unwrap();
        Rule { allowance: Allowance::Tiered, identifier, ..rule(id, Facet::User, 1) }
    };
    let rules = vec![
        tiered("a", &[Facet::Tenant]),
        tiered("b", &[Facet::Path, Facet::Tenant]),
        tiered("c", &[Facet::User]),
    ];
    let parts = RuleSetParts { rules, tiers: tiers(Some("free")), ..RuleSetParts::default() };
    let rules = RuleSet::new(parts).unwrap();
    let limits = limits(&rules, request);
    [0, 1, 2].map(|rule| limits[rule].1)
}

#[test]
fn a_tenant_has_one_limit_whichever_user_asks() {
    let acme = Request { tenant: Some("acme"), ..Request::new("/") };
    assert_eq!(by_tenant_and_user(&acme), [100, 100, 100]);
    // A user without a tier has that of the tenant.
    assert_eq!(by_tenant_and_user(&Request { user: Some("bob"), ..acme }), [100, 100, 100]);
    assert_eq!(by_tenant_and_user(&Request { user: Some("alice"), ..acme }), [100, 100, 1_000]);
    assert_eq!(
        by_tenant_and_user(&Request { user: Some("bob"), tier: Some("free"), ..acme }),
        [100, 100, 10]
    );
    // What the caller says of the tenant comes before the list.
    let told = Request { plan: Some("premium"), user: Some("bob"), ..acme };
    assert_eq!(by_tenant_and_user(&told), [1_000, 1_000, 1_000]);
    assert_eq!(by_tenant_and_user(&Request { plan: Some("gold"), ..told }), [100, 100, 100], "unknown");
    // Without a user, the tier is the tenant's.
    assert_eq!(by_tenant_and_user(&Request { tier: Some("premium"), ..acme }), [1_000, 1_000, 1_000]);
}

#[test]
fn an_unknown_tenant_has_the_default() {
    let zed = Request { tenant: Some("zed"), ..Request::new("/") };
    assert_eq!(by_tenant_and_user(&zed), [10, 10, 10]);
    assert_eq!(by_tenant_and_user(&Request { user: Some("alice"), ..zed }), [10, 10, 1_000]);
    // Without a tenant, those rules count by something else, and by what is known of the user.
    let alice = Request { user: Some("alice"), plan: Some("basic"), ..Request::new("/") };
    assert_eq!(by_tenant_and_user(&alice), [1_000, 1_000, 1_000]);
}

#[test]
fn a_plan_is_wanted_where_it_matters_and_is_not_known() {
    let by_user = tiered(Some("basic"));
    let tiered = Rule { allowance: Allowance::Tiered, ..rule("t", Facet::Tenant, 1) };
    let parts = RuleSetParts { rules: vec![tiered], tiers: tiers(None), ..RuleSetParts::default() };
    let by_tenant = RuleSet::new(parts).unwrap();
    let bob = Request { tenant: Some("zed"), user: Some("bob"), ..Request::new("/") };
    let alice = Request { user: Some("alice"), ..bob };
    let wants = |request: &Request<'_>| [by_user.wants_plan(request), by_tenant.wants_plan(request)];
    assert_eq!(wants(&bob), [true, true]);
    assert_eq!(wants(&alice), [false, true], "the user's tier decides by user");
    assert_eq!(wants(&Request { plan: Some("gold"), ..alice }), [false, true], "stated, but unknown");
    assert_eq!(wants(&Request { plan: Some("basic"), ..bob }), [false, false]);
    assert_eq!(wants(&Request { tenant: Some("acme"), ..bob }), [false, false], "listed");
    assert_eq!(wants(&Request { tenant: None, ..bob }), [false, false]);
    assert_eq!(wants(&Request { tenant: Some(""), ..bob }), [false, false]);
}

#[test]
fn what_does_not_compile() {
    let error = |parts| RuleSet::new(parts).unwrap_err();
    let twice = vec![rule("a", Facet::User, 1), rule("a", Facet::Ip, 1)];
    assert_eq!(
        error(RuleSetParts { rules: twice, ..RuleSetParts::default() }),
        RuleSetError::DuplicateRule("a".into())
    );
    let tiered = vec![Rule { allowance: Allowance::Tiered, ..rule("t", Facet::User, 1) }];
    assert_eq!(
        error(RuleSetParts { rules: tiered, ..RuleSetParts::default() }),
        RuleSetError::NoTiers("t".into())
    );
    let planned = vec![Rule { allowance: Allowance::Planned(quota(1 << 52)), ..rule("p", Facet::User, 1) }];
    let parts = |tiers| RuleSetParts { rules: planned.clone(), tiers, ..RuleSetParts::default() };
    assert_eq!(error(parts(tiers(None))), RuleSetError::NoPlans("p".into()));
    let product = error(parts(Tiers { plans: plans(), ..tiers(None) }));
    assert!(matches!(
        product,
        RuleSetError::Product { rule, plan, error: QuotaError::Units { .. } } if &*rule == "p" && &*plan == "PREMIUM"
    ));
    let unknown = RuleSetParts { tiers: tiers(Some("gold")), ..RuleSetParts::default() };
    assert_eq!(error(unknown), RuleSetError::UnknownTier("gold".into()));
}

/// Counts decisions.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Kept for Counter {
    fn note(&self, decision: &Decision, rules: &RuleSet) {
        assert_eq!(rules.len(), 1);
        self.0.fetch_add(decision.cost, Ordering::Relaxed);
    }
}

#[test]
fn rules_keep_the_first_thing_they_are_given_and_show_it_decisions() {
    let rules = compile(vec![rule("a", Facet::User, 1)]);
    let note = |cost| rules.note(&Decision::new(None, cost, NOW));
    note(1);
    assert!(rules.kept::<Counter>().is_none());
    let (first, second) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    rules.keep(first.clone());
    rules.keep(second.clone());
    note(7);
    assert_eq!([&first, &second].map(|counter| counter.0.load(Ordering::Relaxed)), [7, 0]);
    assert!(rules.kept::<Counter>().is_some() && rules.kept::<u64>().is_none());
}
