//! The configuration file: a flat YAML mapping of the options of what serves.
//!
//! Its values are read by the very parsers that read the flags; this file only knows YAML.

use std::collections::HashSet;
use std::error::Error as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use clap::Args;
use clap::builder::Resettable;
use clap::error::ContextKind;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use crate::failure::Failure;
use crate::login::hide_logins;
use crate::suggest;

/// The largest file: hundreds of times what all options take.
const MAX_BYTES: u64 = 1024 * 1024;

/// The most options and values of lists that a file may have.
const MAX_VALUES: usize = 10_000;

/// Reads a file; all that is wrong with it is reported together.
pub(crate) fn read<O: Args + Default>(path: &Path, command: &'static str) -> Result<O, Failure> {
    let name = path.display().to_string();
    let text = text_of(path)
        .map_err(|error| Failure::Usage(format!("cannot read the configuration file {name}: {error}")))?;
    parse(&text, command).map_err(|wrong| {
        let lines: Vec<String> =
            wrong.iter().map(|Wrong { at, message }| format!("{name}:{at}: {message}")).collect();
        Failure::Usage(format!("the configuration file cannot be used\n{}", lines.join("\n")))
    })
}

/// Reads a file up to [`MAX_BYTES`], which may be a pipe and have no end.
fn text_of(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("it is larger than {} KiB; leave out what is no option", MAX_BYTES / 1024);
        return Err(io::Error::other(message));
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// One thing that is wrong, and where.
#[derive(Debug)]
pub(crate) struct Wrong {
    at: Place,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl From<Marker> for Place {
    fn from(marker: Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// Reads the text of a file with options of `tidegate COMMAND`.
pub(crate) fn parse<O: Args + Default>(text: &str, command: &'static str) -> Result<O, Vec<Wrong>> {
    let entries = entries(text).map_err(|wrong| vec![wrong])?;
    let command = O::augment_args(clap::Command::new(command).no_binary_name(true).disable_help_flag(true));
    let command = command.mut_args(|arg| arg.env(Resettable::Reset));
    let mut options = O::default();
    let mut wrong = Vec::new();
    let mut given = HashSet::new();
    for entry in &entries {
        let read = if !given.insert(&entry.key) {
            Err(format!("`{}` is given twice; keep one of them", entry.key))
        } else {
            set(&mut options, &command, entry)
        };
        wrong.extend(read.err().map(|message| Wrong { at: entry.at, message }));
    }
    if wrong.is_empty() { Ok(options) } else { Err(wrong) }
}

/// Sets one option as if it had been given as a flag.
fn set<O: Args>(options: &mut O, command: &clap::Command, entry: &Entry) -> Result<(), String> {
    let Entry { key, value, .. } = entry;
    let known = || command.get_arguments().map(|arg| arg.get_id().as_str());
    if !known().any(|name| name == key) {
        return Err(match suggest::nearest(key, known()) {
            Some(name) => format!("unknown key `{key}`, did you mean `{name}`?"),
            None => {
                let name = command.get_name();
                format!("unknown key `{key}`; `tidegate {name} --help` lists all options")
            }
        });
    }
    let flag = format!("--{}={value}", key.replace('_', "-"));
    let matches = command.clone().try_get_matches_from([flag]);
    matches
        .and_then(|matches| options.update_from_arg_matches(&matches))
        .map_err(|error| hide_logins(&format!("`{key}` cannot be `{value}`: {}", reason(&error))))
}

/// Why a value is none, without the flag that nobody gave.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    match error.get(ContextKind::ValidValue) {
        Some(values) => format!("it is one of {values}"),
        None => error.kind().to_string(),
    }
}

/// A key and its value; the values of a list have commas between them.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at: Place,
    key: String,
    value: String,
}

fn entries(text: &str) -> Result<Vec<Entry>, Wrong> {
    let mut yaml = Yaml { events: Parser::new_from_str(text), values: 0 };
    let mut entries = Vec::new();
    loop {
        match yaml.next()? {
            (Event::StreamEnd, _) => return Ok(entries),
            (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            // An empty file, or nothing but comments.
            (Event::Scalar(text, ..), _) if is_null(&text) => {}
            (Event::MappingStart(..), _) => yaml.mapping(&mut entries)?,
            (_, at) => return Err(wrong(at, "write `option: value`, one per line")),
        }
    }
}

struct Yaml<'t> {
    events: Parser<'t, StrInput<'t>>,
    values: usize,
}

impl Yaml<'_> {
    fn next(&mut self) -> Result<(Event<'_>, Place), Wrong> {
        match self.events.next() {
            Some(Ok((Event::Alias(_), span))) => {
                Err(wrong(span.start.into(), "aliases stand for nothing here; write the value out"))
            }
            Some(Ok((event, span))) => {
                self.values += usize::from(matches!(event, Event::Scalar(..)));
                if self.values > MAX_VALUES {
                    let message =
                        format!("more than {MAX_VALUES} options and values; leave out what is no option");
                    return Err(wrong(span.start.into(), message));
                }
                Ok((event, span.start.into()))
            }
            Some(Err(error)) => Err(wrong((*error.marker()).into(), error.info())),
            None => Ok((Event::StreamEnd, Place { line: 1, column: 1 })),
        }
    }

    fn mapping(&mut self, entries: &mut Vec<Entry>) -> Result<(), Wrong> {
        loop {
            let (key, at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(()),
                (Event::Scalar(key, ..), at) => (key.into_owned(), at),
                (_, at) => return Err(wrong(at, "write `option: value`, one per line")),
            };
            let value = match self.next()? {
                (Event::Scalar(value, ScalarStyle::Plain, ..), _) if is_null(&value) => {
                    return Err(wrong(at, format!("`{key}` has no value; give one or leave the line out")));
                }
                (Event::Scalar(value, ..), _) => value.into_owned(),
                (Event::SequenceStart(..), _) => self.list()?.join(","),
                (_, at) => return Err(wrong(at, "a value is a text, a number or a list of them")),
            };
            entries.push(Entry { at, key, value });
        }
    }

    fn list(&mut self) -> Result<Vec<String>, Wrong> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (Event::Scalar(item, ..), _) => items.push(item.into_owned()),
                (_, at) => return Err(wrong(at, "a list has texts and numbers only")),
            }
        }
    }
}

