//! `GET /` and `GET /dashboard/{file}`: a page that shows the node. It has no data, and asks for it like anybody else.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::Path;
use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::Full;

use super::index;
use crate::gzip;
use crate::reply::{Reply, Wrong};

/// The page itself.
const PAGE: &str = "index.html";

/// All files, by name.
const FILES: &[(&str, &[u8])] = &[
    (RUNBOOKS, include_bytes!("../../../../docs/operations/runbooks.md")),
    (PAGE, include_bytes!("../../../../dashboard/index.html")),
    ("api.js", include_bytes!("../../../../dashboard/api.js")),
    ("app.css", include_bytes!("../../../../dashboard/app.css")),
    ("app.js", include_bytes!("../../../../dashboard/app.js")),
    ("banner.js", include_bytes!("../../../../dashboard/banner.js")),
    ("charts.js", include_bytes!("../../../../dashboard/charts.js")),
    ("colour.js", include_bytes!("../../../../dashboard/colour.js")),
    ("columns.js", include_bytes!("../../../../dashboard/columns.js")),
    ("diff.js", include_bytes!("../../../../dashboard/diff.js")),
    ("fleet.js", include_bytes!("../../../../dashboard/fleet.js")),
    ("format.js", include_bytes!("../../../../dashboard/format.js")),
    ("heatmap.js", include_bytes!("../../../../dashboard/heatmap.js")),
    ("icons.js", include_bytes!("../../../../dashboard/icons.js")),
    ("journal.js", include_bytes!("../../../../dashboard/journal.js")),
    ("latency.js", include_bytes!("../../../../dashboard/latency.js")),
    ("live.js", include_bytes!("../../../../dashboard/live.js")),
    ("markdown.js", include_bytes!("../../../../dashboard/markdown.js")),
    ("overview.js", include_bytes!("../../../../dashboard/overview.js")),
    ("panels.css", include_bytes!("../../../../dashboard/panels.css")),
    ("parts.js", include_bytes!("../../../../dashboard/parts.js")),
    ("refusals.js", include_bytes!("../../../../dashboard/refusals.js")),
    ("requests.js", include_bytes!("../../../../dashboard/requests.js")),
    ("rules-address.js", include_bytes!("../../../../dashboard/rules-address.js")),
    ("rules-detail.js", include_bytes!("../../../../dashboard/rules-detail.js")),
    ("rules-editor.js", include_bytes!("../../../../dashboard/rules-editor.js")),
    ("rules-explain.js", include_bytes!("../../../../dashboard/rules-explain.js")),
    ("rules-history.js", include_bytes!("../../../../dashboard/rules-history.js")),
    ("rules-list.js", include_bytes!("../../../../dashboard/rules-list.js")),
    ("rules-parts.js", include_bytes!("../../../../dashboard/rules-parts.js")),
    ("rules-route.js", include_bytes!("../../../../dashboard/rules-route.js")),
    ("rules-source.js", include_bytes!("../../../../dashboard/rules-source.js")),
    ("rules-text.js", include_bytes!("../../../../dashboard/rules-text.js")),
    ("rules-words.js", include_bytes!("../../../../dashboard/rules-words.js")),
    ("rules.css", include_bytes!("../../../../dashboard/rules.css")),
    ("rules.js", include_bytes!("../../../../dashboard/rules.js")),
    ("runbook.js", include_bytes!("../../../../dashboard/runbook.js")),
    ("shards.js", include_bytes!("../../../../dashboard/shards.js")),
    ("sse.js", include_bytes!("../../../../dashboard/sse.js")),
    ("store.js", include_bytes!("../../../../dashboard/store.js")),
    ("theme.js", include_bytes!("../../../../dashboard/theme.js")),
    ("token.js", include_bytes!("../../../../dashboard/token.js")),
    ("upstreams.js", include_bytes!("../../../../dashboard/upstreams.js")),
    ("vendor-preact.js", include_bytes!("../../../../dashboard/vendor-preact.js")),
    ("vendor-uplot.css", include_bytes!("../../../../dashboard/vendor-uplot.css")),
    ("vendor-uplot.js", include_bytes!("../../../../dashboard/vendor-uplot.js")),
];

/// What to do about alerts, which the page shows.
const RUNBOOKS: &str = "runbooks.md";

/// Where all files but the page are.
const FOLDER: &str = "/dashboard/";

/// The page loads nothing from elsewhere, tells nobody anything, and is shown in no other page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every file.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-cache"),
    (VARY, "accept, accept-encoding"),
];

/// A file as it is sent, and what it is called as long as it does not change.
struct Form {
    bytes: Bytes,
    tag: HeaderValue,
}

impl Form {
    fn new(bytes: Bytes) -> Option<Self> {
        let digest = digest(&SHA256, &bytes);
        let hex: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Some(Self { bytes, tag: HeaderValue::from_str(&format!("\"{hex}\"")).ok()? })
    }
}

