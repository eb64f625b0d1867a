//! What a document says about a group of servers, and what that means.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use http::HeaderValue;
use http::uri::{Authority, PathAndQuery};
use tidegate_core::Span;
use tidegate_server::warn_if_exposed;

use super::concurrency;
use super::document::{Health, PassiveEntry, ServerEntry, TextOr, Tls, Upstream};
use crate::upstream::{
    Group, HealthCheck, Member, PassiveCheck, Protocol, Settings, StatusRange, Statuses, TlsFiles,
};

const MS: u64 = 1;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

/// How long it may take until the head of an answer is there.
pub(super) const RESPONSE_TIMEOUT: RangeInclusive<u64> = MS..=24 * HOUR;

/// What was found wrong with one thing, in order.
#[derive(Debug, Default)]
pub(super) struct Wrong(pub(super) Vec<String>);

impl Wrong {
    pub(super) fn add(&mut self, message: impl Into<String>) {
        self.0.push(message.into());
    }

    /// The value, or `None` after having told why there is none.
    pub(super) fn ok<T, E: ToString>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(error.to_string())).ok()
    }

    /// A length of time, within limits.
    pub(super) fn span(
        &mut self,
        what: &str,
        text: Option<&str>,
        limits: &RangeInclusive<u64>,
        usual: Duration,
    ) -> Duration {
        let Some(text) = text else { return usual };
        match text.parse::<Span>() {
            Ok(span) if limits.contains(&span.as_millis()) => Duration::from_millis(span.as_millis()),
            Ok(_) => {
                let [least, most] = [*limits.start(), *limits.end()].map(Span::from_millis);
                self.add(format!("{what} {text} is out of range; it can be {least} to {most}"));
                usual
            }
            Err(error) => {
                self.add(format!("{what}: {error}"));
                usual
            }
        }
    }

    /// A number, within limits.
    pub(super) fn number(
        &mut self,
        what: &str,
        number: Option<u64>,
        limits: RangeInclusive<u32>,
        usual: u32,
    ) -> u32 {
        let Some(number) = number else { return usual };
        match u32::try_from(number) {
            Ok(number) if limits.contains(&number) => number,
            _ => {
                let (least, most) = limits.into_inner();
                self.add(format!("{what} {number} is out of range; it can be {least} to {most}"));
                usual
            }
        }
    }

    pub(super) fn count(&mut self, what: &str, number: Option<u64>, most: u32, usual: u32) -> NonZeroU32 {
        NonZeroU32::new(self.number(what, number, 1..=most, usual)).unwrap_or(NonZeroU32::MIN)
    }

    fn statuses(&mut self, what: &str, texts: &[String]) -> Statuses {
        let ranges = texts.iter().filter_map(|text| {
            let range = text.parse::<StatusRange>().map_err(|error| format!("{what}: {error}"));
            self.ok(range)
        });
        Statuses::new(ranges.collect())
    }

    /// Servers by their URLs, each once.
    pub(super) fn members<'a>(
        &mut self,
        servers: impl Iterator<Item = (&'a str, Option<u64>)>,
    ) -> Vec<Member> {
        let mut members: Vec<Member> = Vec::new();
        for (url, weight) in servers {
            let Some(origin) = self.ok(url.parse()) else { continue };
            let weight = self.count(&format!("the weight of {origin}:"), weight, 1_000, 1);
            match members.iter().any(|member| member.origin == origin) {
                true => self.add(format!("{origin} is there twice; give it more `weight` instead")),
                false => members.push(Member { origin, weight }),
            }
        }
        members
    }
}

