//! The bodies of `POST /v1/check`.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_core::{Decision, Mode, Request, Retry, RuleSet, RuleVerdict, Span, Status, Timestamp};

use crate::error::ErrorBody;

/// A request to be decided, as callers describe it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckBody<'a> {
    /// The path or other name of what is asked for.
    #[serde(borrow)]
    pub resource: Cow<'a, str>,
    /// Who the user belongs to.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub tenant: Option<Cow<'a, str>>,
    /// Who asks; present means authenticated.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub user: Option<Cow<'a, str>>,
    /// The user's tier or plan, or the tenant's if there is no user; without it the rules' own ways to find it apply.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub tier: Option<Cow<'a, str>>,
    /// The tenant's plan or tier; without it the rules' own ways to find it apply.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub plan: Option<Cow<'a, str>>,
    /// The method.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub method: Option<Cow<'a, str>>,
    /// The address it comes from.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub ip: Option<IpAddr>,
    /// The API key; never stored or shown.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub api_key: Option<Cow<'a, str>>,
    /// Headers for rules to match or count by.
    #[serde(borrow, default)]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub headers: Pairs<'a>,
    /// Anything else for rules to match or count by.
    #[serde(borrow, default)]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub attributes: Pairs<'a>,
    /// How much it takes; 0 only looks.
    #[serde(default = "one")]
    pub cost: u64,
    /// Makes a retry of an admitted request free, within bounds.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub request_id: Option<Cow<'a, str>>,
    /// For how many milliseconds the answer may be held back until it is the request's turn, where rules let it wait; 0 is not
    /// at all. A batch cannot wait.
    #[serde(default)]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: u64,
}

/// The longest that a caller may have its answer held back, in milliseconds.
pub const MAX_WAIT_MS: u64 = 60_000;

fn one() -> u64 {
    1
}

/// The kind of mistake a body that cannot be read is.
const UNREADABLE: &str = "invalid_request";

impl<'a> CheckBody<'a> {
    /// Reads a body; a mistake is named with its field.
    pub fn parse(json: &'a [u8]) -> Result<Self, ErrorBody> {
        // What reads objects would take a list of their values as well.
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(ErrorBody::new(
                UNREADABLE,
                "the request is not a JSON object; send one, such as {\"resource\":\"/\"}",
            ));
        }
        // Checked as a whole, which is cheaper than text by text.
        let read = std::str::from_utf8(json).ok().and_then(|json| serde_json::from_str::<Self>(json).ok());
        match read {
            Some(body) => body.validated(),
            None => Err(explain(json)),
        }
    }

    /// Refuses texts and figures that could not come from a well-behaved client.
    pub fn validated(self) -> Result<Self, ErrorBody> {
        if self.wait_ms > MAX_WAIT_MS {
            let message = format!("`wait_ms` is {}; the most is {MAX_WAIT_MS}, a minute", self.wait_ms);
            return Err(ErrorBody::field("wait_ms", message));
        }
        if self.resource.is_empty() {
            return Err(ErrorBody::field(
                "resource",
                "`resource` is empty; give the path that is asked for, such as /orders/7",
            ));
        }
        let named = [
            ("resource", Some(&self.resource)),
            ("tenant", self.tenant.as_ref()),
            ("user", self.user.as_ref()),
            ("tier", self.tier.as_ref()),
            ("plan", self.plan.as_ref()),
            ("method", self.method.as_ref()),
            ("api_key", self.api_key.as_ref()),
            ("request_id", self.request_id.as_ref()),
        ];
        for (field, text) in named.into_iter().filter_map(|(field, text)| Some((field, text?))) {
            refuse_control_characters(field, text)?;
        }
        for (field, pairs) in [("headers", &self.headers), ("attributes", &self.attributes)] {
            for (name, value) in &pairs.0 {
                refuse_control_characters(field, name)?;
                refuse_control_characters(field, value)?;
            }
        }
        Ok(self)
    }

    /// Refuses what a request of a batch cannot have: nobody can wait for the others.
    pub fn in_batch(self) -> Result<Self, ErrorBody> {
        if self.wait_ms > 0 {
            let message =
                "a batch is answered at once; leave out `wait_ms`, or use /v1/check for this request";
            return Err(ErrorBody::field("wait_ms", message));
        }
        Ok(self)
    }

    /// How long the caller lets its answer be held back.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }

    /// The request to decide. Empty texts count as absent.
    pub fn request(&self) -> Request<'_> {
        Request {
            tenant: present(self.tenant.as_deref()),
            user: present(self.user.as_deref()),
            tier: present(self.tier.as_deref()),
            plan: present(self.plan.as_deref()),
            method: present(self.method.as_deref()),
            ip: self.ip,
            api_key: present(self.api_key.as_deref()),
            headers: &self.headers.0,
            attributes: &self.attributes.0,
            cost: self.cost,
            request_id: present(self.request_id.as_deref()),
            ..Request::new(&self.resource)
        }
    }
}

