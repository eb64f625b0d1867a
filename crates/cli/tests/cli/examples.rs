//! What the repository shows works.

use std::path::{Path, PathBuf};

use crate::support::{Server, run, tidegate};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn example(name: &str) -> String {
    repository().join("examples").join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_simulation_in_the_readme_is_what_it_prints() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let output = tidegate()
        .args(["simulate", "--rules", "examples/rules.yaml", "examples/access.log"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    let (figures, chart) = said.split_once("Over time").unwrap();
    assert!(figures.contains("refused   50"), "{said}");
    assert!(readme.contains(figures), "the README shows something else than:\n{figures}");
    assert!(
        chart.lines().skip(1).filter(|line| !line.is_empty() && readme.contains(line.trim_end())).count()
            >= 3
    );
}

#[test]
fn every_example_of_rules_and_requests_is_good() {
    let rules = example("rules.yaml");
    assert_eq!(run(["rules", "validate", &rules]).code, 0);
    let said = run(["simulate", "--rules", &rules, "--json", &example("requests.jsonl")]);
    let allowed = said.out.lines().filter(|line| line.starts_with("{\"allowed\":true")).count();
    assert_eq!((said.code, said.out.lines().count(), allowed), (0, 13, 5), "five log-ins, and mallory never");
}

#[test]
fn the_example_configuration_serves() {
    let config = example("config.yaml");
    let server = Server::start_with(&["--config", &config], |command| command.current_dir(repository()));
    assert_eq!(server.check(r#"{"resource":"/cart","user":"mallory"}"#)["allowed"], false);
}
