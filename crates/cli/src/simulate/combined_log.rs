//! A recorded request as a line of an access log in combined format, as Apache and nginx write it:
//!
//! ```text
//! 203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /orders/7 HTTP/1.1" 200 2326 "https://…" "Mozilla/5.0"
//! ```
//!
//! Everything after the request may be missing, which is the common format.

use std::borrow::Cow;
use std::net::IpAddr;

use tidegate_core::{Fields, Request, Timestamp};

use super::log_text::{quoted, text, time};

/// What a log line says about a request.
#[derive(Debug)]
pub(crate) struct Logged<'a> {
    ip: Option<IpAddr>,
    user: Option<Cow<'a, str>>,
    method: &'a str,
    path: Cow<'a, str>,
    headers: Headers<'a>,
}

/// The headers that are in the log.
#[derive(Debug, Default)]
struct Headers<'a> {
    referer: Option<Cow<'a, str>>,
    user_agent: Option<Cow<'a, str>>,
}

impl Logged<'_> {
    /// The request to decide.
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            ip: self.ip,
            user: self.user.as_deref(),
            method: Some(self.method),
            headers: &self.headers,
            ..Request::new(&self.path)
        }
    }
}

impl Fields for Headers<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        let known = [("referer", &self.referer), ("user-agent", &self.user_agent)];
        known
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .and_then(|(_, value)| value.as_deref())
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        for name in ["referer", "user-agent"] {
            if let Some(value) = self.value(name) {
                visit(name, value);
            }
        }
    }
}

