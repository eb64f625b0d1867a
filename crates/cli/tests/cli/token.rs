//! `tidegate token`, and tokens in use.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Said, Server, run, tidegate, wait_for};

/// Runs the binary with something on its standard input.
fn run_with(args: &[&str], input: &str) -> Said {
    let mut command = tidegate();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

fn new(name: &str, role: &str, path: &Path) -> Said {
    run(["token", "new", "--name", name, "--role", role, "--append", path.to_str().unwrap()])
}

#[test]
fn a_new_token_is_shown_once_with_its_line() {
    let said = run(["token", "new", "--name", "alice", "--role", "write"]);
    assert_eq!(said.code, 0, "{said:?}");
    let lines: Vec<&str> = said.out.lines().collect();
    let [secret, line] = lines[..] else { panic!("{said:?}") };
    assert!(secret.starts_with("tg_") && secret.len() == 67, "{secret}");
    assert!(line.starts_with("alice write sha256:") && line.len() == 83, "{line}");
    assert!(!said.err.contains(secret), "{}", said.err);
    let hashed = run_with(&["token", "hash", "--name", "alice", "--role", "write"], &format!("{secret}\n"));
    assert_eq!(hashed.out, format!("{line}\n"), "the hash is that of the token");
    let other = run(["token", "new", "--name", "alice", "--role", "write"]);
    assert_ne!(other.out.lines().next(), Some(secret));
    let json = run(["token", "new", "--name", "ci", "--role", "read", "--json"]).json();
    assert_eq!((json["name"].as_str(), json["role"].as_str()), (Some("ci"), Some("read")));
    assert!(json["token"].as_str().unwrap().starts_with("tg_"));
    assert!(json["line"].as_str().unwrap().starts_with("ci read sha256:"));
}

#[test]
fn what_cannot_be_a_token_is_said_without_showing_it() {
    let hash = ["token", "hash", "--name", "alice", "--role", "write"];
    let said = run_with(&hash, "s3cret\n");
    said.complains(2, &["the token has not 32 to 512 characters", "tidegate token new"]);
    assert!(!said.err.contains("s3cret") && said.out.is_empty());
    run_with(&hash, &format!("{0}\n{0}\n", "x".repeat(40))).complains(2, &["no header can carry"]);
    run_with(&hash, "").complains(2, &["32 to 512"]);
    run(["token", "new", "--name", "local", "--role", "read"]).complains(2, &["give another name"]);
    run(["token", "new", "--name", "a b", "--role", "read"]).complains(2, &["the name is not 1 to 64"]);
    run(["token", "new", "--name", "a", "--role", "admin"]).complains(2, &["[possible values: read, write]"]);
    run(["token", "new", "--role", "read"]).complains(2, &["--name <NAME>"]);
}

#[cfg(unix)]
#[test]
fn lines_are_added_to_a_file_of_ones_own() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let said = new("alice", "write", &path);
    assert_eq!((said.code, said.out.lines().count()), (0, 1), "only the token: {said:?}");
    assert_eq!(mode(&path), 0o600);
    let first = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("# ours\n{}", first.trim_end())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(new("bob", "read", &link).code, 0);
    let both = fs::read_to_string(&path).unwrap();
    assert!(both.starts_with(&format!("# ours\n{first}bob read sha256:")), "{both}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode(&path), 0o640, "whoever could read it still can");

    let said = new("bob", "write", &path);
    said.complains(1, &["tokens:4: `bob` is in line 3 already", "Nothing was added."]);
    assert_eq!((said.out.as_str(), fs::read_to_string(&path).unwrap()), ("", both.clone()));
    fs::write(path.with_extension("new"), "").unwrap();
    new("carol", "read", &path).complains(1, &["tokens.new is there already", "try again"]);
    fs::remove_file(path.with_extension("new")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left behind");
    new("carol", "read", &folder.path().join("nowhere/tokens"))
        .complains(1, &["cannot write", "nowhere/tokens"]);
}

/// Reads the rules with a token.
fn rules(server: &Server, token: &str) -> u16 {
    let ask = format!(
        "GET /v1/rules HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n",
        server.admin
    );
    let mut stream = std::net::TcpStream::connect(&server.admin).unwrap();
    stream.write_all(ask.as_bytes()).unwrap();
    crate::support::answer(stream).0
}

#[test]
fn a_server_takes_what_is_added_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let alice = new("alice", "write", &path).out;
    let server = Server::start(&["--admin-tokens", path.to_str().unwrap(), "--admin-local", "deny"]);
    assert_eq!(server.admin("/v1/rules").0, 401);
    assert_eq!(server.admin("/health").0, 200, "watching stays open");
    assert_eq!((rules(&server, alice.trim()), rules(&server, "wrong")), (200, 401));
    let bob = new("bob", "read", &path).out;
    wait_for("bob", || (rules(&server, bob.trim()) == 200).then_some(()));
    assert_eq!(rules(&server, alice.trim()), 200);
}

#[test]
fn tokens_may_be_in_the_environment() {
    let made = run(["token", "new", "--name", "alice", "--role", "read", "--json"]).json();
    let line = made["line"].as_str().unwrap();
    let server = Server::start_with(&[], |command| command.env("TIDEGATE_ADMIN_TOKENS_INLINE", line));
    assert_eq!(rules(&server, made["token"].as_str().unwrap()), 200);
    assert_eq!(rules(&server, "wrong"), 401);
}

#[test]
fn what_is_wrong_with_tokens_keeps_a_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    fs::write(&path, "alice write\nbob sees sha256:00\n").unwrap();
    let file = path.to_str().unwrap();
    let said = run(["serve", "--admin-tokens", file]);
    said.complains(
        1,
        &["the admin tokens cannot be used", "tokens:1: a line is", "tokens:2: the hash is not"],
    );
    run(["serve", "--admin-tokens", "/nowhere"]).complains(1, &["/nowhere: it cannot be read"]);
    run(["serve", "--admin-tokens", file, "--admin-tokens-inline", "x"]).complains(2, &["give one of them"]);
    run(["serve", "--admin-local", "deny"]).complains(2, &["Use --admin-tokens FILE, --token-file FILE, or"]);
    run(["serve", "--admin", "0.0.0.0:0"])
        .complains(2, &["the admin listener would be", "--admin-tokens FILE"]);
    let line = format!("alice write sha256:{:064x}", 1);
    let said = run(["serve", "--http", "0.0.0.0:0", "--admin-tokens-inline", &line]);
    said.complains(2, &["the http listener would be open to everybody"]);
}
