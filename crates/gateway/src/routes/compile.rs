//! From documents to routes, or to everything that is wrong with them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::Method;
use tidegate_core::Path;
use tidegate_core::pattern::{Pattern, Segment};

use super::document::{self, Document, RouteEntry};
use super::group::{self, RESPONSE_TIMEOUT, Wrong};
use super::{HostHeader, HostPattern, MAX_GROUPS, MAX_ROUTES, Prefix, Problem, Problems, Route, Routes};
use crate::upstream::{Group, Settings};

pub(super) fn compile(documents: &[(&str, &str)]) -> Result<Routes, Problems> {
    let mut compiler = Compiler::default();
    let mut read = Vec::new();
    for (name, text) in documents {
        match Document::read(name, text) {
            Ok(document) => read.push((*name, document)),
            Err(problem) => compiler.problems.add(problem),
        }
    }
    // A document that cannot be read may have the groups that others name.
    if !compiler.problems.is_empty() {
        return Err(compiler.problems);
    }
    for (name, document) in &read {
        compiler.add_groups(name, document);
    }
    for (name, document) in &read {
        compiler.add_routes(name, document);
    }
    let whole = documents.first().map_or("routes", |(name, _)| name);
    compiler.finish(whole)
}

pub(super) fn single<S: AsRef<str>>(urls: &[S]) -> Result<Routes, Problems> {
    let mut wrong = Wrong::default();
    let members = wrong.members(urls.iter().map(|url| (url.as_ref(), None)));
    let group = match wrong.0.is_empty() {
        true => {
            Group::new("upstream", members, Settings::default()).map_err(|error| wrong.add(error.to_string()))
        }
        false => Err(()),
    };
    let Ok(group) = group else {
        let mut problems = Problems::default();
        wrong.0.into_iter().for_each(|message| problems.add(Problem::new("--upstream", None, message)));
        return Err(problems);
    };
    let group = Arc::new(group);
    let Ok(path) = "/*".parse::<Pattern>() else { return Err(Problems::default()) };
    let route = Route {
        number: 1,
        host: HostPattern::Any,
        path,
        methods: Vec::new(),
        response_timeout: group.settings().response_timeout,
        group: Arc::clone(&group),
        retries: 1,
        host_header: HostHeader::Keep,
        prefix: None,
    };
    Ok(Routes::new(vec![route], vec![group]))
}

/// Routes with the same host and path: their numbers and methods.
type Alike = Vec<(usize, Vec<Method>)>;

#[derive(Default)]
struct Compiler {
    problems: Problems,
    /// By name; nothing for one that is named but not good.
    groups: BTreeMap<String, Option<Arc<Group>>>,
    routes: Vec<Route>,
    /// How many routes there are, with those that are not good.
    count: usize,
    alike: HashMap<(HostPattern, Vec<Segment>), Alike>,
}