/// Each file as it is, and packed.
static FORMS: LazyLock<BTreeMap<&'static str, [Form; 2]>> = LazyLock::new(|| {
    let forms = |bytes| Some([Form::new(Bytes::from_static(bytes))?, Form::new(gzip::smallest(bytes))?]);
    FILES.iter().filter_map(|(name, bytes)| Some((*name, forms(bytes)?))).collect()
});

/// Whether a request is for the page or one of its files, which anybody may have.
pub(crate) fn is_asked_for(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let reading = method == Method::GET || method == Method::HEAD;
    reading && (path.starts_with(FOLDER) || (path == "/" && wants_page(headers)))
}

/// The page for browsers, a list of what there is for others.
pub(super) async fn show(headers: HeaderMap) -> Reply {
    if wants_page(&headers) {
        return file(PAGE, &headers);
    }
    let mut index = index::show();
    index.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    index
}

/// A file of the page.
pub(super) async fn show_file(Path(name): Path<String>, headers: HeaderMap) -> Reply {
    file(&name, &headers)
}

fn wants_page(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let kind = range.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("text/html")
    })
}

fn file(name: &str, headers: &HeaderMap) -> Reply {
    let Some((name, [plain, packed])) = FORMS.get_key_value(name) else {
        return Wrong::not_found(&format!("{FOLDER}{name}")).into();
    };
    let is_packed = gzip::is_read(headers);
    let Form { bytes, tag } = if is_packed { packed } else { plain };
    let known = is_known(tag, headers);
    let mut reply = Response::new(Full::new(if known { Bytes::new() } else { bytes.clone() }));
    if known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
        if is_packed {
            reply.headers_mut().insert(CONTENT_ENCODING, gzip::NAME);
        }
    }
    for (header, value) in HEADERS {
        reply.headers_mut().insert(header, HeaderValue::from_static(value));
    }
    reply.headers_mut().insert(ETAG, tag.clone());
    reply
}

/// Whether the caller has the file already.
fn is_known(tag: &HeaderValue, headers: &HeaderMap) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == *tag)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("md") => "text/markdown; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::header::ACCEPT_ENCODING;

    use super::*;

    /// All files together, as they are and packed: the page has to be there at once, over any network.
    const MOST_BYTES: [usize; 2] = [300 * 1024, 120 * 1024];

    /// What is beside the files and not served.
    const NOT_SERVED: [&str; 5] = ["README.md", "VENDOR.md", "package.json", "tests", "vendor.json"];

    #[test]
    fn every_file_of_the_page_is_served_and_nothing_else() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| name.into_string().unwrap());
        let there: BTreeSet<String> = names.filter(|name| !NOT_SERVED.contains(&&**name)).collect();
        let served: BTreeSet<String> =
            FILES.iter().map(|(name, _)| *name).filter(|name| *name != RUNBOOKS).map(str::to_owned).collect();
        assert_eq!(there, served, "the files in dashboard/ and those in FILES");
        let known = FILES.iter().all(|(name, _)| content_type(name) != "application/octet-stream");
        assert!(known, "a kind of file that has no content type yet");
    }

    #[test]
    fn the_page_is_small() {
        for (form, most) in MOST_BYTES.into_iter().enumerate() {
            let bytes: usize = FORMS.values().map(|forms| forms[form].bytes.len()).sum();
            assert!(bytes < most, "{bytes} bytes");
        }
    }

    #[test]
    fn browsers_are_told_from_programs_by_what_they_accept() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("application/json, TEXT/HTML;q=0.9", true),
            ("*/*", false),
            ("text/plain", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_page(&headers), expected, "{accept}");
            assert_eq!(is_asked_for(&Method::GET, "/", &headers), expected, "{accept}");
        }
        assert!(is_asked_for(&Method::GET, "/dashboard/app.js", &HeaderMap::new()));
        assert!(!is_asked_for(&Method::POST, "/dashboard/app.js", &HeaderMap::new()));
        assert!(!is_asked_for(&Method::GET, "/dashboards", &HeaderMap::new()));
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let fresh = file("app.js", &HeaderMap::new());
        assert_eq!(fresh.status(), StatusCode::OK);
        assert_eq!(fresh.headers()[CONTENT_SECURITY_POLICY], POLICY);
        let tag = fresh.headers()[ETAG].to_str().unwrap();
        for (sent, expected) in [
            (tag.to_owned(), StatusCode::NOT_MODIFIED),
            (format!("\"other\", W/{tag}"), StatusCode::NOT_MODIFIED),
            ("*".to_owned(), StatusCode::NOT_MODIFIED),
            ("\"other\"".to_owned(), StatusCode::OK),
        ] {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::try_from(&sent).unwrap())]);
            assert_eq!(file("app.js", &headers).status(), expected, "{sent}");
        }
        let reads = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let packed = file("app.js", &reads);
        assert_eq!((packed.status(), &packed.headers()[CONTENT_ENCODING]), (StatusCode::OK, &gzip::NAME));
        assert_ne!(packed.headers()[ETAG], tag, "other bytes have another tag");
        assert_eq!(file("../Cargo.toml", &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
    }
}