fn present(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn refuse_control_characters(field: &str, text: &str) -> Result<(), ErrorBody> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => {
            let c = c.escape_default();
            Err(ErrorBody::field(
                field,
                format!("`{field}` contains the control character {c}; send it without"),
            ))
        }
    }
}

/// Finds out what is wrong with a body that cannot be read.
fn explain(json: &[u8]) -> ErrorBody {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let error = match serde_path_to_error::deserialize::<_, CheckBody<'_>>(&mut reader) {
        Err(error) => error,
        Ok(_) => return ErrorBody::new(UNREADABLE, "there is more after the JSON object; send one object"),
    };
    // An entry of an object of texts has no name here (`?`); the object has.
    let path = error.path().to_string().trim_end_matches(".?").to_owned();
    let message = error.into_inner().to_string();
    let named = ["unknown", "missing", "duplicate"].into_iter().find_map(|kind| {
        message.strip_prefix(kind)?.strip_prefix(" field `")?.split('`').next().map(str::to_owned)
    });
    let field = named.or_else(|| (path != "." && path != "?").then_some(path));
    match field {
        Some(field) => ErrorBody::field(field, message),
        None => ErrorBody::new(UNREADABLE, message),
    }
}

/// Names and values in the order they came; a name may come once.
#[derive(Debug, Default)]
pub struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

#[cfg(feature = "grpc")]
impl<'a> Pairs<'a> {
    /// The pairs of a map; says what is wrong if a name comes twice, but for its case.
    pub(crate) fn of(map: &'a std::collections::BTreeMap<String, String>) -> Result<Self, String> {
        let mut pairs = Self::default();
        for (name, value) in map {
            pairs.add(Cow::Borrowed(name), Cow::Borrowed(value))?;
        }
        Ok(pairs)
    }
}

impl<'a> Pairs<'a> {
    fn add(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> Result<(), String> {
        if self.0.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            return Err(format!("`{name}` comes twice"));
        }
        self.0.push((name, value));
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<'de>, M::Error> {
                let mut pairs = Pairs::default();
                while let Some((Text(name), Text(value))) = map.next_entry()? {
                    pairs.add(name, value).map_err(M::Error::custom)?;
                }
                Ok(pairs)
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}

/// A text borrowed from the body where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The same for a text that may be missing: left to itself, `serde` copies what is inside an `Option`.
fn borrowed<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    Ok(Option::<Text<'a>>::deserialize(deserializer)?.map(|Text(text)| text))
}

/// A decision, as callers are told it, with what is told of each rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DecisionOf{R}")]
pub struct DecisionBody<'a, R = RuleBody<'a>> {
    /// Whether the request may go ahead.
    pub allowed: bool,
    /// The binding rule; null if none applies. If the store could not be asked, the first whose `on_store_failure`
    /// decided.
    pub rule_id: Option<&'a str>,
    /// The binding rule's limit; null, as the other figures, if the store could not be asked for them.
    pub limit: Option<u64>,
    /// What is left of it after this decision.
    pub remaining: Option<u64>,
    /// When it will be as if never used, in Unix seconds.
    pub reset_at: Option<u64>,
    /// Seconds to wait before trying again; 0 if allowed, null if it can never be.
    pub retry_after: Option<u64>,
    /// `enforced`, `local`, `disabled` (failed open) or `unavailable` (failed closed).
    pub status: &'static str,
    /// `normal`, `degraded` or `emergency`.
    pub mode: &'static str,
    /// For how many milliseconds the request waited for its turn; left out if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub waited_ms: Option<u64>,
    /// What every rule that applies said, by priority, as far as the store could be asked.
    pub rules: Vec<R>,
}

/// What one rule said.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleBody<'a> {
    /// The rule.
    pub rule_id: &'a str,
    /// Whether it would let the request pass.
    pub allowed: bool,
    /// Its limit.
    pub limit: u64,
    /// What is left of it after this decision.
    pub remaining: u64,
    /// Until it will be as if never used.
    pub reset_after_ms: u64,
    /// Until it could let the request pass; 0 if it does, null if it never will.
    pub retry_after_ms: Option<u64>,
    /// Whether it only watches.
    pub shadow: bool,
}

