//! Rules looked at and changed where they are: `tidegate rules list|get|apply|diff|delete|history|rollback`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::{Etcd, Port, Postgres, Zookeeper};

use crate::support::{Said, run, tidegate};

const TWO: &str = "\
rules:
  # Orders of signed-in users.
  - rule_id: orders
    identifier_type: user_id
    algorithm: sliding_window
    limit: 50 # each
    window: 1m
  - { rule_id: login, identifier_type: ip_address, limit: 5, window: 15m }
";

const ORDERS: &str = "\
# Orders of signed-in users.
rule_id: orders
identifier_type: user_id
algorithm: sliding_window
limit: 50 # each
window: 1m
";

const TIERS: &str = "tiers: { free: { limit: 1, window: 1s } }\nrules: []\n";

/// The rules of one source, and files to change them with.
struct Rules {
    source: String,
    files: TempDir,
}

impl Rules {
    fn at(source: impl Into<String>) -> Self {
        Self { source: source.into(), files: tempfile::tempdir().unwrap() }
    }

    fn run(&self, args: &[&str]) -> Said {
        tidegate().env("TIDEGATE_RULES", &self.source).arg("rules").args(args).output().unwrap().into()
    }

    /// Runs it with something on standard input.
    fn feed(&self, args: &[&str], input: &str) -> Said {
        let mut command = tidegate();
        command.env("TIDEGATE_RULES", &self.source).arg("rules").args(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Whoever has seen enough closes it early.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap().into()
    }

    /// The path of a file that says `text`.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.files.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs what has to succeed.
    fn good(&self, args: &[&str]) -> Said {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said
    }

    fn text(&self, rule: &str) -> Option<String> {
        let said = self.run(&["get", rule]);
        (said.code == 0).then_some(said.out)
    }

    fn version(&self, rule: &str) -> String {
        self.good(&["get", "--json", rule]).json()["version"].to_string()
    }

    fn history(&self, rule: &str) -> Value {
        self.good(&["history", "--json", rule]).json()
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

/// All that can be done to a rule, one after the other.
fn round_trip(rules: &Rules) {
    let two = rules.file("two.yaml", TWO);
    let changed = rules.file("changed.yaml", &ORDERS.replace("50", "80"));

    rules.run(&["apply", &two]).complains(2, &["nothing was changed", "--yes", "--dry-run"]);
    has(&rules.good(&["apply", "--dry-run", &two]).out, &["--- orders (not there)", "+limit: 50 # each"]);
    assert_eq!(rules.text("orders"), None, "nothing was to change so far");
    has(&rules.good(&["apply", "--yes", &two]).out, &["+++ login (new)", "2 changes made"]);
    assert_eq!(rules.text("orders").as_deref(), Some(ORDERS), "comments stay");
    has(&rules.good(&["list"]).out, &["50 per 1m, sliding_window", "5 per 15m, token_bucket"]);
    let first = rules.version("orders");

    assert_eq!(rules.good(&["diff", &two]).out, "");
    assert_eq!(rules.good(&["apply", &two]).out, "Nothing to change.\n");
    let said = rules.run(&["diff", &changed]);
    assert_eq!(said.code, 1, "{said:?}");
    has(&said.out, &[&format!("--- orders (version {first})"), "-limit: 50 # each\n+limit: 80 # each\n"]);
    rules
        .run(&["apply", "--yes", "--if-version", "1234567", &changed])
        .complains(1, &[&format!("rule orders is at version {first} by now, not 1234567"), "decide anew"]);
    rules.run(&["apply", "--yes", "--create-only", &changed]).complains(1, &["orders is there already"]);
    rules.run(&["apply", "--yes", "--if-version", &first, &two]).complains(2, &["about one rule"]);
    assert_eq!(rules.text("orders").as_deref(), Some(ORDERS), "nothing of this was to change it");

    let said = rules.good(&["apply", "--yes", "--json", "--if-version", &first, &changed]).json();
    assert_eq!(
        (&said["applied"], said["changes"][0]["action"].as_str()),
        (&Value::Bool(true), Some("changed"))
    );
    assert_eq!(said["version"].to_string(), rules.version("orders"));
    let spoilt = rules.file("spoilt.yaml", &ORDERS.replace("limit", "limt"));
    rules
        .run(&["apply", "--yes", &two, &spoilt])
        .complains(1, &["spoilt.yaml:5:1: unknown key `limt`", "`limit`?"]);

    let history = rules.history("orders");
    let changes = history["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &history["changed_since"]), (2, &Value::Bool(false)), "{history}");
    assert_eq!((&changes[0]["action"], &changes[1]["action"]), (&"changed".into(), &"created".into()));
    assert!(changes.iter().all(|change| !change["by"].as_str().unwrap().is_empty()), "{history}");
    has(&rules.good(&["history", "orders"]).out, &["version", &first, "Z  ", "created"]);
    has(&rules.good(&["history", "--diff", "orders"]).out, &["-limit: 50 # each\n+limit: 80 # each\n"]);

    rules
        .run(&["rollback", "orders", "--to", "1234567"])
        .complains(1, &["at version 1234567", "rules history"]);
    rules.run(&["rollback", "orders", "--to", &first]).complains(2, &["--yes"]);
    let said = rules.good(&["rollback", "--yes", "orders", "--to", &first]);
    has(&said.out, &["+limit: 50 # each", &format!("orders: rolled back to {first}, version ")]);
    assert_eq!(rules.text("orders").as_deref(), Some(ORDERS));

    rules.run(&["delete", "login"]).complains(2, &["--yes"]);
    rules
        .run(&["delete", "--yes", "login", "nobody"])
        .complains(1, &["there is no rule nobody", "rules list"]);
    let said = rules.good(&["delete", "--yes", "login", "login"]);
    has(&said.out, &["+++ login (deleted)", "rule_id: login", "login: deleted"]);
    assert_eq!(rules.text("login"), None);
    let created = rules.history("login")["changes"][1]["version"].to_string();
    rules.good(&["rollback", "--yes", "login", "--to", &created]);
    assert!(rules.text("login").is_some(), "it is there again");

    assert_eq!(rules.feed(&["apply", "-"], &ORDERS.replace("50", "60")).code, 2, "nobody can be asked");
    assert_eq!(rules.feed(&["apply", "--yes", "-"], &ORDERS.replace("50", "60")).code, 0);
    assert!(rules.text("orders").unwrap().contains("limit: 60 # each"));
    several_at_once(rules);
    rules
        .feed(&["apply", "--yes", "-"], TIERS)
        .complains(1, &["standard input", "`tiers`", "--document NAME"]);
}

/// One of them wins, the others are told.
fn several_at_once(rules: &Rules) {
    let version = rules.version("orders");
    let said: Vec<Said> = thread::scope(|scope| {
        let apply = |limit: u32| {
            let (version, text) = (&version, ORDERS.replace("50", &limit.to_string()));
            scope.spawn(move || rules.feed(&["apply", "--yes", "--if-version", version, "-"], &text))
        };
        let each: Vec<_> = (100..104).map(apply).collect();
        each.into_iter().map(|each| each.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = said.iter().partition(|said| said.code == 0);
    assert_eq!((won.len(), lost.len()), (1, 3), "{said:?}");
    for said in lost {
        said.complains(
            1,
            &["rule orders is at version ", &format!("by now, not {version}: somebody has changed it")],
        );
    }
}

/// A whole document, where a source can have several.
fn documents(rules: &Rules, name: &str) {
    let tiers = rules.file("tiers.yaml", TIERS);
    rules.good(&["apply", "--yes", "--document", name, &tiers]);
    let listed = rules.good(&["list"]);
    has(&listed.out, &["\nDocuments\n", name]);
    assert_eq!((rules.good(&["diff", "--document", name, &tiers]).out, listed.err), Default::default());
    // By the name that is listed, too.
    let listed = rules.good(&["list", "--json"]).json();
    let mut listed =
        listed["documents"].as_array().unwrap().iter().filter_map(|document| document["name"].as_str());
    let listed = listed.find(|listed| listed.ends_with(name)).unwrap();
    for name in [name, listed] {
        has(&rules.good(&["history", "--document", name]).out, &["created"]);
        assert_eq!(rules.good(&["get", "--document", name]).out, TIERS);
    }
    rules.run(&["apply", "--document", name, &tiers, &tiers]).complains(2, &["one file"]);
    let bad = rules.file("bad.yaml", "tires: {}\n");
    rules.run(&["apply", "--yes", "--document", name, &bad]).complains(1, &["bad.yaml:1:1", "`tiers`?"]);
    rules.good(&["delete", "--yes", "--document", name]);
    rules.run(&["get", "--document", name]).complains(1, &["there is no document"]);
}

#[test]
fn rules_in_a_file_are_changed_and_its_comments_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let rules = Rules::at(path.to_str().unwrap());
    round_trip(&rules);
    // Changed with an editor.
    let edited = format!("# Ours.\n{}  # The end.\n", TWO.replace("limit: 5,", "limit: 6,"));
    fs::write(&path, &edited).unwrap();
    let new = rules.file("new.yaml", &ORDERS.replace("50", "70"));
    rules.good(&["apply", "--yes", &new]);
    assert_eq!(fs::read_to_string(&path).unwrap(), edited.replace("50", "70"));
    has(&rules.good(&["history", "login"]).out, &["login is at version ", "changed since by other means"]);
    assert_eq!(rules.history("orders")["changed_since"], false);
    rules.good(&["delete", "--yes", "login"]);
    assert_eq!(rules.history("orders")["changed_since"], false, "the version is another, the rule is not");
    rules.run(&["get", "--document", "other.yaml"]).complains(1, &["the rules are one file"]);
}

#[test]
fn a_file_with_a_mistake_keeps_all_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let orders = "{ rule_id: orders, identifier_type: global, limit: 1, window: 1s }";
    let typo = TWO.replace("limit: 5,", "limt: 5,").into_bytes();
    for (broken, why) in [(b"\xff".to_vec(), "UTF-8"), (typo, "`limt`")] {
        fs::write(&path, &broken).unwrap();
        // As the only file, and as one of a folder.
        for source in [&*path, folder.path()] {
            let rules = Rules::at(source.to_str().unwrap());
            rules.feed(&["apply", "--yes", "-"], orders).complains(1, &["rules.yaml:", why]);
            assert_eq!(rules.run(&["delete", "--yes", "orders"]).code, 1);
            has(&rules.run(&["list"]).err, &["rules.yaml", why]);
            assert_eq!(fs::read(&path).unwrap(), broken);
        }
    }
    let rules = Rules::at(folder.path().to_str().unwrap());
    let two = rules.file("two.yaml", TWO);
    rules.good(&["apply", "--yes", "--document", "rules.yaml", &two]);
    assert_eq!(fs::read_to_string(&path).unwrap(), TWO, "mended as a whole");
}

#[test]
fn rules_in_a_folder_are_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let rules = Rules::at(folder.path().to_str().unwrap());
    round_trip(&rules);
    documents(&rules, "tiers.yaml");
    assert!(folder.path().join("orders.yaml").exists() && folder.path().join("login.yaml").exists());
    let hidden = "{ rule_id: .hidden, identifier_type: global, limit: 1, window: 1s }";
    assert_eq!(rules.feed(&["apply", "--yes", "-"], hidden).code, 0);
    assert!(rules.text(".hidden").is_some(), "its file is not hidden");
    let twice = rules.file("twice.yaml", ORDERS);
    rules.run(&["apply", &twice, &twice]).complains(1, &["rule orders is in ", "keep one"]);
    rules.run(&["get", "--document", "../x.yaml"]).complains(1, &["cannot be a file of rules"]);
}

#[test]
fn rules_in_etcd() {
    let etcd = Etcd::start();
    let rules = Rules::at(format!("etcd://{}/shop", etcd.address()));
    round_trip(&rules);
    documents(&rules, "tiers");

    etcd.put("shop/rules/orders", ORDERS.replace("50", "55"));
    has(&rules.good(&["history", "orders"]).out, &["orders is at version ", "changed since by other means"]);
    etcd.put("shop/rules/orders", "{rule_id: orders, limit: \u{1b}[2J}");
    let listed = rules.good(&["list"]);
    has(&listed.err, &["shop/rules/orders is not in force, its last good version stays in force"]);
    assert!(!listed.err.contains('\u{1b}') && listed.out.contains("as last good"), "{listed:?}");
    let listed = rules.good(&["list", "--json"]).json();
    assert_eq!(listed["quarantined"][0]["name"], "shop/rules/orders");
    assert_eq!(listed["quarantined"][0]["last_good_in_force"], true);
    let good = rules.file("good.yaml", ORDERS);
    let said = rules.good(&["apply", "--yes", &good]);
    has(&said.out, &["-{rule_id: orders, limit: \\u{1b}[2J}"]);
    assert_eq!(rules.good(&["list"]).err, "", "an applied rule takes the place of a bad one");

    // More than etcd takes in one transaction.
    let many: String = (0..300)
        .map(|n| format!("- {{rule_id: many-{n}, identifier_type: user_id, limit: {n}, window: 1m}}\n"))
        .collect();
    let said = rules.feed(&["apply", "--yes", "-"], &many);
    assert_eq!(said.code, 0, "{}", said.err);
    has(&said.out, &["+{rule_id: many-299", "300 changes made"]);
    assert_eq!(rules.feed(&["apply", "--yes", "-"], &many).out, "Nothing to change.\n");
    assert_eq!(rules.good(&["list", "--json"]).json()["rules"].as_array().unwrap().len(), 302);

    etcd.pause();
    let said = rules.run(&["list", "--timeout", "200ms"]);
    etcd.resume();
    said.complains(1, &["has not answered within 200ms", "--timeout"]);
}

#[test]
fn rules_in_zookeeper() {
    let zookeeper = Zookeeper::start();
    let rules = Rules::at(format!("zookeeper://ann:secret@{}/shop/rules", zookeeper.address()));
    round_trip(&rules);
    zookeeper.put_as(Some("ann:secret"), "/shop/rules/orders", ORDERS.replace("50", "55"));
    has(&rules.good(&["history", "orders"]).out, &["changed since by other means"]);
    zookeeper.put_as(Some("ann:secret"), "/shop/rules/orders", "nonsense");
    has(&rules.good(&["list"]).err, &["/shop/rules/orders is not in force, its last good version stays"]);
    let listed = rules.good(&["list"]);
    assert!(!listed.out.contains("secret"), "{listed:?}");
}

#[test]
fn rules_in_postgresql() {
    let postgres = Postgres::start();
    let rules = Rules::at(postgres.url());
    rules.good(&["init"]);
    round_trip(&rules);
    documents(&rules, "tiers");
}

#[test]
fn where_the_rules_are_has_to_be_said() {
    run(["rules", "list"]).complains(2, &["--rules SOURCE", "TIDEGATE_RULES", "--config FILE"]);
    let folder = tempfile::tempdir().unwrap();
    let (rules, config) = (folder.path().join("rules.yaml"), folder.path().join("config.yaml"));
    fs::write(&rules, TWO).unwrap();
    fs::write(&config, format!("rules: {}\n", rules.display())).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let said = run(["rules", "list", "--config", &path(&config)]);
    assert_eq!(said.code, 0, "{said:?}");
    has(&said.out, &["orders", "login"]);
    let other = path(&folder.path().join("other.yaml"));
    let said = run(["rules", "get", "login", "--config", &path(&config), "--rules", &other]);
    said.complains(1, &["there is no rule login"]);
    fs::write(&config, "max_keys: 5\n").unwrap();
    run(["rules", "list", "--config", &path(&config)]).complains(2, &["--rules SOURCE"]);
    let nobody = Port::claim();
    let url = format!("etcd://root:secret@{}/shop", nobody.address());
    let said = run(["rules", "list", "--rules", &url]);
    said.complains(1, &["etcd at 127.0.0.1", "see that it runs there"]);
    assert!(!said.err.contains("secret"), "{said:?}");
    run(["rules", "get", "--rules", "x"]).complains(2, &["<RULE|--document <NAME>>"]);
    run(["rules", "delete", "--rules", "x", "a", "--document", "b"]).complains(2, &["cannot be used with"]);
    run(["rules", "apply", "--rules", "x"]).complains(2, &["<FILE>"]);
}

#[test]
fn nothing_a_terminal_would_obey_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, TWO).unwrap();
    let rules = Rules::at(path.to_str().unwrap());
    let evil = "\u{1b}[2J\u{202e}";
    for args in [&["get", evil][..], &["history", evil], &["delete", "--yes", evil]] {
        rules.run(args).complains(1, &["there is no rule \\u{1b}[2J\\u{202e}"]);
    }
    for id in ["../orders", "a/b", "a b", "\\e[2J", ""] {
        let text = format!("{{rule_id: \"{id}\", identifier_type: global, limit: 1, window: 1s}}");
        let said = rules.feed(&["apply", "--yes", "-"], &text);
        said.complains(1, &["standard input:1:11: `rule_id` must be"]);
        assert!(!said.err.contains('\u{1b}'));
    }
    let said = rules.feed(&["diff", "-"], &ORDERS.replace("# each", "# \u{202e}hcae"));
    has(&said.out, &["+limit: 50 # \\u{202e}hcae"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), TWO);
}

#[test]
fn what_nobody_reads_is_done_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let rules = Rules::at(path.to_str().unwrap());
    let two = rules.file("two.yaml", TWO);
    for (args, code) in [(&["diff", &two][..], 1), (&["apply", "--yes", &two], 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = tidegate();
        command.env("TIDEGATE_RULES", &path).arg("rules").args(args).stdout(writer);
        assert_eq!(command.status().unwrap().code(), Some(code), "{args:?}");
    }
    assert!(rules.text("orders").is_some());
}

/// At a terminal, as `script` makes one.
#[cfg(target_os = "linux")]
#[test]
fn somebody_at_a_terminal_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, TWO).unwrap();
    let rules = Rules::at(path.to_str().unwrap());
    let changed = rules.file("changed.yaml", &ORDERS.replace("50", "80"));
    let command = format!("{} rules apply {changed}", env!("CARGO_BIN_EXE_tidegate"));
    let answer = |answer: &str| -> Said {
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).env("TIDEGATE_RULES", &path);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    };
    for no in ["n\n", "\n", "yikes\n"] {
        let said = answer(no);
        assert_eq!(said.code, 1, "{said:?}");
        has(&said.out, &["Apply 1 change to ", "? [y/N]", "Nothing was changed."]);
        assert_eq!(fs::read_to_string(&path).unwrap(), TWO);
    }
    let said = answer("y\n");
    assert_eq!(said.code, 0, "{said:?}");
    has(&said.out, &["\u{1b}[32m+limit: 80 # each", "orders"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), TWO.replace("50", "80"));
}