/// How YAML writes nothing.
fn is_null(plain: &str) -> bool {
    ["", "~", "null", "Null", "NULL"].contains(&plain)
}

fn wrong(at: Place, message: impl Into<String>) -> Wrong {
    Wrong { at, message: message.into() }
}

#[cfg(test)]
mod tests {
    use crate::options::ServeOptions;

    use super::*;

    fn read(text: &str) -> Result<ServeOptions, Vec<Wrong>> {
        parse(text, "serve")
    }

    fn problems(text: &str) -> Vec<String> {
        read(text).unwrap_err().iter().map(|wrong| format!("{}: {}", wrong.at, wrong.message)).collect()
    }

    #[test]
    fn options_are_read_as_flags_are() {
        let text = "# mine\nhttp: 127.0.0.1:0\nmax_keys: 5000\nheaders: [x-ratelimit, ietf]\ntrusted_proxies: []\n\
                    tier_header: X-Tier\ndrain: 5s\nlog: json\n";
        let ServeOptions { decisions, common: options } = read(text).unwrap();
        assert_eq!(decisions.http.unwrap().to_string(), "127.0.0.1:0");
        assert_eq!((options.max_keys, decisions.grpc), (Some(5000), None));
        assert_eq!(options.headers.unwrap().0.len(), 2);
        assert_eq!(options.trusted_proxies.unwrap().0, []);
        assert_eq!(options.tier_header.unwrap(), "x-tier");
        assert!(read("").is_ok() && read("# nothing\n").is_ok() && read("{}").is_ok());
    }

    #[test]
    fn all_mistakes_are_reported_with_their_place() {
        let text = "htpp: 127.0.0.1:0\nmax-keys: 7\ngrpc: everywhere\nadmin: 127.0.0.1:1\nadmin: 127.0.0.1:2\nxyz: 1\n\
                    log: loud\nstore: redis:x\nmax_keys: many\n";
        let said = problems(text);
        assert_eq!(said[0], "1:1: unknown key `htpp`, did you mean `http`?");
        assert_eq!(said[1], "2:1: unknown key `max-keys`, did you mean `max_keys`?");
        assert!(
            said[2].starts_with("3:1: `grpc` cannot be `everywhere`: write an IP address"),
            "{}",
            said[2]
        );
        assert_eq!(said[3], "5:1: `admin` is given twice; keep one of them");
        assert_eq!(said[4], "6:1: unknown key `xyz`; `tidegate serve --help` lists all options");
        assert_eq!(said[5], "7:1: `log` cannot be `loud`: it is one of human, json");
        assert!(said[6].contains("write it as redis://127.0.0.1:6379"), "{}", said[6]);
        assert!(said[7].starts_with("9:1: `max_keys` cannot be `many`: invalid digit"), "{}", said[7]);
        assert_eq!(said.len(), 8);
    }

    #[test]
    fn what_is_too_large_or_would_grow_is_refused() {
        let alias = problems("http: &a 127.0.0.1:0\ngrpc: *a\n");
        assert_eq!(alias, ["2:7: aliases stand for nothing here; write the value out"]);
        let many: String = (0..10_001).map(|number| format!("a{number}: 1\n")).collect();
        assert_eq!(
            problems(&many),
            ["5001:1: more than 10000 options and values; leave out what is no option"]
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "#".repeat(1024 * 1024 + 1)).unwrap();
        let failure = super::read::<ServeOptions>(file.path(), "serve").unwrap_err();
        assert!(format!("{failure:?}").contains("larger than 1024 KiB"), "{failure:?}");
    }

    #[test]
    fn what_is_no_flat_mapping_is_refused() {
        for text in [
            "- http",
            "http",
            "http: {a: b}",
            "http: [[1]]",
            "[a]: b",
            "a: 'b",
            "http: *x",
            "token:",
            "token: ~",
        ] {
            assert_eq!(problems(text).len(), 1, "{text}");
        }
    }
}
