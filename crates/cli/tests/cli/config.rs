//! The command line goes before the environment, the environment before the file, the file before the defaults.

use std::fs;

use crate::support::{Server, run};

/// What `tidegate serve` takes for the largest number of counters.
fn max_keys(flag: Option<&str>, variable: Option<&str>, file: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let mut args = Vec::new();
    if let Some(text) = file {
        fs::write(&path, format!("# mine\nmax_keys: {text}\nheaders: [x-ratelimit, ietf]\n")).unwrap();
        args.extend(["--config", path.to_str().unwrap()]);
    }
    args.extend(flag.into_iter().flat_map(|text| ["--max-keys", text]));
    let server = Server::start_with(&args, |command| match variable {
        Some(text) => command.env("TIDEGATE_MAX_KEYS", text),
        None => command,
    });
    let out = server.out();
    let line = out.lines().find(|line| line.contains("store  memory")).unwrap();
    line.rsplit(' ').nth(1).unwrap().to_owned()
}

#[test]
fn the_first_to_say_it_counts() {
    assert_eq!(max_keys(None, None, None), "1,000,000");
    assert_eq!(max_keys(None, None, Some("1000")), "1,000");
    assert_eq!(max_keys(None, Some("2000"), Some("1000")), "2,000");
    assert_eq!(max_keys(Some("3000"), Some("2000"), Some("1000")), "3,000");
}

#[test]
fn the_file_can_be_named_in_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    fs::write(&path, "max_keys: 4000\n").unwrap();
    let server = Server::start_with(&[], |command| command.env("TIDEGATE_CONFIG", &path));
    assert!(server.out().contains("up to 4,000 counters"), "{}", server.out());
}

#[test]
fn mistakes_in_the_file_are_named_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    fs::write(&path, "htpp: 127.0.0.1:0\nmax-keys: 7\nadmin: nowhere\n").unwrap();
    let said = run(["serve", "--config", path.to_str().unwrap()]);
    said.complains(
        2,
        &[
            "the configuration file cannot be used",
            "tidegate.yaml:1:1: unknown key `htpp`, did you mean `http`?",
            "tidegate.yaml:2:1: unknown key `max-keys`, did you mean `max_keys`?",
            "tidegate.yaml:3:1: `admin` cannot be `nowhere`: write an IP address and a port",
        ],
    );
    run(["serve", "--config", "/nowhere.yaml"])
        .complains(2, &["cannot read the configuration file /nowhere.yaml"]);
}

#[test]
fn mistakes_in_the_environment_are_named_too() {
    let output = crate::support::tidegate().arg("serve").env("TIDEGATE_HTTP", "nowhere").output().unwrap();
    crate::support::Said::from(output).complains(2, &["--http", "nowhere", "write an IP address and a port"]);
}
