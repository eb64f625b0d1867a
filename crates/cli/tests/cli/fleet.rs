//! Three nodes with the rules of one source: what changes there reaches all of them, whatever happens to it, and no
//! request fails meanwhile.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::{Etcd, Postgres, Proxy, Zookeeper};

use crate::support::{PATIENCE, Server, ask, run, wait_for, wait_within};

/// Noticing a hang takes its time, and so does a busy machine.
const DEADLINE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// How rules are written by other means than Tidegate's own.
pub(crate) trait ByHand {
    fn put(&self, id: &str, text: &str);
    fn delete(&self, id: &str);
}

pub(crate) fn rule(id: &str, limit: u64) -> String {
    json!({"rule_id": id, "identifier_type": "user_id", "limit": limit, "window": "1h"}).to_string()
}

/// Three nodes under traffic.
pub(crate) struct Fleet {
    nodes: [Server; 3],
    traffic: Vec<JoinHandle<()>>,
    done: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    /// How long it took until a change was in force everywhere.
    times: Mutex<Vec<Duration>>,
    limit: AtomicU64,
}

impl Fleet {
    /// Starts nodes with the rules that `by_hand` writes, and keeps asking each of them.
    pub(crate) fn start(by_hand: &dyn ByHand, args: &[&str]) -> Self {
        by_hand.put("each", &rule("each", 1_000_000));
        let nodes = [(); 3].map(|()| Server::start(args));
        let (done, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let traffic = nodes.iter().map(|node| {
            let (to, done, answered) = (node.http.clone(), Arc::clone(&done), Arc::clone(&answered));
            thread::spawn(move || keep_asking(&to, &done, &answered))
        });
        let traffic = traffic.collect();
        let (times, limit) = (Mutex::default(), AtomicU64::new(1_000_000));
        Self { nodes, traffic, done, answered, times, limit }
    }

    /// Has all nodes put in force a limit that never was before, written by hand.
    pub(crate) fn follows(&self, by_hand: &dyn ByHand, after: &str) {
        let limit = self.limit.fetch_add(1, Ordering::Relaxed) + 1;
        by_hand.put("each", &rule("each", limit));
        self.has("each", Some(limit), after);
    }

    /// Waits until all nodes enforce this limit for a rule, or have no such rule, and show it in headers.
    fn has(&self, id: &str, limit: Option<u64>, after: &str) {
        let began = Instant::now();
        for node in &self.nodes {
            wait_until(&format!("{id} to be {limit:?} after {after}"), || shown(node, id) == limit);
        }
        self.times.lock().unwrap().push(began.elapsed());
        println!("{id} is {limit:?} on all nodes after {after}: {:?}", began.elapsed());
    }

    /// Waits until all nodes have this status, and returns why the last has it.
    pub(crate) fn are(&self, status: &str) -> String {
        let mut health = String::new();
        for node in &self.nodes {
            wait_until(&format!("a node to be {status}"), || {
                health = node.admin("/health").1;
                health.contains(&format!("\"status\":\"{status}\""))
            });
        }
        health
    }

    /// Rules are created, changed and deleted, by the admin API of one node and by hand.
    pub(crate) fn changes_reach_all(&self, by_hand: &dyn ByHand) {
        let [first, second, _] = &self.nodes;
        let change = |node: &Server, method: &str, body: &str| {
            let (status, answer) = ask(&node.admin, method, "/v1/rules/extra", body);
            assert!((200..300).contains(&status), "{method}: {status} {answer}");
            answer
        };
        change(first, "PUT", &rule("extra", 50));
        self.has("extra", Some(50), "a PUT");
        change(second, "PUT", &rule("extra", 60));
        self.has("extra", Some(60), "a PUT elsewhere");
        let history: Value = serde_json::from_str(&first.admin("/v1/rules/extra/history").1).unwrap();
        let back = json!({"to_version": history["changes"][1]["version"]}).to_string();
        let (status, answer) = ask(&first.admin, "POST", "/v1/rules/extra/rollback", &back);
        assert_eq!(status, 200, "{answer}");
        self.has("extra", Some(50), "a rollback");
        change(first, "DELETE", "");
        self.has("extra", None, "a DELETE");
        by_hand.put("extra", &rule("extra", 70));
        self.has("extra", Some(70), "a change by hand");
        by_hand.delete("extra");
        self.has("extra", None, "a deletion by hand");
    }

    /// A bad rule, pushed by hand, is put aside on all nodes, is seen, and harms no other.
    pub(crate) fn a_bad_rule_is_put_aside(&self, by_hand: &dyn ByHand) {
        by_hand.put("extra", &rule("extra", 80));
        self.has("extra", Some(80), "a good rule");
        by_hand.put("extra", &rule("extra", 90).replace("limit", "limt"));
        let health = self.are("degraded");
        assert!(health.contains("limt") && health.contains("extra"), "{health}");
        self.follows(by_hand, "a bad rule beside it");
        for node in &self.nodes {
            assert_eq!(shown(node, "extra"), Some(80), "the last good version stays");
            let metrics = node.admin("/metrics").1;
            assert!(metrics.contains("\ntidegate_rules_quarantined 1\n"), "{metrics}");
            assert_eq!(node.admin("/readyz").0, 200);
        }
        by_hand.put("extra", &rule("extra", 90));
        self.has("extra", Some(90), "mending it");
        self.are("normal");
    }

    /// Ends the traffic, of which every request must have been answered.
    pub(crate) fn end(self) {
        self.done.store(true, Ordering::Relaxed);
        for client in self.traffic {
            client.join().expect("every request was answered");
        }
        let mut times = self.times.into_inner().unwrap();
        times.sort();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        let answered = self.answered.load(Ordering::Relaxed);
        println!(
            "{} changes: median {median:?}, longest {most:?}; {answered} requests answered",
            times.len()
        );
        assert!(answered > 100);
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_within(DEADLINE, what, || is_so().then_some(()));
}

/// The limit of a rule as answers show it: `each` binds unless there is a narrower one.
fn shown(node: &Server, id: &str) -> Option<u64> {
    let decision = node.check(r#"{"user":"probe","resource":"/","cost":0}"#);
    let rules = decision["rules"].as_array()?;
    rules.iter().find(|rule| rule["rule_id"] == id)?["limit"].as_u64()
}

/// Asks over one connection, again and again. Any answer but a decision ends the test.
fn keep_asking(to: &str, done: &AtomicBool, answered: &AtomicU64) {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let body = r#"{"user":"somebody","resource":"/","cost":0}"#;
    let request =
        format!("POST /v1/check HTTP/1.1\r\nhost: {to}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    while !done.load(Ordering::Relaxed) {
        (&stream).write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let decision: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&decision["allowed"], &decision["status"]),
            (&true.into(), &"enforced".into()),
            "{decision}"
        );
        answered.fetch_add(1, Ordering::Relaxed);
        // Load that has a rate, so that three nodes and their source get something of the machine, too.
        thread::sleep(Duration::from_millis(2));
    }
}

impl ByHand for Etcd {
    fn put(&self, id: &str, text: &str) {
        self.put(&format!("shop/rules/{id}"), text);
    }

