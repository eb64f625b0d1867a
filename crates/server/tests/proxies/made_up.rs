//! What clients say about themselves that is not theirs to say.

/// Headers by which somebody would be another, be somewhere else, or ask for something else.
const CLAIMS: [(&str, &str); 11] = [
    ("X-User-Id", "mallory"),
    ("X-Tenant-Id", "mallory"),
    ("X-Api-Key", "mallory"),
    ("X-Tier", "premium"),
    ("X-Plan", "premium"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-Method", "MALLORY"),
    ("X-Forwarded-Uri", "/mallory"),
    ("X-Original-Method", "MALLORY"),
    ("X-Original-URI", "/mallory"),
    ("Forwarded", "for=203.0.113.9"),
];

/// What all the values have in them, one or the other.
pub(crate) const VALUES: [&str; 4] = ["mallory", "MALLORY", "premium", "203.0.113.9"];

/// One claim in each spelling, each claim twice, all claims at once in each spelling, and all of them as headers that
/// a proxy is told to drop, which must not make it drop its own.
pub(crate) fn claims() -> Vec<Vec<(String, String)>> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let mut all: Vec<Vec<(String, String)>> = Vec::new();
    for spell in SPELLINGS {
        let spelled = CLAIMS.map(|(name, value)| (spell(name), value.to_owned()));
        all.extend(spelled.iter().map(|claim| vec![claim.clone()]));
        all.push(spelled.into());
    }
    all.extend(CLAIMS.map(|claim| vec![owned(claim), owned(claim)]));
    all.extend(CLAIMS.map(|(name, value)| vec![owned((name, "")), owned((name, value))]));
    let names: Vec<&str> = CLAIMS.iter().map(|(name, _)| *name).collect();
    let dropped = ("Connection".to_owned(), format!("close, {}", names.join(", ")));
    all.push(vec![dropped.clone()]);
    all.push(vec![dropped.clone(), owned(("Connection", "Upgrade")), owned(("Upgrade", "example"))]);
    all.push(CLAIMS.map(owned).into_iter().chain([dropped]).collect());
    all
}

type Spell = fn(&str) -> String;

const SPELLINGS: [Spell; 6] = [
    str::to_owned,
    |name| name.to_ascii_lowercase(),
    |name| name.to_ascii_uppercase(),
    |name| name.replace('-', "_"),
    |name| name.replace('-', "_").to_ascii_lowercase(),
    |name| name.replacen('-', "_", 1),
];
