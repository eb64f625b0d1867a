//! A recorded request as a line of JSON: the fields of a check, and when it came.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tidegate_core::Timestamp;
use tidegate_wire::CheckBody;

/// The end of the year 9999, after which times can no longer be shown, and are surely not in milliseconds.
const LATEST_MS: u64 = 253_402_300_799_999;

/// Reads a line; what is wrong with it is said in words.
pub(crate) fn parse(line: &[u8]) -> Result<(Timestamp, CheckBody<'_>), String> {
    let TimedCheck { time, body } = serde_json::from_slice(line).map_err(|error| describe(&error))?;
    let at = time.at()?;
    let body = body.validated().map_err(|error| error.message)?;
    Ok((at, body))
}

/// The lines are parsed one by one: their number is known to the caller, and the column is what helps.
fn describe(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let message = message.replacen("expected one of ", "expected one of `at_ms`, `at`, ", 1);
    format!("{message} (column {})", error.column())
}

/// A check and its time, taken apart while reading.
struct TimedCheck<'a> {
    time: Time<'a>,
    body: CheckBody<'a>,
}

/// When a request came, in one of two ways.
#[derive(Default)]
struct Time<'a> {
    at_ms: Option<u64>,
    at: Option<Text<'a>>,
}

impl Time<'_> {
    fn at(&self) -> Result<Timestamp, String> {
        let ms = match (self.at_ms, &self.at) {
            (Some(ms), None) => ms,
            (None, Some(Text(text))) => unix_ms(text)?,
            (None, None) => {
                return Err(
                    "it does not say when the request came; add `at_ms` (Unix milliseconds) or `at` \
                            (RFC 3339)"
                        .to_owned(),
                );
            }
            (Some(_), Some(_)) => return Err("it has both `at_ms` and `at`; give one of them".to_owned()),
        };
        if ms > LATEST_MS {
            return Err(format!("`at_ms` {ms} is past the year 9999; it is in milliseconds since 1970"));
        }
        Ok(Timestamp::from_millis(ms))
    }
}

fn unix_ms(text: &str) -> Result<u64, String> {
    let at: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("`at` `{text}` is no RFC 3339 time, such as 2024-01-01T00:00:00Z"))?;
    u64::try_from(at.as_millisecond()).map_err(|_| format!("`at` `{text}` is before 1970"))
}

/// A text borrowed from the line where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for TimedCheck<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimedCheckVisitor;

        impl<'de> Visitor<'de> for TimedCheckVisitor {
            type Value = TimedCheck<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the fields of a check")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<TimedCheck<'de>, M::Error> {
                let mut time = Time::default();
                let rest = WithoutTime { map, time: &mut time };
                let body = CheckBody::deserialize(MapAccessDeserializer::new(rest))?;
                Ok(TimedCheck { time, body })
            }
        }

        deserializer.deserialize_map(TimedCheckVisitor)
    }
}

/// An object whose fields about time are put aside, so that the rest is a check and nothing but a check.
struct WithoutTime<'t, 'de, M> {
    map: M,
    time: &'t mut Time<'de>,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for WithoutTime<'_, 'de, M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, M::Error> {
        while let Some(Text(key)) = self.map.next_key()? {
            match &*key {
                "at_ms" => once(&mut self.time.at_ms, self.map.next_value()?, "at_ms")?,
                "at" => once(&mut self.time.at, self.map.next_value()?, "at")?,
                _ => return seed.deserialize(key.into_deserializer()).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.map.next_value_seed(seed)
    }
}

fn once<T, E: Error>(place: &mut Option<T>, value: T, field: &'static str) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_and_its_time() {
        let (at, body) = parse(
            br#"{"user":"alice","at_ms":1704067200000,"resource":"/orders/7","headers":{"a":"b"},"cost":2}"#,
        )
        .unwrap();
        let request = body.request();
        assert_eq!(at.as_millis(), 1_704_067_200_000);
        assert_eq!((request.user, request.path, request.cost), (Some("alice"), "/orders/7", 2));
        assert_eq!(request.headers.value("A"), Some("b"));
        for at in ["2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00", "2024-01-01T00:00:00.000Z"] {
            let line = format!(r#"{{"at":"{at}","resource":"/"}}"#);
            assert_eq!(parse(line.as_bytes()).unwrap().0.as_millis(), 1_704_067_200_000, "{at}");
        }
    }

    #[test]
    fn every_mistake_is_named() {
        for (line, said) in [
            (r#"{"resource":"/"}"#, "does not say when"),
            (r#"{"resource":"/","at_ms":1,"at":"2024-01-01T00:00:00Z"}"#, "both `at_ms` and `at`"),
            (r#"{"resource":"/","at_ms":-1}"#, "`-1`"),
            (r#"{"resource":"/","at_ms":1.5}"#, "1.5"),
            (r#"{"resource":"/","at_ms":1704067200000000}"#, "past the year 9999"),
            (r#"{"resource":"/","at":"yesterday"}"#, "`yesterday` is no RFC 3339 time"),
            (r#"{"resource":"/","at":"1969-12-31T23:59:59Z"}"#, "before 1970"),
            (r#"{"resource":"/","at_ms":1,"at_ms":2}"#, "duplicate field `at_ms` (column"),
            (
                r#"{"resource":"/","at_ms":1,"usr":"x"}"#,
                "unknown field `usr`, expected one of `at_ms`, `at`, `resource`",
            ),
            (r#"{"at_ms":1}"#, "missing field `resource`"),
            (r#"{"resource":"/","at_ms":1,"cost":-1}"#, "`-1`"),
            (r#"{"resource":"/","at_ms":1,"user":"a\u001b"}"#, "`user` contains the control character"),
            (r#"{"resource":"/","at_ms":1} {}"#, "trailing characters"),
            (r#"[1]"#, "an object with the fields of a check"),
            (r#"{"resource":"#, "EOF"),
        ] {
            let message = parse(line.as_bytes()).map(|_| ()).unwrap_err();
            assert!(message.contains(said), "{line}: {message}");
            assert!(!message.contains("at line"), "{line}: {message}");
        }
        assert!(parse(b"{\"resource\":\"\xff\",\"at_ms\":1}").is_err());
    }
}
