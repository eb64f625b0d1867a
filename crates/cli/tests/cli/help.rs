//! Help, versions, completions, and the ways to get it wrong.

use crate::support::run;

#[test]
fn every_command_explains_itself_with_examples() {
    let commands: [&[&str]; 20] = [
        &[],
        &["serve"],
        &["check"],
        &["explain"],
        &["rules"],
        &["rules", "validate"],
        &["rules", "convert"],
        &["rules", "schema"],
        &["rules", "list"],
        &["rules", "get"],
        &["rules", "apply"],
        &["rules", "diff"],
        &["rules", "delete"],
        &["rules", "history"],
        &["rules", "rollback"],
        &["simulate"],
        &["token"],
        &["token", "new"],
        &["token", "hash"],
        &["completions"],
    ];
    for command in commands {
        let said = run(command.iter().chain(&["--help"]));
        assert_eq!(said.code, 0, "{command:?}");
        assert!(said.out.contains("Examples:\n  tidegate "), "{command:?}: {}", said.out);
        assert!(!said.out.contains('\u{1b}'));
    }
    assert!(run(["serve", "--help"]).out.contains("TIDEGATE_MAX_KEYS=]"));
}

#[test]
fn the_version() {
    assert_eq!(run(["--version"]).out, concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = run(["completions", shell]);
        assert_eq!(said.code, 0);
        assert!(said.out.contains("simulate") && said.out.contains("skip-bad-lines"), "{shell}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    run::<&str>([]).complains(2, &["Usage: tidegate"]);
    run(["sevre"]).complains(2, &["serve"]);
    run(["serve", "--htpp", "x"]).complains(2, &["--http"]);
    run(["simulate", "x.jsonl"]).complains(2, &["--rules <FILE>"]);
    run(["completions", "tcsh"]).complains(2, &["possible values"]);
}