impl<'a> DecisionBody<'a> {
    /// Describes `decision`, taken by `rules` in `mode`.
    pub fn new(decision: &Decision, rules: &'a RuleSet, mode: Mode) -> Self {
        let binding = decision.binding();
        let verdict = binding.map(|binding| &binding.verdict);
        Self {
            allowed: decision.allowed,
            rule_id: decision.binding_rule(rules),
            limit: verdict.map(|verdict| verdict.quota.limit()),
            remaining: verdict.map(|verdict| verdict.remaining),
            reset_at: decision.reset_at().map(Timestamp::as_secs_ceil),
            retry_after: match (decision.status, verdict) {
                (Status::Unavailable, _) => Some(RETRY_UNAVAILABLE_SECS),
                (_, Some(verdict)) => wait(verdict.retry).map(Span::as_secs_ceil),
                (_, None) => Some(0),
            },
            status: decision.status.name(),
            mode: mode.name(),
            waited_ms: None,
            rules: decision.verdicts.iter().map(|verdict| RuleBody::new(verdict, rules)).collect(),
        }
    }
}

impl DecisionBody<'_> {
    /// The same about a request that waited for its turn for so long, if at all.
    #[must_use]
    pub fn after(self, waited: Duration) -> Self {
        Self { waited_ms: waited_ms(waited), ..self }
    }
}