    fn delete(&self, id: &str) {
        self.delete(&format!("shop/rules/{id}"));
    }
}

#[test]
fn rules_in_etcd() {
    let etcd = Etcd::start();
    let proxy = Proxy::start(etcd.address());
    let fleet = Fleet::start(&etcd, &["--rules", &format!("etcd://{}/shop", proxy.address())]);
    fleet.changes_reach_all(&etcd);
    fleet.a_bad_rule_is_put_aside(&etcd);

    etcd.kill();
    let health = fleet.are("degraded");
    assert!(health.contains("cannot reach the rules in etcd"), "{health}");
    etcd.restart();
    fleet.follows(&etcd, "a crash");
    etcd.pause();
    fleet.are("degraded");
    etcd.resume();
    fleet.follows(&etcd, "a pause");

    // What happens while they are cut off is forgotten by etcd before they are back.
    proxy.cut();
    fleet.are("degraded");
    for limit in [5, 6, 7] {
        ByHand::put(&etcd, "extra", &rule("extra", limit));
    }
    etcd.compact();
    proxy.heal();
    fleet.has("extra", Some(7), "being cut off during a compaction");
    fleet.are("normal");
    fleet.follows(&etcd, "that");
    fleet.end();
}

struct Ensemble([Zookeeper; 3]);

impl Ensemble {
    /// The first server that is there to ask.
    fn any<T>(&self, mut ask: impl FnMut(&Zookeeper) -> Option<T>) -> T {
        wait_for("a server of the ensemble", || self.0.iter().find_map(&mut ask))
    }
}

impl ByHand for Ensemble {
    fn put(&self, id: &str, text: &str) {
        self.any(|server| server.try_put(&format!("/shop/rules/{id}"), text).ok());
    }

