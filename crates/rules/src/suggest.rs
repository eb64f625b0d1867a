//! The known name somebody probably meant.

/// Longer names are no slips of the pen, and comparing them costs.
const MAX_CHARS: usize = 64;

/// The known names that are near enough to `written` to be worth saying: the nearest one, or all it may be short for.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if written.is_empty() || written.len() > MAX_CHARS {
        return Vec::new();
    }
    let written = plain(written);
    let mut best = None;
    let mut longer = Vec::new();
    for name in known {
        let known = plain(name);
        let edits = strsim::damerau_levenshtein(&written, &known);
        if edits * 4 <= known.chars().count().max(4) && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, name));
        }
        if is_part(&known, &written) || is_part(&written, &known) {
            longer.push((edits, name));
        }
    }
    if let Some((_, name)) = best {
        return vec![name];
    }
    let least = longer.iter().map(|(edits, _)| *edits).min().unwrap_or_default();
    longer.into_iter().filter(|(edits, _)| *edits <= 2 * least).map(|(_, name)| name).collect()
}

/// Case and the way words are joined are never what tells two names apart.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// `ip` is part of `ip_address`, `limit` of `requests_limit`.
fn is_part(whole: &str, part: &str) -> bool {
    part.len() > 1 && (whole.starts_with(part) || whole.ends_with(part))
}

/// `, did you mean ...?`, or `otherwise` where nothing is near.
pub(crate) fn hint<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    match nearest(written, known) {
        names if names.is_empty() => otherwise(),
        names => format!(", did you mean {}?", choice(names)),
    }
}

/// `a`, `b` or `c`.
pub(crate) fn choice<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood() {
        let keys = ["rule_id", "limit", "window", "window_size_seconds", "burst", "identifier_type", "match"];
        for (written, meant) in [
            ("limt", vec!["limit"]),
            ("Limit", vec!["limit"]),
            ("id", vec!["rule_id"]),
            ("ruleId", vec!["rule_id"]),
            ("windw", vec!["window"]),
            ("window-size-seconds", vec!["window_size_seconds"]),
            ("window_seconds", vec!["window_size_seconds"]),
            ("identifier", vec!["identifier_type"]),
            ("colour", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(nearest(written, keys), meant, "{written}");
        }
        assert_eq!(nearest("sliding", ["sliding_window", "sliding_log"]), ["sliding_window", "sliding_log"]);
        assert!(nearest(&"x".repeat(10_000), keys).is_empty());
    }
}
