//! Traces, from the outside: a collector gets what happened.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use tempfile::TempDir;
use tidegate_testkit::{Backend, Certificates, Redis};

use crate::collector::{Collector, Got};
use crate::gateway::Gateway;
use crate::support::{Server, answer, ask, begin_with, run, wait_for};

const RULES: &str = "
rules:
  - { rule_id: planned, limit: 9, window: 1h, descriptor: { domain: edge, entries: [{ key: plan }] } }
  - { rule_id: slow, identifier_type: user_id, limit: 1, window: 1s, on_limit: delay, max_delay: 30s,
      match: { path_pattern: /slow } }
  - { rule_id: few, identifier_type: user_id, algorithm: fixed_window, limit: 1, window: 52w,
      match: { path_pattern: /few } }
  - { rule_id: open, identifier_type: user_id, limit: 9, window: 1h,
      on_store_failure: allow, match: { path_pattern: /open } }
  - { rule_id: closed, identifier_type: user_id, limit: 9, window: 1h,
      on_store_failure: deny, match: { path_pattern: /closed } }
";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A server that traces so many of its requests.
fn serve(folder: &TempDir, collector: &str, sample: &str, args: &[&str]) -> Server {
    serve_with(folder, collector, sample, args, |command| command)
}

fn serve_with(
    folder: &TempDir,
    collector: &str,
    sample: &str,
    args: &[&str],
    adjust: impl FnOnce(&mut Command) -> &mut Command,
) -> Server {
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let own = ["--rules", rules.to_str().unwrap(), "--otlp", collector, "--trace-sample", sample];
    Server::start_with(&[&own, args].concat(), adjust)
}

