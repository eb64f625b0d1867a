//! Counters in Redis, from the outside.

use std::fs;
use std::path::PathBuf;
use std::thread;

use tidegate_testkit::{Cluster, Redis};

use crate::support::{Server, ask, run, wait_for};

const RULES: &str = "
rules:
  - { rule_id: open, identifier_type: user_id, algorithm: fixed_window, limit: 20, window: 366d,
      on_store_failure: allow, match: { path_pattern: /open } }
  - { rule_id: closed, identifier_type: user_id, limit: 20, window: 1h,
      on_store_failure: deny, match: { path_pattern: /closed } }
";

fn rules(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("rules.yaml");
    fs::write(&path, RULES).unwrap();
    path
}

/// A server whose decisions wait long enough for a machine that is busy with other things.
fn serve(rules: &str, url: &str) -> Server {
    let args = ["--rules", rules, "--store", url, "--store-timeout", "2s", "--degraded-after", "200ms"];
    let server = Server::start(&args);
    health(&server, "normal");
    server
}

fn health(server: &Server, wanted: &str) -> String {
    wait_for(&format!("the server to be {wanted}"), || {
        let (_, health) = server.admin("/health");
        health.contains(&format!("\"status\":\"{wanted}\"")).then_some(health)
    })
}

#[test]
fn two_servers_enforce_one_limit() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let rules = rules(&folder);
    let servers = [0, 1].map(|_| serve(rules.to_str().unwrap(), &redis.url()));
    let admitted: u64 = thread::scope(|scope| {
        let asking = servers.each_ref().map(|server| {
            scope.spawn(|| {
                let check =
                    |_: &u64| server.check(r#"{"user":"alice","resource":"/open"}"#)["allowed"] == true;
                (0..30_u64).filter(check).count() as u64
            })
        });
        asking.into_iter().map(|asking| asking.join().unwrap()).sum()
    });
    assert_eq!(admitted, 20);
    assert!(servers[0].out().contains(&format!("store  {}, shared", redis.url())), "{}", servers[0].out());
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn a_store_that_dies_is_no_reason_to_go_down() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let server = serve(rules(&folder).to_str().unwrap(), &redis.url());
    redis.kill();
    let health = health(&server, "degraded");
    assert!(health.contains(&redis.address().to_string()), "{health}");
    let open = server.check(r#"{"user":"alice","resource":"/open"}"#);
    assert_eq!((&open["allowed"], &open["status"]), (&true.into(), &"disabled".into()), "{open}");
    let (status, closed) = ask(&server.http, "POST", "/v1/check", r#"{"user":"alice","resource":"/closed"}"#);
    assert_eq!(status, 503, "{closed}");
    assert!(closed.contains("\"status\":\"unavailable\""), "{closed}");
    redis.restart();
    self::health(&server, "normal");
    let open = server.check(r#"{"user":"alice","resource":"/open"}"#);
    assert_eq!(open["status"], "enforced", "{open}");
}

#[test]
fn the_banner_says_why_the_store_is_not_connected() {
    let redis = Redis::options().password("secret").start();
    let url = format!("redis://:wrong@{}", redis.address());
    let server = Server::start(&["--store", &url]);
    let banner = format!("  store  redis://{} NOT CONNECTED: {}: ", redis.address(), redis.address());
    assert!(server.out().contains(&banner), "{}", server.out());
    assert!(server.out().contains("give the user and password in the URL"), "{}", server.out());
    assert!(!server.out().contains("wrong"), "{}", server.out());
    // It serves, as on_store_failure says.
    assert_eq!(server.check(r#"{"user":"alice","resource":"/"}"#)["allowed"], true);

    let url = format!("redis://:secret@{}", redis.address());
    let server = Server::start(&["--store", &url, "--require-store"]);
    assert!(!server.out().contains("NOT CONNECTED"), "{}", server.out());
}

#[test]
fn a_node_that_requires_its_store_does_not_start_without() {
    let redis = Redis::options().password("secret").start();
    let serve = |more: &[&str]| {
        let anywhere = ["--http", "--grpc", "--admin"].into_iter().flat_map(|name| [name, "127.0.0.1:0"]);
        run(["serve"].into_iter().chain(anywhere).chain(more.iter().copied()))
    };
    let wrong = format!("redis://:wrong@{}", redis.address());
    let said = serve(&["--store", &wrong, "--require-store"]);
    said.complains(
        1,
        &["the store cannot be used", "--require-store", "give the user and password in the URL"],
    );
    assert!(!said.out.contains("Tidegate"), "{said:?}");

    // What may pass is waited for, but not forever.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = serve(&["--store", &format!("redis://{nobody}"), "--require-store=true"]);
    said.complains(1, &["the store cannot be used", "is it running, and is the address right?"]);

    let said = serve(&["--require-store"]);
    said.complains(
        2,
        &["--require-store is about a store that nodes share", "Use --store redis://HOST:PORT"],
    );
}

#[cfg(unix)]
#[test]
fn secrets_that_others_can_read_are_named_at_the_start() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let exposed = file("token", "0123456789abcdef0123456789abcdef", 0o640);
    let own = file("cluster.secret", "0123456789abcdef0123456789abcdef0123456789ab", 0o600);
    let redis = Redis::start();
    let server = Server::start(&[
        "--token-file",
        &exposed,
        "--cluster",
        "127.0.0.1:0",
        "--cluster-secret",
        &own,
        "--store",
        &redis.url(),
    ]);
    let log = server.end();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("can be read by")).collect();
    let [warning] = warnings[..] else { panic!("one file is exposed: {log}") };
    for part in ["--token-file", "0640", &format!("chmod 600 {exposed}")] {
        assert!(warning.contains(part), "{part} in {warning}");
    }
}

#[test]
fn ping_and_stats_tell_what_is_there() {
    let redis = Redis::start();
    let said = run(["store", "ping", "--store", &redis.url()]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("master, redis 7") && said.out.contains(" ms"), "{}", said.out);
    let said = run(["store", "stats", "--json", "--store", &redis.url()]);
    assert_eq!(said.json()[0]["eviction_policy"], "noeviction", "{said:?}");
    redis.query::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let said = run(["store", "stats", "--store", &redis.url()]);
    assert!(said.out.contains("set maxmemory-policy to noeviction"), "{}", said.out);
    redis.kill();
    let said = run(["store", "ping", "--timeout", "100ms", "--store", &redis.url()]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("is it running, and is the address right?"), "{}", said.out);
    run(["store", "ping", "--store", "memory:"]).complains(2, &["give a shared store"]);
    run(["store", "ping", "--store", "redis:/h"]).complains(2, &["write it as redis://127.0.0.1:6379"]);
}

#[test]
fn every_master_of_a_cluster_is_shown() {
    let cluster = Cluster::start();
    let said = run(["store", "stats", "--json", "--store", &cluster.url()]);
    assert_eq!(said.json().as_array().unwrap().len(), 3, "{said:?}");
    assert!(said.json().as_array().unwrap().iter().all(|server| server["usable"] == true), "{said:?}");
}

#[test]
fn a_replay_in_redis_is_the_replay_in_memory_and_leaves_nothing_behind() {
    let (redis, cluster) = (Redis::start(), Cluster::start());
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let rules = examples.join("rules.yaml");
    for requests in ["requests.jsonl", "access.log"] {
        let requests = examples.join(requests);
        let replay = |store: &str| {
            let (rules, requests) = (rules.to_str().unwrap(), requests.to_str().unwrap());
            let said = run(["simulate", "--json", "--rules", rules, "--store", store, requests]);
            assert_eq!((said.code, said.err.as_str()), (0, ""));
            said.out
        };
        let wanted = replay("memory:");
        assert!(!wanted.is_empty());
        assert_eq!(replay(&redis.url()), wanted);
        assert_eq!(replay(&cluster.url()), wanted);
    }
    assert_eq!(redis.query::<Vec<String>>(&["KEYS", "*"]), Vec::<String>::new());
    redis.kill();
    let said = run(["simulate", "--rules", rules.to_str().unwrap(), "--store", &redis.url(), "/dev/null"]);
    said.complains(1, &["cannot use the store", "is it running"]);
}