    fn delete(&self, id: &str) {
        self.any(|server| server.try_delete(&format!("/shop/rules/{id}")).ok());
    }
}

#[test]
fn rules_in_zookeeper() {
    let ensemble = Ensemble(Zookeeper::start_ensemble());
    let proxies = ensemble.0.each_ref().map(|server| Proxy::start(server.address()));
    let servers: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let url = format!("zookeeper://{}/shop/rules", servers.join(","));
    let fleet = Fleet::start(&ensemble, &["--rules", &url]);
    fleet.changes_reach_all(&ensemble);
    fleet.a_bad_rule_is_put_aside(&ensemble);

    // The ensemble goes on without any one of its servers, and so do the nodes.
    for lost in &ensemble.0 {
        lost.kill();
        fleet.follows(&ensemble, "the loss of a server");
        lost.restart();
        fleet.follows(&ensemble, "its return");
    }
    let [first, ..] = &ensemble.0;
    first.pause();
    fleet.follows(&ensemble, "a server that hangs");
    first.resume();

    // Longer than a session lasts: everything has to be read again in a new one.
    proxies.iter().for_each(Proxy::cut);
    fleet.are("degraded");
    let sessions = || ensemble.any(|server| server.sessions().ok());
    wait_until("all sessions to expire", || sessions() == 0);
    ByHand::put(&ensemble, "extra", &rule("extra", 7));
    proxies.iter().for_each(Proxy::heal);
    fleet.has("extra", Some(7), "the end of all sessions");
    fleet.are("normal");

    // No majority, no answers; then all of them again.
    ensemble.0.iter().for_each(Zookeeper::kill);
    fleet.are("degraded");
    thread::scope(|scope| {
        for server in &ensemble.0 {
            scope.spawn(|| server.restart());
        }
    });
    fleet.follows(&ensemble, "a crash of all");
    fleet.end();
}

impl ByHand for Postgres {
    fn put(&self, id: &str, text: &str) {
        self.psql(&format!(
            "INSERT INTO tidegate_rules (name, text) VALUES ('{id}', $rule${text}$rule$)
             ON CONFLICT (name) DO UPDATE SET text = excluded.text"
        ));
    }

    fn delete(&self, id: &str) {
        self.psql(&format!("DELETE FROM tidegate_rules WHERE name = '{id}'"));
    }
}

#[test]
fn rules_in_postgresql() {
    let primary = Postgres::start();
    let said = run(["rules", "init", "--rules", &primary.url()]);
    assert_eq!(said.code, 0, "{said:?}");
    let fleet = Fleet::start(&primary, &["--rules", &primary.url()]);
    fleet.changes_reach_all(&primary);
    fleet.a_bad_rule_is_put_aside(&primary);

    primary.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL");
    fleet.follows(&primary, "the end of all connections");
    primary.kill();
    let health = fleet.are("degraded");
    assert!(health.contains("PostgreSQL"), "{health}");
    primary.restart();
    fleet.follows(&primary, "a crash");
    primary.pause();
    fleet.are("degraded");
    primary.resume();
    fleet.follows(&primary, "a pause");

    // Nobody is told of what is written without triggers' notifications: asking finds it.
    primary.psql("ALTER TABLE tidegate_rules DISABLE TRIGGER USER");
    primary.psql("UPDATE tidegate_state SET version = version + 1; UPDATE tidegate_rules SET version = (SELECT version FROM tidegate_state), text = replace(text, '90', '95') WHERE name = 'extra'");
    fleet.has("extra", Some(95), "a change that nobody told of");
    primary.psql("ALTER TABLE tidegate_rules ENABLE TRIGGER USER");
    fleet.are("normal");
    fleet.end();
}

/// Nodes that read from a replica, and change rules at the primary.
#[test]
fn rules_in_a_replica_of_postgresql() {
    let primary = Postgres::start();
    assert_eq!(run(["rules", "init", "--rules", &primary.url()]).code, 0);
    let replica = Postgres::replica_of(&primary);
    let args = ["--rules", &replica.url(), "--rules-primary", &primary.url()];
    ByHand::put(&primary, "each", &rule("each", 1));
    wait_for("the replica to catch up", || {
        replica.psql("SELECT count(*) FROM tidegate_rules").contains('1').then_some(())
    });
    let fleet = Fleet::start(&primary, &args);
    fleet.changes_reach_all(&primary);
    replica.kill();
    fleet.are("degraded");
    replica.restart();
    fleet.follows(&primary, "a crash of the replica");
    fleet.end();
}

/// A file, as an operator changes it from the command line.
struct File(tempfile::TempDir);

impl File {
    fn path(&self) -> String {
        self.0.path().join("rules.yaml").display().to_string()
    }
}

impl ByHand for File {
    fn put(&self, id: &str, text: &str) {
        let rule = self.0.path().join("one.txt");
        std::fs::write(&rule, text).unwrap();
        let said = run(["rules", "apply", "--yes", "--rules", &self.path(), rule.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{id}: {said:?}");
    }

    fn delete(&self, id: &str) {
        let said = run(["rules", "delete", "--yes", "--rules", &self.path(), id]);
        assert_eq!(said.code, 0, "{id}: {said:?}");
    }
}

#[test]
fn rules_in_a_file() {
    let file = File(tempfile::tempdir().unwrap());
    let fleet = Fleet::start(&file, &["--rules", &file.path()]);
    fleet.changes_reach_all(&file);
    let good = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), good.replace("limit", "limt")).unwrap();
    let health = fleet.are("degraded");
    assert!(health.contains("limt"), "{health}");
    std::fs::remove_file(file.path()).unwrap();
    fleet.are("degraded");
    std::fs::write(file.path(), good).unwrap();
    fleet.are("normal");
    fleet.follows(&file, "all that");
    fleet.end();
}