/// How many spans became of it.
fn spans(server: &Server, outcome: &str) -> u64 {
    let (_, metrics) = server.admin("/metrics");
    let name = format!("tidegate_spans_total{{outcome=\"{outcome}\"}} ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&name));
    count.unwrap_or_else(|| panic!("no {outcome} in {metrics}")).parse().unwrap()
}

fn body(path: &str) -> String {
    format!(r#"{{"user":"alice-the-secret","resource":"{path}"}}"#)
}

/// Asks with a header that names a trace.
fn ask_within(server: &str, method: &str, path: &str, body: &str, parent: &str) -> (u16, String) {
    let mut stream = begin_with(server, method, path, body.len(), &format!("traceparent: {parent}\r\n"));
    stream.write_all(body.as_bytes()).unwrap();
    answer(stream)
}

fn only<'g>(trace: &'g [Got], name: &str) -> &'g Got {
    let found: Vec<&Got> = trace.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {trace:#?}");
    found[0]
}

/// Fails unless `span` is part of `parent`, and not longer.
fn is_within(span: &Got, parent: &Got) {
    assert_eq!((&span.parent, &span.trace), (&parent.id, &parent.trace), "{span:?} in {parent:?}");
    assert!(span.lasted.0 >= parent.lasted.0 && span.lasted.1 <= parent.lasted.1, "{span:?} in {parent:?}");
}

/// What a span says, in words.
fn says(span: &Got, wanted: &[(&str, &str)]) {
    for (name, value) in wanted {
        assert_eq!(span.get(name), *value, "{name} of {span:?}");
    }
}

#[test]
fn a_decision_in_memory_is_a_trace_of_three_spans() {
    let (collector, folder) = (Collector::start(), TempDir::new().unwrap());
    let server = serve(&folder, &collector.url(), "1", &[]);
    assert_eq!(server.check(&body("/few"))["allowed"], true);
    let trace = collector.trace_with(&["check", "match", "store"]);
    assert_eq!(trace.len(), 3, "{trace:#?}");
    let check = only(&trace, "check");
    assert_eq!(check.parent, "", "{check:?}");
    says(
        check,
        &[
            ("tidegate.outcome", "allowed"),
            ("tidegate.status", "enforced"),
            ("tidegate.rule", "few"),
            ("tidegate.rules_version", "1"),
        ],
    );
    is_within(only(&trace, "match"), check);
    is_within(only(&trace, "store"), check);
    says(only(&trace, "match"), &[("tidegate.rules", "1")]);
    says(only(&trace, "store"), &[("tidegate.shard", "memory"), ("tidegate.outcome", "allowed")]);
    let about =
        |name: &str| check.resource.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    assert_eq!(about("service.name"), Some("tidegate"));
    assert!(about("service.instance.id").is_some_and(|name| !name.is_empty()), "{check:?}");
    assert_eq!(about("service.version"), Some(env!("CARGO_PKG_VERSION")));

    assert_eq!(server.check(&body("/few"))["allowed"], false);
    wait_for("the refusal", || {
        let all = collector.all();
        all.iter().find(|span| span.name == "check" && span.get("tidegate.outcome") == "refused").map(|_| ())
    });
    // Who asked is nobody's business.
    assert!(!format!("{:?}", collector.all()).contains("alice"), "{:#?}", collector.all());
    let (_, metrics) = server.admin("/metrics");
    assert!(metrics.contains("tidegate_spans_total{outcome=\"exported\"}"), "{metrics}");
}

#[test]
fn the_way_to_redis_and_without_it_is_seen() {
    let (collector, folder, redis) = (Collector::start(), TempDir::new().unwrap(), Redis::start());
    let url = redis.url();
    let server = serve(&folder, &collector.url(), "1", &["--store", &url, "--store-timeout", "2s"]);
    wait_for("the store", || (server.check(&body("/few"))["status"] == "enforced").then_some(()));
    let trace = wait_for("a decision by the store", || {
        let all = collector.all();
        let decided = all.iter().find(|span| {
            span.name == "check"
                && span.get("tidegate.status") == "enforced"
                && span.get("tidegate.rule") == "few"
        })?;
        let trace: Vec<Got> = all.iter().filter(|span| span.trace == decided.trace).cloned().collect();
        trace.iter().any(|span| span.name == "store").then_some(trace)
    });
    let check = only(&trace, "check");
    is_within(only(&trace, "match"), check);
    let store = only(&trace, "store");
    is_within(store, check);
    says(store, &[("tidegate.shard", &redis.address().to_string()), ("tidegate.operations", "1")]);

    redis.kill();
    let fell = |path: &str, how: &str, outcome: &str| {
        wait_for(&format!("{path} without the store"), || {
            ask(&server.http, "POST", "/v1/check", &body(path));
            let all = collector.all();
            let back = all.iter().find(|span| span.name == "fallback" && span.get("tidegate.how") == how)?;
            let check = all.iter().find(|span| span.name == "check" && span.trace == back.trace)?;
            is_within(back, check);
            says(check, &[("tidegate.outcome", outcome), ("tidegate.rule", path.trim_start_matches('/'))]);
            Some(())
        });
    };
    fell("/open", "open", "failed_open");
    fell("/closed", "deny", "unavailable");
    // It was used up, and stays so.
    fell("/few", "local", "refused");
    assert!(
        collector
            .all()
            .iter()
            .any(|span| span.name == "store" && span.get("tidegate.outcome") == "unavailable"),
        "{:#?}",
        collector.all()
    );
}

#[test]
fn callers_who_are_trusted_decide_and_others_do_not() {
    let (collector, folder) = (Collector::start(), TempDir::new().unwrap());
    let server = serve(&folder, &collector.url(), "0", &[]);
    let stranger = TempDir::new().unwrap();
    let wary = serve(&stranger, &collector.url(), "0", &["--trusted-proxies", "192.0.2.0/24"]);
    let (sampled, unsampled) = (format!("00-{TRACE}-{SPAN}-01"), format!("00-{TRACE}-{SPAN}-00"));
    server.check(&body("/open"));
    ask_within(&server.http, "POST", "/v1/check", &body("/open"), &unsampled);
    ask_within(&server.http, "POST", "/v1/check", &body("/open"), "00-nonsense");
    ask_within(&wary.http, "POST", "/v1/check", &body("/open"), &sampled);
    let (status, _) = ask_within(&server.http, "POST", "/v1/check", &body("/few"), &sampled);
    assert_eq!(status, 200);
    let trace = collector.trace_with(&["check", "match", "store"]);
    says(only(&trace, "check"), &[("tidegate.rule", "few")]);
    assert_eq!((only(&trace, "check").trace.as_str(), only(&trace, "check").parent.as_str()), (TRACE, SPAN));
    // A batch is one span, whatever is in it.
    let batch = format!("[{},{}]", body("/open"), body("/open"));
    ask_within(&server.http, "POST", "/v1/check/batch", &batch, &sampled);
    ask_within(&server.http, "GET", "/v1/authorize", "", &sampled);
    wait_for("the batch, and what a proxy asks", || {
        let all = collector.all();
        let batch = all.iter().find(|span| span.name == "batch")?;
        says(batch, &[("tidegate.items", "2")]);
        (all.iter().filter(|span| span.name == "check").count() == 2).then_some(())
    });
    // The last words of both: there was nothing else to say.
    drop((server.end(), wary.end()));
    let all = collector.all();
    let count = |name: &str| all.iter().filter(|span| span.name == name).count();
    assert_eq!((all.len(), count("check"), count("batch")), (7, 2, 1), "{all:#?}");
    assert!(all.iter().all(|span| span.trace == TRACE), "{all:#?}");
}

#[test]
fn what_proxies_ask_over_grpc_is_seen() {
    let (collector, folder, redis) = (Collector::start(), TempDir::new().unwrap(), Redis::start());
    let (other, url) = (TempDir::new().unwrap(), redis.url());
    let servers = [
        serve(&folder, &collector.url(), "1", &[]),
        serve(&other, &collector.url(), "1", &["--store", &url, "--store-timeout", "2s"]),
    ];
    for server in &servers {
        let shard =
            if server.grpc == servers[0].grpc { "memory".to_owned() } else { redis.address().to_string() };
        wait_for("a decision in the right place", || {
            let edge = ["check", "--grpc", "--server", &server.grpc, "--domain", "edge"];
            run(edge.iter().chain(&["--descriptors", "plan=alice-the-secret"]));
            let all = collector.all();
            let store =
                all.iter().find(|span| span.name == "store" && span.get("tidegate.shard") == shard)?;
            let check = all.iter().find(|span| span.id == store.parent)?;
            let matched = all.iter().find(|span| span.name == "match" && span.parent == check.id)?;
            is_within(store, check);
            is_within(matched, check);
            says(check, &[("tidegate.rule", "planned"), ("tidegate.rules_version", "1")]);
            Some(())
        });
    }
    assert!(!format!("{:?}", collector.all()).contains("alice"), "{:#?}", collector.all());
}

#[test]
fn waiting_for_a_turn_is_seen() {
    let (collector, folder) = (Collector::start(), TempDir::new().unwrap());
    let server = serve(&folder, &collector.url(), "1", &[]);
    let patient = r#"{"user":"alice-the-secret","resource":"/slow","wait_ms":30000}"#;
    for _ in 0..3 {
        assert_eq!(server.check(patient)["allowed"], true);
    }
    let trace = collector.trace_with(&["check", "wait"]);
    let (check, wait) = (only(&trace, "check"), only(&trace, "wait"));
    is_within(wait, check);
    says(check, &[("tidegate.outcome", "allowed"), ("tidegate.rule", "slow")]);
    assert!(
        trace.iter().filter(|span| span.name == "store").count() >= 2,
        "asked before and after: {trace:#?}"
    );
}

#[test]
fn the_owner_of_a_key_being_asked_is_seen() {
    let (collector, redis) = (Collector::start(), Redis::start());
    let (folder, url) = (TempDir::new().unwrap(), redis.url());
    let secret = folder.path().join("secret");
    fs::write(&secret, "c".repeat(44)).unwrap();
    let node = |name: &str, sample: &str, peers: &str| {
        let mut args = vec!["--store", &url, "--cluster", "127.0.0.1:0", "--node-name", name];
        args.extend(["--cluster-secret", secret.to_str().unwrap(), "--store-timeout", "200ms"]);
        if !peers.is_empty() {
            args.extend(["--peers", peers]);
        }
        serve(&folder, &collector.url(), sample, &args)
    };
    let cluster = |server: &Server| -> serde_json::Value {
        serde_json::from_str(&server.admin("/v1/cluster").1).unwrap()
    };
    let south = node("south", "0", "");
    let north = node("north", "1", cluster(&south)["address"].as_str().unwrap());
    wait_for("both to know each other", || {
        [&south, &north]
            .iter()
            .all(|node| cluster(node)["members"].as_array().unwrap().len() == 1)
            .then_some(())
    });
    redis.kill();
    let mut user = 0;
    let back = wait_for("the owner to be asked", || {
        user += 1;
        north.check(&format!(r#"{{"user":"user-{user}","resource":"/few"}}"#));
        let all = collector.all();
        let peer =
            all.iter().find(|span| span.name == "peer" && span.get("tidegate.asked") == "decide")?.clone();
        let back = all.iter().find(|span| span.id == peer.parent)?.clone();
        is_within(&peer, &back);
        assert_eq!(peer.get("tidegate.node").len(), 16, "{peer:?}");
        Some(back)
    });
    says(&back, &[("tidegate.how", "owner")]);
    assert!(back.name == "fallback" && is_of(&back, "north"), "{back:?}");
    // What the owner does is part of the same trace, though it traces nothing of its own accord.
    wait_for("the owner's part", || {
        let all = collector.all();
        let answer =
            all.iter().find(|span| span.name == "answer" && span.get("tidegate.asked") == "decide")?;
        let peer = all.iter().find(|span| span.id == answer.parent)?;
        let decided = all.iter().find(|span| span.name == "fallback" && span.parent == answer.id)?;
        assert!(is_of(answer, "south") && is_of(decided, "south") && is_of(peer, "north"), "{all:#?}");
        is_within(answer, peer);
        assert_eq!(decided.trace, peer.trace);
        Some(())
    });
    let own = |span: &Got| is_of(span, "south") && span.name == "check";
    assert!(!collector.all().iter().any(own), "{:#?}", collector.all());
}

/// Whether a span is of the node with that name.
fn is_of(span: &Got, node: &str) -> bool {
    span.resource.iter().any(|(key, value)| key == "service.instance.id" && value == node)
}

#[test]
fn what_was_not_sent_yet_is_sent_at_the_end() {
    let (collector, folder) = (Collector::start(), TempDir::new().unwrap());
    let server = serve(&folder, &collector.url(), "1", &[]);
    for _ in 0..50 {
        server.check(&body("/open"));
    }
    drop(server.end());
    let all = collector.all();
    assert_eq!(all.iter().filter(|span| span.name == "check").count(), 50, "{}", all.len());
}

#[test]
fn a_collector_that_is_away_costs_nothing_but_its_spans() {
    let folder = TempDir::new().unwrap();
    // Nobody listens there: it is none of the ports that tests are given.
    let server = serve(&folder, "http://127.0.0.1:1", "1", &[]);
    for _ in 0..30 {
        assert_eq!(server.check(&body("/open"))["status"], "enforced");
    }
    wait_for("the failure to be counted", || (spans(&server, "failed") >= 90).then_some(()));
    wait_for("the log to say so", || {
        server.log().contains("the collector does not take spans").then_some(())
    });
    let log = server.end();
    assert_eq!(log.matches("the collector does not take spans").count(), 1, "{log}");
}

#[test]
fn a_collector_is_spoken_to_over_tls_if_the_system_trusts_it() {
    let certificates = Certificates::generate();
    let (collector, folder) = (Collector::start_tls(&certificates), TempDir::new().unwrap());
    let trusting = serve_with(&folder, &collector.url(), "1", &[], |command| {
        command.env("SSL_CERT_FILE", certificates.authority())
    });
    trusting.check(&body("/few"));
    assert_eq!(collector.trace_with(&["check", "match", "store"]).len(), 3);
    drop(trusting.end());

    let stranger = Certificates::generate();
    let wary = serve_with(&folder, &collector.url(), "1", &[], |command| {
        command.env("SSL_CERT_FILE", stranger.authority())
    });
    wary.check(&body("/few"));
    wait_for("the failure to be counted", || (spans(&wary, "failed") == 3).then_some(()));
    let log = wary.end();
    assert!(log.contains("the collector does not take spans"), "{log}");
    assert_eq!(collector.all().len(), 3, "nothing of it got there");
}

#[test]
fn back_ends_hear_of_the_trace_they_are_part_of() {
    let (collector, backend) = (Collector::start(), Backend::start());
    let to = format!("http://{}", backend.address());
    let gateway = Gateway::start(&["--upstream", &to, "--otlp", &collector.url(), "--trace-sample", "0"]);
    // The back end tells what it was sent.
    let passed = |parent: &str| ask_within(&gateway.listen, "GET", "/orders/7", "", parent).1;
    let unsampled = format!("00-{TRACE}-{SPAN}-00");
    assert!(passed(&unsampled).contains(&format!("traceparent: {unsampled}\n")), "passes as it came");
    let told = passed(&format!("00-{TRACE}-{SPAN}-01"));
    let trace = collector.trace_with(&["gateway", "check", "match", "store", "forward"]);
    let (root, check, forward) = (only(&trace, "gateway"), only(&trace, "check"), only(&trace, "forward"));
    assert_eq!((root.trace.as_str(), root.parent.as_str()), (TRACE, SPAN));
    is_within(check, root);
    is_within(forward, root);
    is_within(only(&trace, "store"), check);
    says(root, &[("http.response.status_code", "200")]);
    says(forward, &[("http.response.status_code", "200")]);
    assert!(told.contains(&format!("traceparent: 00-{TRACE}-{}-01\n", forward.id)), "{told}");
}

#[test]
fn wrong_options_name_the_fix() {
    run(["serve", "--trace-sample", "0.5"]).complains(2, &["--otlp http://HOST:4317"]);
    run(["serve", "--otlp", "127.0.0.1:4317"]).complains(2, &["127.0.0.1:4317", "http://"]);
    run(["serve", "--otlp", "http://127.0.0.1:4317", "--trace-sample", "2"]).complains(2, &["from 0 to 1"]);
}
