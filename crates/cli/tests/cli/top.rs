//! `tidegate top`: once as text, and on a terminal.

mod node;
mod real;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod tty;

use std::net::TcpListener;

use crate::support::{Said, Server, run};
use node::{Node, REFUSED, TOLD};

fn once(admin: &str, args: &[&str]) -> Said {
    run(["top", "--once", "--admin", admin].iter().chain(args))
}

#[test]
fn it_explains_itself_with_examples() {
    let said = run(["top", "--help"]);
    assert!(said.code == 0 && said.out.contains("Examples:\n  tidegate top"), "{said:?}");
    assert!(run(["completions", "bash"]).out.contains("tidegate__subcmd__top"));
}

#[test]
fn once_is_plain_text_even_if_names_are_not() {
    let node = Node::start([TOLD]);
    let said = once(&node.address, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with("DEGRADED live  node-a  up 1m 1s  rules v7 (12)"), "{}", said.out);
    for text in [
        "WHY degraded: a shard is down",
        "allowed 1,234  refused 56",
        "16.7%",
        "bob\\u{1b}[2J",
        "rules changed",
    ] {
        assert!(said.out.contains(text), "`{text}` is not in {}", said.out);
    }
    assert!(!said.out.contains(|c: char| c != '\n' && c.is_control()));
    let piped = run(["top", "--admin", &Node::start([TOLD]).address]);
    assert_eq!((piped.code, piped.out), (0, said.out), "what is no terminal is told once");
}

#[test]
fn a_server_that_is_not_there_or_says_nothing_is_said() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    once(&free, &[]).complains(1, &["cannot ask http://", &free, "tidegate serve", "--admin URL"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    once(&silent, &["--timeout", "50ms"]).complains(1, &["no answer within 50ms"]);
    let node = Node::start(["event: history\ndata: {}\n\n"]);
    once(&node.address, &["--timeout", "50ms"]).complains(1, &["within 50ms"]);
}

#[test]
fn whoever_may_not_look_is_told_how() {
    let said = once(&Node::refusing([REFUSED]).address, &[]);
    said.complains(1, &["the token is missing", "--token TOKEN", "TIDEGATE_TOKEN"]);
}

#[test]
fn the_wrong_listener_is_said() {
    let server = Server::start(&[]);
    once(&server.http, &[]).complains(1, &["is no admin listener", "--admin URL"]);
    let node = Node::refusing(["HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>"]);
    once(&node.address, &[]).complains(1, &["is no admin listener"]);
}

#[test]
fn one_that_never_ends_a_message_is_not_listened_to_for_ever() {
    let endless = format!("data: {}", "x".repeat(9 << 20));
    let node = Node::start([endless.leak() as &str]);
    once(&node.address, &["--timeout", "30s"]).complains(1, &["it sends more than 8 MiB at once"]);
}
