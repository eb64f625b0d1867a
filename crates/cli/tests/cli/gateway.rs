//! `tidegate gateway`.

mod bodies;
#[cfg(unix)]
mod drain;
mod shared;

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tidegate_testkit::Backend;

use crate::support::{Said, ask, follow, run, tidegate, wait_for};

/// A running gateway; ends with the test.
pub(crate) struct Gateway {
    child: Child,
    /// Everything printed so far, on standard output and on standard error.
    said: [Arc<Mutex<String>>; 2],
    pub(crate) listen: String,
    pub(crate) admin: String,
    curl: String,
}

impl Gateway {
    /// Starts it on free ports and waits until it says where it is.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = tidegate();
        command.args(["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = [follow(child.stdout.take().unwrap()), follow(child.stderr.take().unwrap())];
        let mut gateway =
            Self { child, said, listen: String::new(), admin: String::new(), curl: String::new() };
        gateway.curl = wait_for("the gateway to start", || {
            assert!(gateway.child.try_wait().unwrap().is_none(), "ended early: {}", gateway.log());
            gateway.out().lines().find(|line| line.starts_with("  curl ")).map(|line| line.trim().to_owned())
        });
        let place = |name: &str| {
            let out = gateway.out();
            let line = out.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().split_once("://").unwrap().1.to_owned()
        };
        (gateway.listen, gateway.admin) = (place("listen"), place("admin"));
        gateway
    }

    fn out(&self) -> String {
        self.said[0].lock().unwrap().clone()
    }

    pub(crate) fn log(&self) -> String {
        self.said[1].lock().unwrap().clone()
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to this process and to no other.
    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits for the end.
    fn wait(&mut self) -> i32 {
        wait_for("the gateway to end", || self.child.try_wait().unwrap()).code().unwrap_or(-1)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url(backend: &Backend) -> String {
    format!("http://{}", backend.address())
}

#[test]
fn it_says_where_it_is_and_how_to_try_it() {
    let backend = Backend::start();
    let gateway = Gateway::start(&["--upstream", &url(&backend)]);
    assert!(gateway.out().contains(&format!("1 route to {}", url(&backend))), "{}", gateway.out());
    // As it is pasted into a shell.
    let told = Command::new("sh").args(["-c", &gateway.curl]).output().unwrap();
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success() && text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("\nGET /orders/7\n") && text.contains("x-user-id: alice\n"), "{text}");
    assert!(text.contains("x-ratelimit-limit: "), "the built-in rules are about it: {text}");
    assert_eq!(ask(&gateway.admin, "GET", "/readyz", "").0, 200);
    let (status, metrics) = ask(&gateway.admin, "GET", "/metrics", "");
    assert_eq!(status, 200);
    assert!(metrics.contains("tidegate_gateway_answers_total{status=\"2xx\"} 1"), "{metrics}");
}

#[test]
fn a_file_says_it_all() {
    let (backend, folder) = (Backend::start(), TempDir::new().unwrap());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let rules = write(
        "rules.yaml",
        "rules:\n  - {rule_id: one, identifier_type: ip_address, limit: 1, window: 52w, algorithm: fixed_window}\n",
    );
    let routes =
        write("routes.yaml", &format!("routes: [{{path: /api/*, upstream: '{}'}}]\n", url(&backend)));
    let log = folder.path().join("access.log");
    let config = write(
        "tidegate.yaml",
        &format!("rules: {rules}\nroutes: {routes}\nrefusals: problem\naccess_log: {}\n", log.display()),
    );
    let gateway = Gateway::start(&["--config", &config]);
    let (status, body) = ask(&gateway.listen, "GET", "/api/orders", "");
    assert_eq!(status, 200, "{body}");
    let (status, body) = ask(&gateway.listen, "GET", "/api/orders", "");
    assert_eq!((status, body.contains("\"title\":\"Too Many Requests\"")), (429, true), "{body}");
    assert_eq!(ask(&gateway.listen, "GET", "/elsewhere", "").0, 404);
    assert_eq!(backend.requests(), 1);
    wait_for("three lines", || {
        (std::fs::read_to_string(&log).unwrap_or_default().lines().count() == 3).then_some(())
    });
}

#[test]
fn wrong_usage_names_the_fix() {
    let told = |args: &[&str]| -> Said { run([&["gateway"], args].concat()) };
    told(&[]).complains(2, &["nowhere to forward", "--upstream http://HOST:PORT"]);
    told(&["--upstream", "http://127.0.0.1:1", "--routes", "a.yaml"])
        .complains(2, &["either --upstream or --routes"]);
    told(&["--upstream", "127.0.0.1:9000"]).complains(2, &["127.0.0.1:9000", "http://"]);
    told(&["--upstream", "http://127.0.0.1:1", "--tls-cert", "a.pem"]).complains(2, &["--tls-key"]);
    told(&["--upstream", "http://127.0.0.1:1", "--tier-claim", "plan"]).complains(2, &["--jwks"]);
    told(&["--upstreams", "http://127.0.0.1:1"]).complains(2, &["--upstream"]);
    told(&["--upstream", "http://127.0.0.1:1", "--max-body", "much"]).complains(2, &["10MB"]);
    let missing = told(&["--routes", "/nowhere/routes.yaml"]);
    assert_ne!(missing.code, 0);
    assert!(missing.err.contains("/nowhere/routes.yaml"), "{missing:?}");
}
