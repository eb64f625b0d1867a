//! Nodes that are started when something is not there yet, or not what it should be.

use std::fs;
use std::net::{TcpListener, UdpSocket};

use tidegate_testkit::{Port, Redis};

use super::{Fleet, LIMIT, RULES, body, cluster, health, metric};
use crate::support::{Server, run, wait_for};

/// How often a user is admitted of so many requests, each at another node.
fn admitted(fleet: &Fleet, user: usize, count: usize) -> u64 {
    let nodes = fleet.nodes.iter().cycle().skip(user);
    let decisions = nodes.take(count).map(|node| node.check(&body(user)));
    decisions
        .map(|decision| {
            assert!(["enforced", "local"].contains(&decision["status"].as_str().unwrap()), "{decision}");
            u64::from(decision["allowed"] == true)
        })
        .sum()
}

#[test]
fn nodes_that_never_had_a_store_count_together() {
    const NODES: usize = 3;
    let redis = Redis::start();
    redis.kill();
    let fleet = Fleet::start(&vec![redis.url(); NODES], RULES, &["--degraded-after", "500ms"]);
    fleet.know_each_other();
    fleet.are("degraded");
    let users = 0..10;
    let without: Vec<u64> = users.clone().map(|user| admitted(&fleet, user, 40)).collect();
    println!("admitted without a store: {without:?} of {LIMIT} each");
    // What nobody remembers begins with a share; how large it is depends on who is there.
    assert!(without.iter().all(|admitted| *admitted <= LIMIT / NODES as u64 && *admitted > 0), "{without:?}");

    redis.restart();
    println!("all nodes normal {:.1?} after there was a store", fleet.are("normal"));
    fleet.owes_nothing();
    let with: Vec<u64> = users.clone().map(|user| admitted(&fleet, user, 80)).collect();
    println!("admitted with it: {with:?}");
    for (without, with) in without.iter().zip(&with) {
        assert!(without + with <= LIMIT, "{without} and {with}");
    }
    assert!(with.iter().all(|with| *with > 0));
    assert_eq!(users.map(|user| fleet.counted(user)).collect::<Vec<_>>(), [LIMIT; 10]);
}

/// What is wrong with a node's peers, as it says itself.
fn complaint(node: &Server) -> String {
    let reason = wait_for("a reason that is about the cluster", || {
        let health = health(node);
        assert_eq!(health["status"], "normal", "{health}");
        let reasons = health["reasons"].as_array()?.clone();
        let mut reasons = reasons.iter().filter_map(|reason| reason.as_str().map(str::to_owned));
        reasons.find(|reason| reason.starts_with("cluster:"))
    });
    let said = run(["cluster", "members", "--admin", &format!("http://{}", node.admin)]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("problem"), "{}", said.out);
    reason
}

#[test]
fn nodes_with_wrong_peers_serve_until_a_right_one_appears() {
    let redis = Redis::start();
    let mut fleet = Fleet::start(&[], RULES, &[]);
    let closed = Port::claim();
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = foreign.local_addr().unwrap();
    let _silent = UdpSocket::bind(address);
    let wrong = [closed.address().to_string(), "no-such-host.invalid:8083".into(), address.to_string()];
    for peers in &wrong {
        fleet.add(&redis.url(), Some(peers), &[]);
    }
    for (node, peers) in fleet.nodes.iter().zip(&wrong) {
        let reason = complaint(node);
        println!("{reason}");
        assert!(reason.contains(peers), "{reason}");
        assert_eq!(node.check(&body(0))["allowed"], true);
        assert_eq!(cluster(node)["members"].as_array().unwrap().len(), 0);
    }
    // One that knows all of them.
    let all: Vec<String> =
        fleet.nodes.iter().map(|node| cluster(node)["address"].as_str().unwrap().to_owned()).collect();
    fleet.add(&redis.url(), Some(&all.join(",")), &[]);
    fleet.know_each_other();
}

#[test]
fn a_node_with_another_secret_is_a_stranger() {
    let redis = Redis::start();
    let mut fleet = Fleet::start(&vec![redis.url(); 2], RULES, &[]);
    fleet.know_each_other();
    let to = cluster(&fleet.nodes[0])["address"].as_str().unwrap().to_owned();
    let other = fleet.path("other");
    fs::write(&other, "a secret that no other node of this fleet knows").unwrap();
    fleet.add(&redis.url(), Some(&to), &["--cluster-secret", other.to_str().unwrap()]);
    let name = r#"tidegate_cluster_refused_packets_total{kind="stranger"}"#;
    wait_for("strangers' packets to be counted", || {
        let metrics = fleet.nodes[0].admin("/metrics").1;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name))?;
        (line.trim().parse::<u64>().unwrap() > 0).then_some(())
    });
    assert!(metric(&fleet.nodes[0], "tidegate_cluster_refused_packets_total") > 0);
    assert_eq!(cluster(&fleet.nodes[2])["members"].as_array().unwrap().len(), 0);
    let members = cluster(&fleet.nodes[0])["members"].clone();
    assert!(members.as_array().unwrap().iter().all(|member| member["name"] != "node-2"), "{members}");
    let reason = complaint(&fleet.nodes[2]);
    assert!(reason.contains("with the same secret?"), "{reason}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_the_way_to_say_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (rules, good, short) =
        (file("rules.yaml", RULES), file("good", super::SECRET), file("short", "short"));
    let missing = folder.path().join("missing").display().to_string();
    let serve = |args: &[&str]| run([&["serve", "--rules", &rules], args].concat());
    let (store, cluster) = (["--store", "redis://127.0.0.1:1"], ["--cluster", "127.0.0.1:0"]);
    let make = "head -c 32 /dev/urandom | base64 >";
    serve(&[&store[..], &cluster].concat())
        .complains(2, &["--cluster needs the secret", make, "--cluster-secret FILE"]);
    serve(&[&cluster[..], &["--cluster-secret", &good]].concat())
        .complains(2, &["--store is not given", "Use --store redis://HOST:PORT"]);
    for args in [["--peers", "127.0.0.1:1"], ["--cluster-secret", &good], ["--node-name", "a"]] {
        serve(&[&store[..], &args].concat()).complains(2, &[args[0], "Use --cluster ADDRESS:PORT"]);
    }
    for secret in [&short, &missing] {
        serve(&[&store[..], &cluster, &["--cluster-secret", secret]].concat())
            .complains(2, &["cannot be used", secret.as_str(), make]);
    }
}