/// What callers are told about having waited: whole milliseconds, rounded up; nothing if they have not.
pub(crate) fn waited_ms(waited: Duration) -> Option<u64> {
    let ms = u64::try_from(waited.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    (ms > 0).then_some(ms)
}

impl<'a> RuleBody<'a> {
    fn new(said: &RuleVerdict, rules: &'a RuleSet) -> Self {
        let verdict = &said.verdict;
        Self {
            rule_id: &rules.rule(said.rule).id,
            allowed: verdict.allowed,
            limit: verdict.quota.limit(),
            remaining: verdict.remaining,
            reset_after_ms: verdict.reset_after.as_millis(),
            retry_after_ms: wait(verdict.retry).map(Span::as_millis),
            shadow: said.shadow,
        }
    }
}

/// When to try again if the limits could not be checked: nobody knows, and soon enough.
pub(crate) const RETRY_UNAVAILABLE_SECS: u64 = 1;

/// How long to wait; `None` if waiting does not help.
pub(crate) fn wait(retry: Retry) -> Option<Span> {
    match retry {
        Retry::Now => Some(Span::ZERO),
        Retry::After(span) => Some(span),
        Retry::Never => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_body_is_read() {
        let json = br#"{"tenant":"acme","user":"al\u0069ce","tier":"premium","resource":"/api/search","method":"GET",
            "ip":"203.0.113.7","api_key":"k","headers":{"x-client-type":"mobile"},"attributes":{"a":"b"},"cost":3,"request_id":"r-1"}"#;
        let body = CheckBody::parse(json).unwrap();
        let request = body.request();
        assert_eq!(
            (request.tenant, request.user, request.tier),
            (Some("acme"), Some("alice"), Some("premium"))
        );
        assert_eq!((request.path, request.method, request.cost), ("/api/search", Some("GET"), 3));
        assert_eq!(request.headers.value("X-Client-Type"), Some("mobile"));
        assert_eq!(request.attributes.value("a"), Some("b"));
        assert_eq!(request.request_id, Some("r-1"));
        let copied = |text: &Option<Cow<'_, str>>| matches!(text, Some(Cow::Owned(_)));
        assert!(copied(&body.user), "it has an escape");
        assert!(
            ![&body.tenant, &body.tier, &body.method, &body.api_key, &body.request_id]
                .into_iter()
                .any(copied)
        );
    }

    #[test]
    fn only_the_resource_is_needed_and_empty_means_absent() {
        let body = CheckBody::parse(br#"{"resource":"/","user":"","tenant":""}"#).unwrap();
        let request = body.request();
        assert_eq!((request.user, request.tenant, request.cost), (None, None, 1));
    }

    #[test]
    fn every_mistake_names_its_field() {
        for (json, field) in [
            (r#"{"resource":"/","usr":"x"}"#, Some("usr")),
            (r#"{"user":"x"}"#, Some("resource")),
            (r#"{"resource":7}"#, Some("resource")),
            (r#"{"resource":""}"#, Some("resource")),
            (r#"{"resource":"/","cost":-1}"#, Some("cost")),
            (r#"{"resource":"/","cost":1.5}"#, Some("cost")),
            (r#"{"resource":"/","cost":"1"}"#, Some("cost")),
            (r#"{"resource":"/","cost":1e400}"#, Some("cost")),
            (r#"{"resource":"/","wait_ms":60001}"#, Some("wait_ms")),
            (r#"{"resource":"/","wait_ms":-1}"#, Some("wait_ms")),
            (r#"{"resource":"/","wait_ms":0.5}"#, Some("wait_ms")),
            (r#"{"resource":"/","wait_ms":"1s"}"#, Some("wait_ms")),
            (r#"{"resource":"/","wait_ms":null}"#, Some("wait_ms")),
            (r#"{"resource":"/","wait_ms":1e400}"#, Some("wait_ms")),
            (r#"{"resource":"/","ip":"300.1.2.3"}"#, Some("ip")),
            (r#"{"resource":"/","user":"a\nb"}"#, Some("user")),
            (r#"{"resource":"/","user":"a\u0000b"}"#, Some("user")),
            (r#"{"resource":"/","headers":{"a":1}}"#, Some("headers")),
            (r#"{"resource":"/","headers":{"a":"1","A":"2"}}"#, Some("headers")),
            (r#"{"resource":"/","headers":["a"]}"#, Some("headers")),
            (r#"{"resource":"/","attributes":{"a":"\r"}}"#, Some("attributes")),
            (r#"{"resource":"/","resource":"/"}"#, Some("resource")),
            (r#"{"resource":"/"} {}"#, None),
            (r#"{"resource":"#, Some("resource")),
            ("[]", None),
            (r#"["/"]"#, None),
            ("nonsense", None),
            ("{", None),
            ("", None),
        ] {
            let error = CheckBody::parse(json.as_bytes()).unwrap_err();
            assert_eq!(error.field.as_deref(), field, "{json}: {}", error.message);
            assert_eq!(error.error, "invalid_request");
        }
        assert!(CheckBody::parse(b"{\"resource\":\"\xff\"}").is_err());
    }

    #[test]
    fn how_long_callers_wait() {
        let body = |wait_ms: &str| format!(r#"{{"resource":"/"{wait_ms}}}"#);
        let patience = |json: String| CheckBody::parse(json.as_bytes()).unwrap().patience().as_millis();
        assert_eq!(patience(body("")), 0);
        assert_eq!(patience(body(r#","wait_ms":60000"#)), 60_000);
        for (wait_ms, fits) in [("", true), (r#","wait_ms":0"#, true), (r#","wait_ms":1"#, false)] {
            let json = body(wait_ms);
            let read = CheckBody::parse(json.as_bytes()).unwrap().in_batch();
            assert_eq!(read.is_ok(), fits, "{wait_ms}");
            assert!(read.err().is_none_or(|error| error.field.as_deref() == Some("wait_ms")));
        }
        for (micros, expected) in [(0, None), (1, Some(1)), (1_000, Some(1)), (1_001, Some(2))] {
            assert_eq!(waited_ms(Duration::from_micros(micros)), expected);
        }
    }
}
