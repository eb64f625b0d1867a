//! On a terminal of 80 columns and 24 lines.

use super::node::{Node, REFUSED, TOLD};
use super::tty::Tty;

#[test]
fn it_draws_obeys_keys_and_leaves_the_terminal_as_it_was() {
    let node = Node::start([TOLD]);
    let mut tty = Tty::start(&["top", "--admin", &node.address]);
    tty.wait_for("DEGRADED live  node-a  up 1m 1s  rules v7 (12)");
    tty.wait_for("decisions       12/s");
    tty.wait_for("bob\\u{1b}[2J");
    assert!(tty.is_raw() && tty.in_alternate_screen() && tty.is_coloured());
    tty.press("5");
    tty.wait_for("2026-03-01 12:00:07 info");
    tty.press("?");
    tty.wait_for("hold what is shown");
    tty.press("q");
    assert_eq!(tty.end(), 0);
    assert!(!tty.is_raw() && !tty.in_alternate_screen());
}

#[test]
fn a_server_that_goes_is_said_and_one_that_comes_back_is_watched_again() {
    let node = Node::start([TOLD, TOLD]);
    let mut tty = Tty::start(&["top", "--admin", &node.address, "--timeout", "30s"]);
    tty.wait_for("NO ANSWER again in 1s: it has ended the connection");
    node.go_on();
    tty.wait_for("DEGRADED live");
    tty.press("\u{3}");
    assert_eq!(tty.end(), 0, "Ctrl-C ends it");
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_it_was() {
    let node = Node::start([TOLD]);
    let mut tty = Tty::start(&["top", "--admin", &node.address]);
    tty.wait_for("DEGRADED live");
    tty.signal("TERM");
    assert_eq!(tty.end(), 0);
    assert!(!tty.is_raw() && !tty.in_alternate_screen());
}

#[test]
fn a_refusal_is_told_on_the_terminal_as_it_was() {
    let node = Node::refusing([REFUSED]);
    let mut tty = Tty::start(&["top", "--admin", &node.address]);
    assert_eq!(tty.end(), 1);
    assert!(!tty.is_raw() && !tty.in_alternate_screen());
    tty.wait_for("--token TOKEN");
}

#[test]
fn colours_can_be_had_without() {
    let node = Node::start([TOLD]);
    let mut tty = Tty::start_with(&["top", "--admin", &node.address], |command| command.env("NO_COLOR", "1"));
    tty.wait_for("DEGRADED live");
    tty.press("q");
    assert_eq!(tty.end(), 0);
    assert!(!tty.is_coloured());
}
