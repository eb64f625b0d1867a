//! The nearest known name to a misspelt one.

/// How alike two names must be for one to be meant by the other.
const ALIKE: f64 = 0.7;

/// The name among `known` that `unknown` was probably meant to be.
pub(crate) fn nearest<'n>(unknown: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let unknown = unknown.to_ascii_lowercase().replace('-', "_");
    let rated = known.map(|name| (strsim::jaro_winkler(&unknown, name), name));
    let best = rated.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(alike, _)| *alike >= ALIKE).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_understood_and_nonsense_is_not() {
        let known = ["http", "grpc", "max_keys", "token", "token_file"];
        let nearest = |unknown| nearest(unknown, known.into_iter());
        assert_eq!(nearest("htpp"), Some("http"));
        assert_eq!(nearest("max-keys"), Some("max_keys"));
        assert_eq!(nearest("Tokenfile"), Some("token_file"));
        assert_eq!(nearest("zzz"), None);
    }
}
