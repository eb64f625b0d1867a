//! The client's address, behind proxies that are trusted.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use tidegate_server::forwarded::{TrustedProxies, address};

pub(crate) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client of a trusted proxy: by `X-Forwarded-For`, or by `Forwarded` (RFC 7239) if there is none.
pub(super) fn client(trusted: &TrustedProxies, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    if headers.contains_key(FORWARDED_FOR) {
        trusted.client(peer, headers)
    } else {
        client_by_forwarded(trusted, peer, headers)
    }
}

/// The client of a trusted proxy by `Forwarded`.
pub(crate) fn client_by_forwarded(trusted: &TrustedProxies, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let lines = headers.get_all(FORWARDED).iter().rev();
    let elements = lines.flat_map(|line| unquoted(line.as_bytes(), b','));
    trusted.last_untrusted(peer, elements.map(sender))
}

/// The address in one element; `None` if there is not exactly one.
fn sender(element: &[u8]) -> Option<IpAddr> {
    let mut senders = unquoted(element, b';').filter_map(|pair| {
        let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value.trim())
    });
    let (Some(only), None) = (senders.next(), senders.next()) else { return None };
    let bare = only.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(only);
    address(bare)
}

/// The parts of `text` between separators that are not in quotes, the last first.
///
/// It is read backwards because the end is what a trusted proxy wrote: a quote that the client left open stays on the
/// client's side.
fn unquoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut quoted = false;
        for (index, byte) in text.iter().enumerate().rev() {
            if *byte == b'"' && !is_escaped(&text[..index]) {
                quoted = !quoted;
            } else if *byte == separator && !quoted {
                rest = Some(&text[..index]);
                return Some(&text[index + 1..]);
            }
        }
        rest = None;
        Some(text)
    })
}

/// Whether what comes after `before` has a backslash of its own.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn found(lines: &[(HeaderName, &str)]) -> String {
        let lines: Vec<(HeaderName, &[u8])> =
            lines.iter().map(|(name, value)| (name.clone(), value.as_bytes())).collect();
        found_in(&lines)
    }

    fn found_in(lines: &[(HeaderName, &[u8])]) -> String {
        let networks = ["127.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"];
        let trusted = TrustedProxies::new(networks.iter().map(|network| network.parse().unwrap()).collect());
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        client(&trusted, "127.0.0.1".parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn forwarded_is_read_from_its_end() {
        for (lines, client) in [
            (&["for=203.0.113.7"][..], "203.0.113.7"),
            (&["For=203.0.113.7;proto=https;by=10.0.0.1"], "203.0.113.7"),
            (&["for=1.1.1.1, proto=http; for=203.0.113.7 ,for=10.0.0.2"], "203.0.113.7"),
            (&["for=1.1.1.1, for=203.0.113.7", "for=10.0.0.2"], "203.0.113.7"),
            (&["for=\"[2001:db9::7]:5123\", for=\"[2001:db8::1]\""], "2001:db9::7"),
            (&["for=\"203.0.113.7:80\""], "203.0.113.7"),
            (&["for=10.0.0.1, for=10.0.0.2"], "10.0.0.1"),
            (&["for=203.0.113.7, for=unknown, for=10.0.0.2"], "10.0.0.2"),
            (&["for=_hidden"], "127.0.0.1"),
            (&["proto=https"], "127.0.0.1"),
            (&[""], "127.0.0.1"),
            (&["for=1.1.1.1;for=203.0.113.7"], "127.0.0.1"),
            // A quote left open by the client.
            (&["for=\"1.1.1.1, for=203.0.113.7"], "203.0.113.7"),
            (&["for=\"1.1.1.1", "for=203.0.113.7;host=\"a\""], "203.0.113.7"),
            // What only looks like an element, in a host the client chose.
            (&["for=203.0.113.7;host=\"x, for=1.1.1.1\""], "203.0.113.7"),
            (&["for=203.0.113.7;host=\"x;for=1.1.1.1\""], "203.0.113.7"),
            (&["for=203.0.113.7;host=\"x\\\", for=1.1.1.1\""], "203.0.113.7"),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| (FORWARDED, *line)).collect();
            assert_eq!(found(&headers), client, "{lines:?}");
        }
    }

    #[test]
    fn x_forwarded_for_goes_first() {
        let both = [(FORWARDED, "for=1.1.1.1"), (FORWARDED_FOR, "203.0.113.7")];
        assert_eq!(found(&both), "203.0.113.7");
        assert_eq!(found(&[(FORWARDED, "for=1.1.1.1"), (FORWARDED_FOR, "unknown")]), "127.0.0.1");
    }

    /// What a client may put into a header; characters that mean something are likely.
    fn made_up() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => prop::sample::select(&b"\",;=\\ for:[]1."[..]),
            1 => (0x20_u8..=0xff).prop_filter("no header has it", |byte| *byte != 0x7f),
        ];
        vec(byte, 0..40)
    }

    proptest! {
        #[test]
        fn nothing_hides_what_a_trusted_proxy_wrote(client in made_up(), own_line in any::<bool>()) {
            let cases = [
                (FORWARDED_FOR, &b"203.0.113.7"[..]),
                (FORWARDED, b"for=203.0.113.7"),
                (FORWARDED, b"for=\"203.0.113.7:80\";host=\"a\\\",b\";proto=http"),
            ];
            for (name, written) in cases {
                let joined = [&client, &b", "[..], written].concat();
                let apart = [(name.clone(), &client[..]), (name.clone(), written)];
                let lines = if own_line { &apart[..] } else { &[(name, &joined[..])] };
                prop_assert_eq!(found_in(lines), "203.0.113.7");
            }
        }
    }
}
