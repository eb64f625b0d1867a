//! The parts of an URL that all servers have.

use percent_encoding::percent_decode_str;

/// User and password.
pub(crate) fn login_of(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((user, password)) if !user.is_empty() => Ok((decode(user)?, decode(password)?)),
        _ => Err("before the `@` there must be user:password".to_owned()),
    }
}

/// `host:port`, an IPv6 address in brackets.
pub(crate) fn address(text: &str, usual_port: u16) -> Result<String, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) =
                rest.split_once(']').ok_or_else(|| format!("`{text}` lacks a closing bracket"))?;
            (format!("[{host}]"), rest.strip_prefix(':'))
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    if host.is_empty() {
        return Err("a host is missing".to_owned());
    }
    let bad = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.contains(bad),
    };
    if !is_host {
        return Err(format!("`{host}` is no host; put an IPv6 address in brackets"));
    }
    let port = match port {
        None => usual_port,
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
            // It may be part of a password, unless it is a number.
            let said = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "\u{2026}" };
            format!("`{said}` is no port; a `/`, `?`, `#` or `@` in a password is written %2F, %3F, %23, %40")
        })?,
    };
    Ok(format!("{host}:{port}"))
}

/// What is written with `%`, as it is meant.
pub(crate) fn decode(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| format!("`{text}` is not UTF-8"))?;
    Ok(text.into_owned())
}