/// Reads a line; what is wrong with it is said in words.
pub(crate) fn parse(line: &[u8]) -> Result<(Timestamp, Logged<'_>), String> {
    // Quotes are escaped everywhere in the log, so that nobody can write this into a name.
    let end =
        find(line, b"] \"").ok_or("it is neither JSON nor a line of an access log in combined format")?;
    let start = line[..end].iter().rposition(|b| *b == b'[').ok_or("it has no `[time]`")?;
    let at = time(&line[start + 1..end])?;
    let (ip, user) = client(line[..start].trim_ascii_end())?;
    let (request, rest) = quoted(&line[end + 3..]).ok_or("the quotes around the request are not closed")?;
    let (method, path) = request_line(request)?;
    Ok((at, Logged { ip, user, method, path, headers: headers(rest) }))
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// `203.0.113.7 - alice`. Names may contain spaces.
fn client(part: &[u8]) -> Result<(Option<IpAddr>, Option<Cow<'_, str>>), String> {
    let mut words = part.splitn(3, |b| *b == b' ');
    let (ip, _ident, user) = (words.next(), words.next(), words.next());
    let ip = match ip.map(String::from_utf8_lossy) {
        // A client on a local socket has no address.
        None | Some(Cow::Borrowed("-" | "unix:" | "")) => None,
        Some(text) => Some(text.parse().map_err(|_| format!("`{text}` is no IP address"))?),
    };
    match user {
        None | Some(b"-" | b"\"\"" | b"") => Ok((ip, None)),
        Some(user) => Ok((ip, Some(text("user", user)?))),
    }
}

/// `GET /orders/7 HTTP/1.1`
fn request_line(line: &[u8]) -> Result<(&str, Cow<'_, str>), String> {
    let wrong =
        || format!("`{}` is no request such as GET /orders/7 HTTP/1.1", String::from_utf8_lossy(line));
    let space = line.iter().position(|b| *b == b' ').ok_or_else(wrong)?;
    let (method, rest) = (&line[..space], &line[space + 1..]);
    let end = match rest.iter().rposition(|b| *b == b' ') {
        Some(last) if rest[last + 1..].starts_with(b"HTTP/") => last,
        _ => rest.len(),
    };
    let method = std::str::from_utf8(method).ok().filter(|m| !m.is_empty() && m.bytes().all(is_token));
    let path = text("path", &rest[..end])?;
    if path.is_empty() {
        return Err(wrong());
    }
    Ok((method.ok_or_else(wrong)?, path))
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// ` 200 2326 "https://…" "Mozilla/5.0"`. What is not there or no text is absent.
fn headers(rest: &[u8]) -> Headers<'_> {
    let (referer, rest) = next_header(rest);
    Headers { referer, user_agent: next_header(rest).0 }
}

fn next_header(rest: &[u8]) -> (Option<Cow<'_, str>>, &[u8]) {
    let opened = rest.iter().position(|b| *b == b'"').map(|quote| &rest[quote + 1..]);
    match opened.and_then(quoted) {
        Some((value, rest)) => {
            (text("header", value).ok().filter(|value| value != "-" && !value.is_empty()), rest)
        }
        None => (None, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> (u64, Option<String>, Option<String>, String, String) {
        let (at, logged) = parse(line.as_bytes()).unwrap();
        let request = logged.request();
        let ip = request.ip.map(|ip| ip.to_string());
        let method = request.method.unwrap().to_owned();
        (at.as_millis(), ip, request.user.map(str::to_owned), method, request.path.to_owned())
    }

    #[test]
    fn what_a_line_says() {
        let line = r#"203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /orders/7?x=1 HTTP/1.0" 200 2326 "http://e.com/" "Mozilla/4.08 [en]""#;
        let (at, logged) = parse(line.as_bytes()).unwrap();
        assert_eq!(at.as_millis(), 971_211_336_000);
        let request = logged.request();
        assert_eq!(request.headers.value("User-Agent"), Some("Mozilla/4.08 [en]"));
        assert_eq!(request.headers.value("referer"), Some("http://e.com/"));
        assert_eq!(request.headers.value("cookie"), None);
        assert_eq!(
            (request.user, request.method, request.path),
            (Some("alice"), Some("GET"), "/orders/7?x=1")
        );
    }

    #[test]
    fn lines_come_in_many_shapes() {
        let common = r#"2001:db8::1 - - [01/Jan/2024:00:00:00 +0000] "POST /auth/login HTTP/2.0" 401 0"#;
        let expected = |ip: &str, user: Option<&str>, method: &str, path: &str| {
            let ip = (!ip.is_empty()).then(|| ip.to_owned());
            (1_704_067_200_000, ip, user.map(str::to_owned), method.to_owned(), path.to_owned())
        };
        assert_eq!(request(common), expected("2001:db8::1", None, "POST", "/auth/login"));
        let line = |client: &str, asked: &str| {
            request(&format!(r#"{client} [01/Jan/2024:01:00:00 +0100] "{asked}" 200 1 "-" "-""#))
        };
        assert_eq!(line("unix: - -", "GET / HTTP/1.1"), expected("", None, "GET", "/"));
        assert_eq!(
            line("192.0.2.1 - john [x] doe", "GET / HTTP/1.1"),
            expected("192.0.2.1", Some("john [x] doe"), "GET", "/")
        );
        assert_eq!(
            line("192.0.2.1 - -", r#"GET /a\"b\x20c HTTP/1.1"#),
            expected("192.0.2.1", None, "GET", "/a\"b c")
        );
        assert_eq!(line("192.0.2.1 - \"\"", "GET /old"), expected("192.0.2.1", None, "GET", "/old"));
        assert_eq!(line("192.0.2.1 - -", "GET /a b HTTP/1.1"), expected("192.0.2.1", None, "GET", "/a b"));
    }

    #[test]
    fn every_mistake_is_named() {
        for (line, said) in [
            ("hello", "neither JSON nor"),
            (r#"192.0.2.1 - - 01/Jan/2024:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#, "no `[time]`"),
            (r#"192.0.2.1 - - [yesterday] "GET / HTTP/1.1" 200 1"#, "`yesterday` is no time"),
            (r#"192.0.2.1 - - [32/Jan/2024:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#, "is no time"),
            (r#"192.0.2.1 - - [01/Jan/1969:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#, "is no time"),
            (
                r#"example.com - - [01/Jan/2024:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#,
                "`example.com` is no IP address",
            ),
            (r#"192.0.2.1 - - [01/Jan/2024:00:00:00 +0000] "-" 408 0"#, "`-` is no request"),
            (r#"192.0.2.1 - - [01/Jan/2024:00:00:00 +0000] "\x16\x03\x01" 400 0"#, "is no request"),
            (r#"192.0.2.1 - - [01/Jan/2024:00:00:00 +0000] "GET /\x1b HTTP/1.1" 400 0"#, "control character"),
            (r#"192.0.2.1 - - [01/Jan/2024:00:00:00 +0000] "GET /\xff HTTP/1.1" 400 0"#, "is not UTF-8"),
            (
                r#"192.0.2.1 - a\x1b [01/Jan/2024:00:00:00 +0000] "GET / HTTP/1.1" 400 0"#,
                "the user contains the control",
            ),
            (r#"192.0.2.1 - - [01/Jan/2024:00:00:00 +0000] "GET / HTTP/1.1"#, "not closed"),
        ] {
            let message = parse(line.as_bytes()).map(|_| ()).unwrap_err();
            assert!(message.contains(said), "{line}: {message}");
        }
    }
}
