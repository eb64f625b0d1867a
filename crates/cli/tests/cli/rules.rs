//! `tidegate rules`.

use std::fs;

use crate::support::{fixture, run};

#[test]
fn good_files_are_said_to_be_good() {
    let rules = fixture("login.yaml");
    let rules = rules.to_str().unwrap();
    let said = run(["rules", "validate", rules]);
    assert_eq!((said.code, said.out), (0, format!("{rules}: 2 rules\n")));
    let described = run(["rules", "validate", "--json", rules]).json();
    assert_eq!(
        (described["valid"].as_bool(), described["files"][0]["rules"].as_u64()),
        (Some(true), Some(2))
    );
}

#[test]
fn all_mistakes_of_all_files_are_shown_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.yaml");
    fs::write(&bad, "rules:\n  - rule_id: a\n    identifier_type: user_id\n    limt: 5\n    window: 1x\n")
        .unwrap();
    let bad = bad.to_str().unwrap();
    let (good, nowhere) = (fixture("login.yaml"), "/nowhere.yaml");
    let said = run(["rules", "validate", bad, good.to_str().unwrap(), nowhere]);
    assert_eq!(said.code, 1);
    for text in [
        &format!("{bad}:4:5: unknown key `limt`"),
        "did you mean `limit`?",
        "    4 |     limt: 5",
        "      |     ^",
        &format!("{bad}:5:"),
        "login.yaml: 2 rules",
        "/nowhere.yaml:1:1: cannot read the file",
    ] {
        assert!(said.out.contains(text), "`{text}` is not in: {}", said.out);
    }
    let described = run(["rules", "validate", "--json", bad, nowhere]);
    assert_eq!(described.code, 1);
    let described = described.json();
    assert_eq!(described["valid"], false);
    let errors = described["errors"].as_array().unwrap();
    assert!(
        errors.len() >= 3 && errors.iter().any(|error| error["line"] == 4 && error["column"] == 5),
        "{described}"
    );
}

#[test]
fn a_folder_is_read_as_it_would_be_served() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), "tiers: {free: {limit: 1, window: 1s}}\nrules: []\n").unwrap();
    fs::write(folder.path().join("b.yaml"), "- {rule_id: t, identifier_type: user_id, tiered: true}\n")
        .unwrap();
    let said = run(["rules", "validate", folder.path().to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    let alone = run(["rules", "validate", folder.path().join("b.yaml").to_str().unwrap()]);
    assert_eq!(alone.code, 1, "{alone:?}");
}

#[test]
fn the_schema_is_one() {
    let schema = run(["rules", "schema"]).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

const MESSAGING: &str = "\
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: { unit: day, requests_per_unit: 5 }
  - { key: to_number, value: 112 }
";

#[test]
fn the_domains_of_files_for_envoy_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), MESSAGING).unwrap();
    fs::write(folder.path().join("b.yaml"), "domain: \"a\\u202eb\"\ndescriptors: [{ key: k }]\n").unwrap();
    let path = folder.path().to_str().unwrap();
    let said = run(["rules", "validate", path]);
    let expected = format!("{path}: 3 rules, 2 domains: a\\u{{202e}}b, messaging\n");
    assert_eq!((said.code, said.out), (0, expected));
    let described = run(["rules", "validate", "--json", path]).json();
    assert_eq!(described["files"][0]["domains"], serde_json::json!(["a\u{202e}b", "messaging"]));
}

#[test]
fn files_for_envoy_become_one_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("envoy")).unwrap();
    fs::write(path("envoy/messaging.yaml"), MESSAGING).unwrap();
    fs::write(path("ours.yaml"), "- { rule_id: all, identifier_type: global, limit: 1, window: 1s }\n")
        .unwrap();
    let printed = run(["rules", "convert", &path("envoy"), &path("ours.yaml")]);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    assert!(printed.out.starts_with(&format!("# Converted from {}", path("envoy"))), "{}", printed.out);
    assert!(printed.out.contains("\n  - rule_id: messaging.message_type_marketing.to_number\n"));
    let written =
        run(["rules", "convert", "--output", &path("out.yaml"), &path("envoy"), &path("ours.yaml")]);
    assert_eq!((written.code, written.out.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(path("out.yaml")).unwrap(), printed.out);
    let out = path("out.yaml");
    assert_eq!(run(["rules", "validate", &out]).out, format!("{out}: 3 rules, 1 domain: messaging\n"));
}

#[test]
fn what_cannot_be_converted_is_shown_as_validation_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.yaml");
    fs::write(&bad, MESSAGING.replace("day", "dya")).unwrap();
    let (bad, out) = (bad.to_str().unwrap(), folder.path().join("out.yaml"));
    let said = run(["rules", "convert", bad, "--output", out.to_str().unwrap()]);
    assert_eq!((said.code, said.out.as_str(), out.exists()), (1, "", false));
    assert_eq!(said.err, run(["rules", "validate", bad]).out);
    assert!(said.err.contains(&format!("{bad}:7:29: unknown `unit` `dya`, did you mean `day`?")), "{said:?}");
    let all = ["/nowhere.yaml:1:1: cannot read the file", "/neither.yaml:1:1: ", "did you mean `day`?"];
    run(["rules", "convert", "/nowhere.yaml", bad, "/neither.yaml"]).complains(1, &all);
    run(["rules", "convert"]).complains(2, &["<FILE>"]);
    let good = fixture("login.yaml");
    run(["rules", "convert", good.to_str().unwrap(), "-o", "/nowhere/x"])
        .complains(1, &["cannot write /nowhere/x"]);
}