/// The group that an entry describes, or what is wrong with it.
pub(super) fn group(name: &str, entry: &Upstream) -> Result<Group, Vec<String>> {
    let mut wrong = Wrong::default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
        wrong.add("is no name; use up to 64 letters, digits, `-`, `_` and `.`");
    }
    let servers = entry.servers.0.iter().map(|server| match server {
        TextOr::Text(url) => (url.as_str(), None),
        TextOr::Full(ServerEntry { url, weight }) => (url.as_str(), *weight),
    });
    let members = wrong.members(servers);
    let usual = Settings::default();
    let settings = Settings {
        balance: entry.balance,
        protocol: entry.protocol,
        health: entry.health.as_ref().and_then(|health| self::health(&mut wrong, health)),
        passive: passive(&mut wrong, entry.passive.as_ref()),
        tls: entry.tls.as_ref().map(|tls| self::tls(&mut wrong, tls)).unwrap_or_default(),
        connect_timeout: wrong.span(
            "connect_timeout",
            entry.connect_timeout.as_deref(),
            &(MS..=60 * SECOND),
            usual.connect_timeout,
        ),
        response_timeout: wrong.span(
            "response_timeout",
            entry.response_timeout.as_deref(),
            &RESPONSE_TIMEOUT,
            usual.response_timeout,
        ),
        idle_timeout: wrong.span(
            "idle_timeout",
            entry.idle_timeout.as_deref(),
            &(MS..=24 * HOUR),
            usual.idle_timeout,
        ),
        max_idle: wrong.number("max_idle", entry.max_idle, 0..=100_000, 64) as usize,
        concurrency: entry.concurrency.as_ref().and_then(|entry| concurrency::concurrency(&mut wrong, entry)),
    };
    let https = members.iter().filter(|member| member.origin.is_https()).count();
    if entry.protocol == Protocol::Auto && https < members.len() {
        wrong.add("protocol: auto is for https servers, which choose; write http1 or http2");
    }
    let is_host_set = entry.health.as_ref().is_some_and(|health| health.host.is_some());
    if entry.protocol != Protocol::Http1 && is_host_set {
        wrong.add("health: host cannot be other than the server's own over HTTP/2; leave it out");
    }
    if entry.tls.is_some() && https == 0 && !members.is_empty() {
        wrong.add("has `tls` but no https server; write https:// URLs or leave `tls` out");
    }
    if members.is_empty() && !wrong.0.is_empty() {
        return Err(wrong.0);
    }
    match Group::new(name, members, settings) {
        Ok(group) if wrong.0.is_empty() => Ok(group),
        Ok(_) => Err(wrong.0),
        Err(error) => {
            wrong.add(error.to_string());
            Err(wrong.0)
        }
    }
}

fn health(wrong: &mut Wrong, entry: &Health) -> Option<HealthCheck> {
    let path: Option<PathAndQuery> =
        entry.path.parse().ok().filter(|_| entry.path.starts_with('/') && !entry.path.contains('#'));
    if path.is_none() {
        wrong.add("health: path must be one, such as /healthz");
    }
    let host = entry.host.as_deref().map(|host| {
        let is_host = host.parse::<Authority>().is_ok_and(|authority| !authority.as_str().contains('@'));
        HeaderValue::from_str(host).ok().filter(|_| is_host)
    });
    if host == Some(None) {
        wrong.add("health: host must be one, such as api.internal");
    }
    let statuses = match &entry.statuses {
        None => Statuses::new("200-399".parse().into_iter().collect()),
        Some(texts) if texts.0.is_empty() => {
            wrong.add("health: no status would be good; give some, such as [200-399]");
            Statuses::default()
        }
        Some(texts) => wrong.statuses("health", &texts.0),
    };
    let every =
        wrong.span("health: every", entry.every.as_deref(), &(10 * MS..=HOUR), Duration::from_secs(5));
    let timeout =
        wrong.span("health: timeout", entry.timeout.as_deref(), &(MS..=60 * SECOND), Duration::from_secs(1));
    let unhealthy_after = wrong.count("health: unhealthy_after", entry.unhealthy_after, 100, 3);
    let healthy_after = wrong.count("health: healthy_after", entry.healthy_after, 100, 2);
    let host = host.flatten();
    Some(HealthCheck { path: path?, every, timeout, unhealthy_after, healthy_after, statuses, host })
}

fn passive(wrong: &mut Wrong, entry: Option<&TextOr<PassiveEntry>>) -> Option<PassiveCheck> {
    let usual = PassiveCheck::default();
    match entry {
        None => Some(usual),
        Some(TextOr::Text(text)) if text == "off" => None,
        Some(TextOr::Text(_)) => {
            wrong.add("passive can be `off` or a mapping such as {failures: 5, for: 10s}");
            None
        }
        Some(TextOr::Full(entry)) => Some(PassiveCheck {
            failures: wrong.count("passive: failures", entry.failures, 10_000, usual.failures.get()),
            aside: wrong.span("passive: for", entry.aside.as_deref(), &(10 * MS..=HOUR), usual.aside),
            statuses: entry
                .statuses
                .as_ref()
                .map(|texts| wrong.statuses("passive", &texts.0))
                .unwrap_or_default(),
        }),
    }
}

fn tls(wrong: &mut Wrong, entry: &Tls) -> TlsFiles {
    let identity = match (&entry.certificate, &entry.key) {
        (Some(certificate), Some(key)) => {
            warn_if_exposed("the key of an upstream's `tls`", Path::new(key));
            Some((certificate.into(), key.into()))
        }
        (None, None) => None,
        (Some(_), None) => {
            wrong.add("tls: a certificate without its key; give `key: FILE`");
            None
        }
        (None, Some(_)) => {
            wrong.add("tls: a key without its certificate; give `certificate: FILE`");
            None
        }
    };
    if entry.insecure && entry.ca.is_some() {
        wrong.add("tls: `insecure` does not look at certificates, so `ca` is of no use; leave one out");
    }
    let ca = entry.ca.as_ref().map(Into::into);
    TlsFiles { ca, name: entry.name.clone(), identity, insecure: entry.insecure }
}
