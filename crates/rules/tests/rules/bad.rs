//! Every bad text beside what is said about it.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use tidegate_rules::{Source, load, read};

use crate::{check_committed, folder};

fn fixtures() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder("tests/bad"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension != "expected"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn every_bad_text_is_refused_with_the_message_beside_it() {
    let paths = fixtures();
    assert!(paths.len() >= 25, "only {} fixtures", paths.len());
    let names: HashSet<_> = paths.iter().map(|path| path.with_extension("")).collect();
    assert_eq!(names.len(), paths.len(), "two texts share an expectation");
    let mut failures = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        match load(&[Source { name, text: &text }], 1) {
            Ok(_) => failures.push(format!("{name} is accepted")),
            Err(problems) => {
                let said = format!("{problems}\n");
                failures.extend(check_committed(&path.with_extension("expected"), &said).err());
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_expectation_has_its_text() {
    for entry in fs::read_dir(folder("tests/bad")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "expected") {
            let there = ["yaml", "json"].iter().any(|extension| path.with_extension(extension).exists());
            assert!(there, "{} has no text beside it", path.display());
        }
    }
}

#[test]
fn problems_have_a_form_for_programs() {
    let problems = read(&Source { name: "a.yaml", text: "rules:\n  - limt: 1\n" }).unwrap_err();
    let json = serde_json::to_value(&problems).unwrap();
    let unknown = json.as_array().unwrap().iter().find(|p| p["column"] == 5 && p["line"] == 2).unwrap();
    assert_eq!(unknown["file"], "a.yaml");
    assert!(unknown["message"].is_string());
    assert_eq!(unknown.as_object().unwrap().len(), 4);
}

#[test]
fn only_so_many_problems_are_kept() {
    let text = format!("[{}1]", "1,".repeat(5_000));
    let problems = read(&Source { name: "many.json", text: &text }).unwrap_err();
    assert_eq!(problems.list().len(), tidegate_rules::MAX_PROBLEMS);
    assert_eq!(problems.list().len() + problems.more(), 5_001);
    assert!(problems.to_string().ends_with("\nand 4001 more"));
}