impl Compiler {
    fn add_groups(&mut self, document: &str, read: &Document) {
        let mut entries: Vec<_> = read.upstreams.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.referenced.line());
        for (name, entry) in entries {
            let line = Some(entry.referenced.line());
            let tell =
                |message: String| Problem::new(document, line, format!("upstream `{name}`: {message}"));
            if self.groups.contains_key(name) {
                self.problems.add(tell("another document has one of this name; give it another".to_owned()));
                continue;
            }
            let group = group::group(name, &entry.value)
                .map_err(|wrong| wrong.into_iter().for_each(|message| self.problems.add(tell(message))));
            self.groups.insert(name.clone(), group.ok().map(Arc::new));
        }
    }

    fn add_routes(&mut self, document: &str, read: &Document) {
        for entry in &read.routes {
            self.count += 1;
            if self.count > MAX_ROUTES {
                continue;
            }
            let line = Some(entry.referenced.line());
            let mut wrong = Wrong::default();
            let route = self.route(&mut wrong, &entry.value);
            if let Some(route) = route.filter(|_| wrong.0.is_empty()) {
                self.routes.push(route);
            }
            let shown = |text: &Option<String>| text.as_deref().unwrap_or("*").chars().take(100).collect();
            let (host, path): (String, String) = (shown(&entry.value.host), shown(&entry.value.path));
            for message in wrong.0 {
                let message = format!("route {} ({host} {path}): {message}", self.count);
                self.problems.add(Problem::new(document, line, message));
            }
        }
    }

    fn route(&mut self, wrong: &mut Wrong, entry: &RouteEntry) -> Option<Route> {
        let host = HostPattern::read(entry.host.as_deref().unwrap_or("*")).map_err(|error| wrong.add(error));
        let path = entry.path.as_deref().unwrap_or("/*").parse::<Pattern>();
        let path = path.map_err(|error| wrong.add(format!("path: {error}")));
        let methods = methods(wrong, entry);
        let group = self.target(wrong, &entry.upstream.0);
        let usual = group
            .as_ref()
            .map_or(Settings::default().response_timeout, |group| group.settings().response_timeout);
        let response_timeout =
            wrong.span("response_timeout", entry.response_timeout.as_deref(), &RESPONSE_TIMEOUT, usual);
        let retries = wrong.number("retries", entry.retries, 0..=10, 1);
        let (host, path) = (host.ok()?, path.ok()?);
        let prefix = entry.prefix.as_ref().and_then(|prefix| self::prefix(wrong, prefix, &path));
        self.reach(wrong, &host, &path, &methods);
        Some(Route {
            number: self.count,
            host,
            path,
            methods,
            group: group?,
            response_timeout,
            retries,
            host_header: entry.host_header,
            prefix,
        })
    }

    /// The group that a route names, or the one made of the servers it names.
    fn target(&mut self, wrong: &mut Wrong, names: &[String]) -> Option<Arc<Group>> {
        match names {
            [name] if !name.contains("://") => match self.groups.get(name) {
                Some(group) => group.clone(),
                None => {
                    wrong.add(self.unknown(name));
                    None
                }
            },
            urls => {
                let before = wrong.0.len();
                let members = wrong.members(urls.iter().map(|url| (url.as_str(), None)));
                if wrong.0.len() > before {
                    return None;
                }
                let origins: Vec<String> = members.iter().map(|member| member.origin.to_string()).collect();
                let name = origins.join(",");
                if let Some(known) = self.groups.get(&name) {
                    return known.clone();
                }
                let group = Group::new(&name, members, Settings::default());
                let group = group.map_err(|error| wrong.add(format!("upstream: {error}"))).ok().map(Arc::new);
                self.groups.insert(name, group.clone());
                group
            }
        }
    }

    fn unknown(&self, name: &str) -> String {
        let near = self.groups.keys().filter(|known| !known.contains("://"));
        let near = near.map(|known| (strsim::osa_distance(name, known), known)).min();
        let shown: String = name.chars().take(100).collect();
        match near {
            _ if name.contains(':') => format!("upstream `{shown}` is no URL; write http://{shown}"),
            Some((distance, known)) if distance <= 2 => {
                format!("there is no upstream `{shown}`; do you mean `{known}`?")
            }
            _ => format!("there is no upstream `{shown}`; add it to `upstreams` or write a URL"),
        }
    }

    /// Tells if other routes leave nothing for this one.
    fn reach(&mut self, wrong: &mut Wrong, host: &HostPattern, path: &Pattern, methods: &[Method]) {
        let alike = self.alike.entry((host.clone(), path.segments().to_vec())).or_default();
        let takes = |method: Option<&Method>| {
            alike.iter().find(|(_, taken)| method.map_or(taken.is_empty(), |method| taken.contains(method)))
        };
        let before = match methods {
            [] => takes(None),
            some => some.iter().map(|method| takes(Some(method))).reduce(Option::and).flatten(),
        };
        if let Some((number, _)) = before {
            wrong.add(format!(
                "can never be reached: route {number} has the same host, path and methods; remove one"
            ));
        }
        alike.push((self.count, methods.to_vec()));
    }

    fn finish(mut self, whole: &str) -> Result<Routes, Problems> {
        let mut tell = |message: String| self.problems.add(Problem::new(whole, None, message));
        if self.count == 0 {
            tell(
                "there are no routes; add one, such as `routes: [{upstream: http://127.0.0.1:9000}]`"
                    .to_owned(),
            );
        }
        if self.count > MAX_ROUTES {
            tell(format!("{} routes are too many; there can be {MAX_ROUTES}", self.count));
        }
        if self.groups.len() > MAX_GROUPS {
            tell(format!("{} upstreams are too many; there can be {MAX_GROUPS}", self.groups.len()));
        }
        match self.problems.is_empty() {
            true => Ok(Routes::new(self.routes, self.groups.into_values().flatten().collect())),
            false => Err(self.problems),
        }
    }
}

fn methods(wrong: &mut Wrong, entry: &RouteEntry) -> Vec<Method> {
    let Some(texts) = &entry.methods else { return Vec::new() };
    if texts.0.is_empty() {
        wrong.add("methods: the list is empty; leave it out for all methods");
    }
    let mut methods: Vec<Method> = Vec::new();
    for text in &texts.0 {
        match Method::from_bytes(text.as_bytes()) {
            Ok(method) if text.len() <= 32 && !text.contains(|c: char| c.is_ascii_lowercase()) => {
                methods.push(method);
            }
            _ => {
                let shown: String = text.chars().take(32).collect();
                let upper = shown.to_ascii_uppercase();
                wrong.add(format!("methods: `{shown}` is none; write it in capitals, such as {upper}"));
            }
        }
    }
    methods
}

/// What a route does to paths. Only paths that have what is stripped may be routed there.
fn prefix(wrong: &mut Wrong, entry: &document::Prefix, pattern: &Pattern) -> Option<Prefix> {
    let strip = part(wrong, "strip", entry.strip.as_deref())?;
    let add = part(wrong, "add", entry.add.as_deref())?;
    let wanted = strip.split('/').skip(1).map(Some);
    let has = pattern.segments().iter().map(|segment| match segment {
        Segment::Literal(text) => Some(&**text),
        _ => None,
    });
    if !wanted.eq(has.take(strip.matches('/').count())) {
        wrong.add(format!(
            "prefix: cannot strip {strip} from paths that may not start with it; \
             set `path: {strip}/**`, or another that does"
        ));
    }
    Some(Prefix { strip, add })
}

/// A prefix in normal form; empty if there is none.
fn part(wrong: &mut Wrong, what: &str, text: Option<&str>) -> Option<Box<str>> {
    let Some(text) = text else { return Some("".into()) };
    match Path::parse(text) {
        Ok(path)
            if text.starts_with('/') && path.decoded().is_none() && !text.contains(['?', '#', '*', '{']) =>
        {
            Some(path.as_str().trim_end_matches('/').into())
        }
        _ => {
            let shown: String = text.chars().take(100).collect();
            wrong.add(format!("prefix: {what} `{shown}` is no path; write one such as /v1"));
            None
        }
    }
}
