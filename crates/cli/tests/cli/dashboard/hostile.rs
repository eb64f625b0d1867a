//! Names that clients choose are text, whatever they say.

use serde_json::{Value, json};

use super::traffic::Traffic;
use super::{PATIENT, SOON, Site};
use crate::support::ask;

const RULES: &str = "
rules:
  - { rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 1, window: 366d }
  - { rule_id: tenant, identifier_type: tenant_id, on_missing_identity: skip, limit: 1000000, window: 1m }
  - { rule_id: described, algorithm: fixed_window, limit: 1, window: 366d, descriptor: { domain: edge, entries: [{ key: who }] } }
";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn names() -> Vec<String> {
    let mut names = [
        "<script>window.hacked=1</script>",
        "\"><img src=x onerror=window.hacked=1>",
        "javascript:window.hacked=1",
        "${window.hacked=1}",
        "\u{202e}drow siht\u{202c} \u{200f}שלום",
        "🦀🌊👩‍👩‍👧‍👦",
        "bell\u{7}escape\u{1b}[31mnull\u{0}newline\nend",
        "__proto__",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("W".repeat(10 * 1024));
    names
}

impl Site {
    /// Whether the page is no wider than its window, and nobody's script has run.
    async fn is_whole(&self, place: &str) {
        let state = "return {hacked: typeof window.hacked, wide: document.documentElement.scrollWidth, room: innerWidth,
            images: document.querySelectorAll('img, #app script, iframe').length};";
        let state: Value = self.browser.eval(state).await;
        assert_eq!(
            (&state["hacked"], &state["images"]),
            (&json!("undefined"), &json!(0)),
            "{place}: {state}"
        );
        assert!(state["wide"].as_u64() <= state["room"].as_u64(), "{place} is too wide: {state}");
    }
}

#[tokio::test]
async fn hostile_names_are_shown_and_do_nothing() {
    let site = Site::open(RULES, &[&PATIENT[..], &["--hot-key-rate", "20"]].concat()).await;
    site.browser.resize(360, 740).await;
    let names = names();
    for name in &names {
        for resource in ["/", "/", &format!("/{name}")] {
            let body = json!({"user": name, "tenant": name, "resource": resource}).to_string();
            let (status, answer) = ask(&site.node.http, "POST", "/v1/check", &body);
            // What no name can have is refused as such, and is not on the page either.
            let expected = if name.contains(char::is_control) { 400 } else { 200 };
            assert!(status == expected || resource != "/", "{answer}");
        }
    }
    for name in &names {
        let entries = json!([{"entries": [{"key": "who", "value": name}]}]);
        let body = json!({"domain": "edge", "descriptors": entries}).to_string();
        (0..2).for_each(|_| _ = ask(&site.node.http, "POST", "/json", &body));
    }
    let hot = json!({"user": names[0], "tenant": names[1], "resource": "/"}).to_string();
    let traffic = Traffic::batches(&site.node, &hot, 10);

    let list = "document.querySelector('[data-test=refused-users]').textContent";
    for name in names.iter().filter(|name| !name.contains(char::is_control)) {
        let shown: String = name.chars().take(100).collect();
        site.until(&format!("{list}.includes({})", Value::from(shown))).await;
    }
    site.until("[...document.querySelectorAll('[data-test=hot-key]')].some(e => /<script>/.test(e.textContent) && e.querySelector('[data-test=hot]'))").await;
    site.is_whole("users").await;
    for kind in ["Addresses", "Tenants", "Descriptors", "Rules", "Tiers", "Countries"] {
        let button =
            format!("[...document.querySelectorAll('button')].find(b => b.textContent === '{kind}')");
        site.until(&format!("{button} !== undefined")).await;
        site.browser.eval(&format!("{button}.click();")).await;
        site.is_whole(kind).await;
        if kind == "Descriptors" {
            site.until("document.querySelector('[data-test=refused-descriptors]').textContent.includes('who=<script>')").await;
        }
    }
    for width in [1366, 3840] {
        site.browser.resize(width, 1000).await;
        site.is_whole("a wider page").await;
    }
    site.browser.resize(360, 740).await;
    for name in &names {
        let query: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        site.goto(&format!("#/rules/~explain?path=%2F{query}&user={query}&tenant={query}")).await;
        site.shows("explain-form").await;
        site.click("explain-submit").await;
        site.shows("explain-result :is([data-test=explain-answer], .rules-bad)").await;
        site.is_whole("explain").await;
        site.goto(&format!("#/rules/{query}")).await;
        site.browser.wait_for("main h1", SOON).await;
        site.is_whole("a rule that is not there").await;
    }
    traffic.end();
    let asked_for = |text: &str| text.contains("404") || text.contains("400");
    site.has_no_errors_but(|message| message.source == "network" && asked_for(&message.text)).await;
}

#[tokio::test]
async fn the_page_runs_no_script_but_its_own() {
    let site = Site::open(RULES, &PATIENT).await;
    site.shows("mode[data-value=normal]").await;
    let policy = "return (async () => (await fetch('/', {headers: {Accept: 'text/html'}})).headers.get('content-security-policy'))()";
    assert_eq!(site.browser.eval(policy).await, POLICY);
    site.has_no_errors().await;
    let inject = "window.stopped = [];
        document.addEventListener('securitypolicyviolation', (event) => stopped.push(event.effectiveDirective));
        const script = document.createElement('script'); script.textContent = 'window.hacked = 1';
        document.body.append(script);
        document.querySelector('footer').innerHTML = '<img src=x onerror=window.hacked=1>';";
    site.browser.eval(inject).await;
    site.until("stopped.length === 2").await;
    let stopped = site.browser.eval("return stopped.sort()").await;
    assert_eq!(stopped, serde_json::json!(["script-src-attr", "script-src-elem"]));
    assert_eq!(site.browser.eval("return typeof window.hacked").await, "undefined");
}
