//! Routes as people write them. What the words mean is decided in [`compile`](super::compile), so that everything that
//! is wrong can be told at once.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::limits::Limits;
use super::{HostHeader, Problem};
use crate::upstream::{Balance, Protocol};

/// The largest document, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 4 * 1024 * 1024;

/// A document: YAML, or JSON, which is YAML too.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default)]
    pub(super) upstreams: BTreeMap<String, Spanned<Upstream>>,
    #[serde(default)]
    pub(super) routes: Vec<Spanned<RouteEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Upstream {
    pub(super) servers: OneOrMany<TextOr<ServerEntry>>,
    #[serde(default)]
    pub(super) balance: Balance,
    #[serde(default)]
    pub(super) protocol: Protocol,
    pub(super) health: Option<Health>,
    pub(super) passive: Option<TextOr<PassiveEntry>>,
    pub(super) tls: Option<Tls>,
    pub(super) connect_timeout: Option<String>,
    pub(super) response_timeout: Option<String>,
    pub(super) idle_timeout: Option<String>,
    pub(super) max_idle: Option<u64>,
    pub(super) concurrency: Option<TextOr<ConcurrencyEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConcurrencyEntry {
    #[serde(default)]
    pub(super) adaptive: bool,
    pub(super) min: Option<u64>,
    pub(super) initial: Option<u64>,
    pub(super) max: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) headroom: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerEntry {
    pub(super) url: String,
    pub(super) weight: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Health {
    pub(super) path: String,
    pub(super) every: Option<String>,
    pub(super) timeout: Option<String>,
    pub(super) unhealthy_after: Option<u64>,
    pub(super) healthy_after: Option<u64>,
    pub(super) statuses: Option<OneOrMany<String>>,
    pub(super) host: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PassiveEntry {
    pub(super) failures: Option<u64>,
    #[serde(rename = "for")]
    pub(super) aside: Option<String>,
    pub(super) statuses: Option<OneOrMany<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) ca: Option<String>,
    pub(super) name: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    #[serde(default)]
    pub(super) insecure: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteEntry {
    pub(super) host: Option<String>,
    pub(super) path: Option<String>,
    pub(super) methods: Option<OneOrMany<String>>,
    pub(super) upstream: OneOrMany<String>,
    pub(super) response_timeout: Option<String>,
    pub(super) retries: Option<u64>,
    #[serde(default)]
    pub(super) host_header: HostHeader,
    pub(super) prefix: Option<Prefix>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefix {
    pub(super) strip: Option<String>,
    pub(super) add: Option<String>,
}

impl Document {
    /// Reads a text. An error is told with its line; reading ends there.
    pub(super) fn read(name: &str, text: &str) -> Result<Self, Problem> {
        if text.len() > MAX_DOCUMENT_BYTES {
            let message = format!("it is larger than {MAX_DOCUMENT_BYTES} bytes; split it");
            return Err(Problem::new(name, None, message));
        }
        let limits = Limits::of(text.len());
        let read: Result<Option<Self>, _> = serde_saphyr::from_str_with_options(text, limits.options());
        read.map(Option::unwrap_or_default).map_err(|error| {
            let place = error.location();
            let error = error.without_snippet();
            let message = limits.explain(error).unwrap_or_else(|| error.to_string());
            let Some(place) = place else { return Problem::new(name, None, message) };
            let (line, column) = (place.line(), place.column());
            // The place stands before the message.
            let message = message.replace(&format!(" at line {line}, column {column}"), "");
            Problem { column: Some(column), ..Problem::new(name, Some(line), message) }
        })
    }
}

/// A text that stands for the usual, or everything in full.
#[derive(Debug)]
pub(super) enum TextOr<T> {
    Text(String),
    Full(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a mapping")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text.to_owned()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(number.to_string()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(number.to_string()))
            }

            // `off` is a text in one version of YAML and means this in another.
            fn visit_bool<E: Error>(self, on: bool) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(if on { "on" } else { "off" }.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Full)
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// One, or a list.
#[derive(Debug)]
pub(super) struct OneOrMany<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one, or a list")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMany<T>, E> {
                let one = serde::de::value::StrDeserializer::new(text);
                T::deserialize(one).map(|one| OneOrMany(vec![one]))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<OneOrMany<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<OneOrMany<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMany<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMany<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany)
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Document::read("routes.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn all_forms_are_read() {
        let text = "
upstreams:
  api:
    servers: [http://a, {url: https://b, weight: 2}]
    passive: off
    health: {path: /healthz, statuses: [200, 300-399]}
    connect_timeout: 5
  one:
    servers: http://c
    passive: {failures: 3, for: 1s, statuses: 503}
routes:
  - {upstream: [http://a, http://b], methods: GET}
  - {upstream: api, host_header: upstream}
";
        let document = Document::read("x", text).unwrap();
        let api = &document.upstreams["api"].value;
        assert!(matches!(&api.passive, Some(TextOr::Text(off)) if off == "off"));
        assert_eq!(api.health.as_ref().unwrap().statuses.as_ref().unwrap().0, ["200", "300-399"]);
        assert_eq!(api.connect_timeout.as_deref(), Some("5"));
        assert!(matches!(&api.servers.0[1], TextOr::Full(ServerEntry { weight: Some(2), .. })));
        assert_eq!(document.upstreams["one"].value.servers.0.len(), 1);
        assert_eq!(document.routes[0].value.upstream.0.len(), 2);
        assert_eq!(document.routes[1].referenced.line(), 13);
        let json = r#"{"routes": [{"upstream": "http://a", "methods": ["GET"]}]}"#;
        assert_eq!(Document::read("x", json).unwrap().routes.len(), 1);
        assert!(Document::read("x", "# nothing\n").unwrap().routes.is_empty());
    }

    #[test]
    fn wrong_shapes_are_told_with_their_line() {
        let text = "routes:\n  - upstream: http://a\n    retires: 1\n";
        let told = problem(text);
        assert!(told.starts_with("routes.yaml:3:5: ") && told.contains("retires"), "{told}");
        let told = problem("upstreams:\n  a:\n    servers: [http://a]\n    balance: random\n");
        assert!(told.starts_with("routes.yaml:4:14: ") && told.contains("least_requests"), "{told}");
        let told = problem("routes:\n  - {upstream: a}\nroutes: []\n");
        assert!(told.contains("routes.yaml:3"), "{told}");
        let told = problem("upstreams:\n  a:\n    servers: [{url: http://a, wight: 2}]\n");
        assert!(told.contains(":3:31: ") && told.contains("wight") && !told.contains("line 3"), "{told}");
        assert!(problem("routes: [").contains("routes.yaml:"));
    }

    #[test]
    fn texts_that_grow_are_refused() {
        assert!(problem(&" ".repeat(MAX_DOCUMENT_BYTES + 1)).contains("split it"));
        let servers = "*u, ".repeat(5_000);
        let mut bomb =
            format!("upstreams:\n  a: {{servers: &s [&u {{url: http://a, weight: 1}}, {servers}]}}\n");
        for group in 0..100 {
            bomb += &format!("  b{group}: {{servers: *s}}\n");
        }
        let told = problem(&bomb);
        assert!(told.contains("aliases stand for more than") && told.contains("use fewer"), "{told}");
        let told = problem(&format!("routes: [{}]", "{upstream: a}, ".repeat(200_000)));
        assert!(told.contains("more than 500000 values"), "{told}");
        problem(&"[".repeat(100_000));
    }

    #[test]
    fn texts_that_grow_take_no_memory() {
        let route = format!("- &r {{upstream: a, host: '{}'}}\n", "h".repeat(300_000));
        let escaped = route.replace('\'', "\"").replacen("\"h", "\"\\x68", 1);
        let short = "- &r {upstream: a, host: h, path: /x, methods: [GET]}\n";
        for (route, times) in [(&*route, 9_000), (&escaped, 9_000), (short, 200_000)] {
            let text = format!("routes:\n{route}{}", "- *r\n".repeat(times));
            assert!(text.len() < 3 * 1024 * 1024);
            let mut told = String::new();
            let memory = allocation_counter::measure(|| told = problem(&text));
            let peak = usize::try_from(memory.bytes_max).unwrap();
            assert!(peak < 40 * text.len() + 1024 * 1024, "{peak} bytes for {}", text.len());
            assert!(
                told.starts_with("routes.yaml:") && told.contains("use fewer aliases")
                    || told.contains("fewer of them"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_thousand_routes_share_an_anchor() {
        let mut text = "routes:\n  - {upstream: http://a, path: /0, methods: &m [GET, POST]}\n".to_owned();
        for number in 1..1_000 {
            text += &format!("  - {{upstream: http://a, path: /{number}, methods: *m}}\n");
        }
        assert_eq!(Document::read("routes.yaml", &text).unwrap().routes.len(), 1_000);
    }
}
