//! What can be wrong with a server: each has its own kind and a text that names the fix.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Action, Algorithm, Group, HoldId, Operation, Quota, Secret, Span};
use tidegate_redis::{Problem, RedisStore};
use tidegate_store::conformance::run;
use tidegate_store::{Clock, Failure, Outcome, Store, SystemClock};
use tidegate_testkit::{Cluster, Program, Redis, Sentinel, wait};

use crate::load::{SOON, attempt, slot_of, tag_of, yearly};
use crate::support::{Explicit, PATIENT, connect, one, patient, quota, take};

const PROGRAMS: [Program; 3] = [Program::Debian, Program::Redis62, Program::Valkey];

/// A store that is not expected to work.
fn start(url: &str) -> RedisStore {
    RedisStore::builder(url.parse().unwrap()).timeout(PATIENT).start().unwrap()
}

fn failed(store: &RedisStore, failure: Failure) -> u64 {
    let shards = store.shards();
    let errors = shards.iter().flat_map(|shard| shard.stats.errors().filter(|(kind, _)| *kind == failure));
    errors.map(|(_, count)| count).sum()
}

/// Waits until the store says in these words that it has a problem of this kind.
async fn problem(store: &RedisStore, failure: Failure, words: &[&str]) -> Problem {
    let start = Instant::now();
    let expected = |problem: &Problem| {
        problem.failure == failure && words.iter().all(|word| problem.text.contains(word))
    };
    loop {
        match store.problem() {
            Some(problem) if expected(&problem) => return problem,
            other => assert!(start.elapsed() < SOON, "not {failure:?} with {words:?} but {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// That a store on `url` has a problem of this kind, says so in these words, and decides nothing for that
/// reason.
pub(crate) async fn check(url: &str, failure: Failure, words: &[&str]) {
    let store = start(url);
    let problem = problem(&store, failure, words).await;
    println!("{:>13}: {problem}", failure.name());
    let outcome = attempt(&store, &[take("any", "alice", yearly(), 1)], PATIENT).await[0];
    assert_eq!(outcome, Outcome::Unavailable(failure), "{url}");
    if !store.shards().is_empty() {
        assert!(failed(&store, failure) > 0, "{url}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_names_and_passwords_are_told_as_such() {
    for program in PROGRAMS {
        let redis = Redis::options().program(program).password("secret").start();
        let address = redis.address();
        check(&format!("redis://{address}"), Failure::Credentials, &["user:password@"]).await;
        check(&format!("redis://:wrong@{address}"), Failure::Credentials, &["user:password@"]).await;
        check(&format!("redis://nobody:secret@{address}"), Failure::Credentials, &["user:password@"]).await;
        connect(&format!("redis://:secret@{address}")).await;
        assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
        // A password where none is asked for.
        let open = Redis::options().program(program).start();
        check(&format!("redis://:secret@{}", open.address()), Failure::Credentials, &["user:password@"])
            .await;
    }
}

/// Accepts connections until the test is over, and does this with each.
fn serve(answer: fn(&mut TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            answer(&mut connection);
            open.push(connection);
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_redis_is_told_as_such() {
    let web = serve(|client| {
        // One byte is as much as it needs to know that it does not understand.
        client.read_exact(&mut [0]).ok();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").ok();
    });
    check(&format!("redis://{web}"), Failure::NotAStore, &["does not speak the Redis protocol"]).await;
    let echo = serve(|client| {
        let mut said = [0; 512];
        let count = client.read(&mut said).unwrap_or(0);
        client.write_all(&said[..count]).ok();
    });
    check(&format!("redis://{echo}"), Failure::NotAStore, &["does not speak the Redis protocol"]).await;
    let cut_off = serve(|client| {
        client.read_exact(&mut [0]).ok();
        client.write_all(b"$100\r\nonly a part of it").ok();
        client.shutdown(std::net::Shutdown::Both).ok();
    });
    check(&format!("redis://{cut_off}"), Failure::Connection, &["input"]).await;
    let silent = serve(|_| {});
    check(&format!("redis://{silent}"), Failure::Connection, &["does not answer"]).await;
    let closes = serve(|client| drop(client.shutdown(std::net::Shutdown::Both)));
    check(&format!("redis://{closes}"), Failure::Connection, &["hangs up"]).await;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check(&format!("redis://{nobody}"), Failure::Connection, &["is it running", &nobody.to_string()]).await;
    check(&format!("redis+cluster://{web}"), Failure::NotAStore, &["does not speak"]).await;
    check(&format!("redis+cluster://{nobody}"), Failure::Connection, &["is it running"]).await;
    check(&format!("redis+sentinel://{web}/m"), Failure::NotAStore, &["does not speak"]).await;
    check(&format!("redis+sentinel://{nobody}/m"), Failure::Connection, &["is it running"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_another_kind_are_told_with_the_url_they_need() {
    let redis = Redis::start();
    check(
        &format!("redis+cluster://{}", redis.address()),
        Failure::NotAStore,
        &["no node of a Cluster", "redis://"],
    )
    .await;
    check(&format!("redis+sentinel://{}/m", redis.address()), Failure::NotAStore, &["no sentinel"]).await;

    let group = Sentinel::start();
    let master = group.master();
    let replica = group.nodes().iter().find(|node| node.address() != master.address()).unwrap();
    let words = ["replica of", &master.address().to_string(), "redis+sentinel://"];
    check(&replica.url(), Failure::Replica, &words).await;
    let sentinel = group.sentinels()[0].address();
    check(&format!("redis://{sentinel}"), Failure::NotAStore, &["redis+sentinel://"]).await;
    check(&format!("redis+sentinel://{sentinel}/other"), Failure::Connection, &["no master called other"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_is_told_from_a_server_on_its_own() {
    let cluster = Cluster::start();
    for node in [&cluster.nodes()[0], &cluster.nodes()[1]] {
        check(&node.url(), Failure::NotAStore, &["node of a Cluster", "redis+cluster://"]).await;
        assert_eq!(node.keys_without_ttl(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_run_no_scripts_are_told_as_such() {
    for program in PROGRAMS {
        for command in ["EVALSHA", "SCRIPT"] {
            let redis = Redis::options().program(program).args(["--rename-command", command, ""]).start();
            check(&redis.url(), Failure::NoScripts, &["EVALSHA", "SCRIPT", "renamed"]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_run_scripts_is_told_so() {
    let redis = Redis::start();
    for missing in ["evalsha", "script|load", "role"] {
        let minus = format!("-{missing}");
        redis.query::<()>(&["ACL", "SETUSER", "some", "reset", "on", ">secret", "~*", "+@all", &minus]);
        let url = format!("redis://some:secret@{}", redis.address());
        check(&url, Failure::Permission, &[missing, "docs/operations/redis.md"]).await;
    }
    // Not its keys.
    redis.query::<()>(&["ACL", "SETUSER", "some", "reset", "on", ">secret", "~other:*", "+@all"]);
    let url = format!("redis://some:secret@{}", redis.address());
    check(&url, Failure::Permission, &["docs/operations/redis.md"]).await;
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// A server that refuses to write while `trouble` is set: everything fails with `failure`, nothing is half
/// done, and it goes on by itself.
async fn refuses_to_write(redis: &Redis, trouble: [&str; 2], failure: Failure, word: &str) {
    let store = connect(&redis.url()).await;
    let ops = ["a", "b", "c"].map(|rule| take(rule, "alice", yearly(), 10));
    for op in ops {
        one(&store, op).await;
    }
    let [name, value] = trouble;
    redis.query::<()>(&["CONFIG", "SET", name, value]);
    let new = take("a", "bob", yearly(), 1);
    let log = take("log", "alice", quota(Algorithm::SlidingLog, 100, yearly().window()), 1);
    let groups: Vec<Group<'_>> = vec![ops.into_iter().collect(), [ops[0]].into(), [new].into(), [log].into()]
        .into_iter()
        .map(|ops: Vec<Operation<'_>>| ops.into_iter().collect())
        .collect();
    for outcome in store.apply(&groups, patient()).await.into_iter().flatten() {
        assert_eq!(outcome, Outcome::Unavailable(failure));
    }
    assert!(failed(&store, failure) > 0);
    let shards = store.shards();
    let problem = shards[0].problem.as_ref().expect("the shard has a problem");
    assert!(problem.contains(word), "`{word}` is missing: {problem}");
    println!("{:>13}: {problem}", failure.name());
    // Looking changes nothing, so it is not refused.
    assert_eq!(one(&store, take("a", "alice", yearly(), 0)).await.used(), 10);

    redis.query::<()>(&["CONFIG", "SET", name, "0"]);
    for op in ops {
        let used = one(&store, Operation { action: Action::Peek, ..op }).await.used();
        assert_eq!(used, 10, "{}", op.take.key.rule_id);
        assert!(one(&store, op).await.allowed);
    }
    assert_eq!(one(&store, new).await.used(), 1);
    assert_eq!(one(&store, log).await.used(), 1);
    assert_eq!(store.shards()[0].problem, None);
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_does_nothing_by_halves() {
    for program in PROGRAMS {
        let redis = Redis::options().program(program).start();
        refuses_to_write(&redis, ["maxmemory", "1"], Failure::OutOfMemory, "maxmemory").await;
        // Who comes new while there is no memory can read what is there, but begin nothing.
        redis.query::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        connect(&redis.url()).await;
        check(&format!("{}?prefix=new", redis.url()), Failure::OutOfMemory, &["raise maxmemory"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_more_replicas_is_not_ready() {
    for program in PROGRAMS {
        let redis = Redis::options().program(program).start();
        refuses_to_write(&redis, ["min-replicas-to-write", "1"], Failure::NotReady, "pass by itself").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_somebody_elses_script_is_not_ready() {
    let redis = Arc::new(Redis::options().args(["--lua-time-limit", "50"]).start());
    let store = connect(&redis.url()).await;
    let op = take("busy", "alice", yearly(), 1);
    one(&store, op).await;
    let busy = std::thread::spawn({
        let redis = Arc::clone(&redis);
        move || redis.try_query::<()>(&["EVAL", "while true do end", "0"])
    });
    wait::until("the server says that it is busy", SOON, || {
        let error = redis.try_query::<()>(&["PING"]).err()?;
        (error.code() == Some("BUSY")).then_some(())
    });
    assert_eq!(attempt(&store, &[op], PATIENT).await, [Outcome::Unavailable(Failure::NotReady)]);
    redis.query::<()>(&["SCRIPT", "KILL"]);
    assert!(busy.join().unwrap().is_err());
    assert_eq!(one(&store, op).await.used(), 2);
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_fails_its_group_and_nobody_else() {
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 100, yearly().window());
        let [alice, bob] = ["alice", "bob"].map(|user| take("mixed", user, quota, 1));
        one(&store, alice).await;
        one(&store, bob).await;
        let (_, keys): (String, Vec<String>) = redis.query(&["SCAN", "0", "COUNT", "1000"]);
        let ours = |key: &&String| key.contains(&tag_of("alice")) && key.contains(&algorithm.to_string());
        let key = keys.iter().find(ours).unwrap();
        let theirs: [&[&str]; 4] = [
            &["SET", key, "theirs"],
            &["LPUSH", key, "theirs"],
            &["SADD", key, "theirs"],
            // A name that fields of ours have, too.
            &["HSET", key, "c", "theirs"],
        ];
        for foreign in theirs {
            redis.query::<()>(&["DEL", key]);
            redis.query::<()>(foreign);
            redis.query::<()>(&["PEXPIRE", key, "600000"]);
            let before = (
                failed(&store, Failure::Foreign),
                one(&store, Operation { action: Action::Peek, ..bob }).await,
            );
            let groups: Vec<Group<'_>> = [vec![bob], vec![alice], vec![alice, bob], vec![bob]]
                .map(|ops| ops.into_iter().collect())
                .into();
            let outcomes = store.apply(&groups, patient()).await;
            let foreign = Outcome::Unavailable(Failure::Foreign);
            assert_eq!(outcomes[1][..], [foreign], "{algorithm}");
            assert_eq!(outcomes[2][..], [foreign, foreign], "{algorithm}");
            let left: Vec<u64> =
                [0, 3].map(|group: usize| outcomes[group][0].verdict().unwrap().remaining).into();
            let remaining = before.1.remaining;
            assert_eq!(left, [remaining - 1, remaining - 2], "{algorithm}");
            assert_eq!(failed(&store, Failure::Foreign), before.0 + 2);
        }
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// All that a user needs to be allowed, and what it needs in a Cluster and at sentinels besides; as listed in
/// `docs/operations/redis.md`.
const NEEDED: [&str; 19] = [
    "role",
    "script|load",
    "evalsha",
    "time",
    "get",
    "set",
    "pexpire",
    "hget",
    "hmget",
    "hset",
    "hdel",
    "zadd",
    "zrem",
    "zscore",
    "zincrby",
    "zcount",
    "zrevrange",
    "zrangebyscore",
    "zremrangebyscore",
];
const NEEDED_IN_A_CLUSTER: [&str; 2] = ["cluster|slots", "asking"];
const NEEDED_AT_SENTINELS: [&str; 3] = ["sentinel|master", "sentinel|get-master-addr-by-name", "subscribe"];

/// Lets a user called tidegate do this and nothing else.
fn allow<'c>(node: &Redis, what: &str, commands: impl IntoIterator<Item = &'c str>) {
    let commands: Vec<String> = commands.into_iter().map(|command| format!("+{command}")).collect();
    let mut words = vec!["ACL", "SETUSER", "tidegate", "reset", "on", ">secret", what];
    words.extend(commands.iter().map(String::as_str));
    node.query::<()>(&words);
}

fn assert_nothing_was_denied(node: &Redis) {
    let log: Vec<Vec<redis::Value>> = node.query(&["ACL", "LOG"]);
    assert!(log.is_empty(), "{log:?}");
}

/// Everything that can be asked of a counter, of every kind.
async fn exercise(store: &RedisStore) {
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 100, yearly().window());
        let mut op = take("exercised", "alice", quota, 3);
        assert_eq!(one(store, op).await.used(), 3);
        op.take.request_id = Some(Secret::new([1; 16]).request_id("r-1"));
        assert_eq!([one(store, op).await.used(), one(store, op).await.used()], [6, 6]);
        let charge = Operation { action: Action::Charge, ..op };
        assert_eq!([one(store, charge).await.used(), one(store, charge).await.used()], [9, 9]);
        let blocked = Quota::new(algorithm, 0, quota.window()).unwrap();
        let mut charge = Operation { action: Action::Charge, ..take("exercised", "mallory", blocked, 3) };
        charge.take.request_id = op.take.request_id;
        assert!(one(store, charge).await.allowed);
        op.take.request_id = None;
        for (number, settled) in [(1, 1), (2, 0)] {
            let id = HoldId([0, number]);
            op.action = Action::Hold { id, ttl: Span::from_secs(60) };
            assert!(one(store, op).await.allowed);
            let mut settle = Operation { action: Action::Settle { id }, ..op };
            settle.take.cost = settled;
            assert_eq!(one(store, settle).await.used(), 10);
        }
        // How much comes back depends on when it was taken; here it is enough that it is not refused.
        let since = SystemClock.now();
        assert!(one(store, Operation { action: Action::Return { since }, ..op }).await.allowed);
        assert!(one(store, Operation { action: Action::Peek, ..op }).await.allowed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_needs_the_permissions_that_are_listed_and_no_more() {
    for program in PROGRAMS {
        let redis = Redis::options().program(program).start();
        allow(&redis, "~ratelimit:*", NEEDED);
        let url = format!("redis://tidegate:secret@{}", redis.address());
        exercise(&connect(&url).await).await;
        if program == Program::Debian {
            run(async |_| Explicit::new(&url).await).await;
            for command in NEEDED {
                assert!(redis.command_calls(command) > 0, "{command} is not needed");
            }
        }
        assert_nothing_was_denied(&redis);
        assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_a_cluster_needs_two_permissions_more() {
    let cluster = Cluster::start();
    for node in cluster.nodes() {
        allow(node, "~ratelimit:*", NEEDED.into_iter().chain(NEEDED_IN_A_CLUSTER));
    }
    let url = cluster.url().replace("://", "://tidegate:secret@");
    let store = connect(&url).await;
    exercise(&store).await;
    let slot = slot_of("alice");
    let from = cluster.node_for_slot(slot);
    let to = *cluster.masters().iter().find(|node| node.address() != from.address()).unwrap();
    let migration = cluster.start_migration(slot, to);
    one(&store, take("begun-on-the-way", "alice", yearly(), 1)).await;
    migration.finish();
    one(&store, take("begun-on-the-way", "alice", yearly(), 1)).await;
    for node in cluster.nodes() {
        assert_nothing_was_denied(node);
    }
    for command in NEEDED_IN_A_CLUSTER {
        assert!(
            cluster.nodes().iter().any(|node| node.command_calls(command) > 0),
            "{command} is not needed"
        );
    }
    for master in cluster.masters() {
        assert_eq!(master.keys_without_ttl(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_at_sentinels_needs_three_permissions() {
    let group = Sentinel::start();
    for sentinel in group.sentinels() {
        allow(sentinel, "&+switch-master", NEEDED_AT_SENTINELS);
    }
    for node in group.nodes() {
        allow(node, "~ratelimit:*", NEEDED);
    }
    let url = group.url().replace("://", "://tidegate:secret@");
    let url = format!("{url}?sentinel_user=tidegate&sentinel_password=secret");
    let store = connect(&url).await;
    one(&store, take("a", "alice", yearly(), 1)).await;
    for sentinel in group.sentinels() {
        wait::until("the store listens to every sentinel", SOON, || {
            let clients: String = sentinel.query(&["CLIENT", "LIST"]);
            let listens = |line: &str| line.contains("cmd=subscribe") && line.contains("user=tidegate");
            clients.lines().any(listens).then_some(())
        });
        assert_nothing_was_denied(sentinel);
    }
    for missing in &NEEDED_AT_SENTINELS[..2] {
        let some = NEEDED_AT_SENTINELS.into_iter().filter(|command| command != missing);
        group.sentinels().iter().for_each(|sentinel| allow(sentinel, "&+switch-master", some.clone()));
        check(&url, Failure::Permission, &[missing]).await;
    }
    assert_eq!(group.master().keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_scripts_lack_is_told_as_such() {
    for program in PROGRAMS {
        let redis = Redis::options().program(program).start();
        let some = NEEDED.into_iter().filter(|command| !["hget", "hmget"].contains(command));
        allow(&redis, "~ratelimit:*", some);
        let store = connect(&format!("redis://tidegate:secret@{}", redis.address())).await;
        let outcome = attempt(&store, &[take("a", "alice", yearly(), 1)], PATIENT).await[0];
        assert_eq!(outcome, Outcome::Unavailable(Failure::Permission), "{program:?}");
        assert!(failed(&store, Failure::Permission) > 0);
        let problem = store.shards()[0].problem.clone().unwrap();
        assert!(problem.contains("docs/operations/redis.md"), "{problem}");
        println!("{problem}");
        // Nothing could be given an end.
        allow(&redis, "~ratelimit:*", NEEDED.into_iter().filter(|command| *command != "pexpire"));
        let url = format!("redis://tidegate:secret@{}", redis.address());
        check(&url, Failure::Permission, &["pexpire"]).await;
        assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
    }
}
