//! Keeping names and passwords in URLs from being shown.

/// The text with whoever stands before the host of an URL left out. An URL that cannot be read is shown in complaints, and
/// what is wrong with it is often a character in its password.
pub(crate) fn hide_logins(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let url =
            after.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '`' | '"')).next().unwrap_or("");
        match url.rfind('@') {
            Some(at) => {
                shown.push('\u{2026}');
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_host_is_left_out() {
        for (text, shown) in [
            ("no URL at all, a@b", "no URL at all, a@b"),
            ("invalid value 'etcd://ann:se/cret@h:1' for", "invalid value 'etcd://\u{2026}@h:1' for"),
            ("`redis://:p@ss@h` and `etcd://h/x`", "`redis://\u{2026}@h` and `etcd://h/x`"),
            ("write it as redis://h:1, not x@y", "write it as redis://h:1, not x@y"),
            ("postgres://", "postgres://"),
        ] {
            assert_eq!(hide_logins(text), shown);
        }
    }
}
