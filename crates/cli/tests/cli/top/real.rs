//! A real server, watched.

use crate::support::{Said, Server, run, wait_for};

fn once(server: &Server) -> Said {
    run(["top", "--once", "--admin", &server.admin])
}

/// Five logins that are allowed, and two that are not.
fn log_in(server: &Server) {
    for _ in 0..7 {
        server.check(
            r#"{"resource": "/auth/login", "method": "POST", "ip": "203.0.113.7", "user": "mallory"}"#,
        );
    }
}

#[test]
fn what_a_server_did_is_there() {
    let server = Server::start(&[]);
    log_in(&server);
    let said = wait_for("the totals", || {
        let said = once(&server);
        assert_eq!(said.code, 0, "{said:?}");
        said.out.contains("allowed 5  refused 2").then_some(said.out)
    });
    assert!(said.starts_with(&format!("NORMAL live  http://{}  up ", server.admin)), "{said}");
    for text in ["no alerts", "STORE     memory", concat!("serve ", env!("CARGO_PKG_VERSION"))] {
        assert!(said.contains(text), "`{text}` is not in {said}");
    }
    wait_for("who was refused", || once(&server).out.contains("login_attempt_ip").then_some(()));
}

#[test]
fn without_a_token_it_says_how_to_give_one() {
    let made = run(["token", "new", "--name", "alice", "--role", "read", "--json"]).json();
    let server = Server::start_with(&["--admin-local", "deny"], |command| {
        command.env("TIDEGATE_ADMIN_TOKENS_INLINE", made["line"].as_str().unwrap())
    });
    once(&server).complains(1, &["need a token", "--token TOKEN"]);
    let args = ["top", "--once", "--admin", &server.admin, "--token"];
    run(args.iter().chain(&["wrong"])).complains(1, &["the token is wrong", "--token TOKEN"]);
    let said = run(args.iter().copied().chain(made["token"].as_str()));
    assert!(said.code == 0 && said.out.starts_with("NORMAL live"), "{said:?}");
}

#[cfg(unix)]
#[test]
fn a_terminal_shows_it_as_it_happens() {
    let server = Server::start(&[]);
    let mut tty = super::tty::Tty::start(&["top", "--admin", &server.admin]);
    tty.wait_for("NORMAL live");
    log_in(&server);
    tty.wait_for("allowed 5  refused 2");
    tty.press("4");
    tty.wait_for("together  1 of 1 nodes answered  NORMAL");
    tty.press("5");
    tty.wait_for(" node ");
    tty.press("q");
    assert_eq!(tty.end(), 0);
    assert!(!tty.is_raw() && !tty.in_alternate_screen());
}
