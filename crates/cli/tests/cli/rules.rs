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
