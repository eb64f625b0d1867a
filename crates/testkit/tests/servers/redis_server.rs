//! One server.

use std::path::PathBuf;
use std::time::Duration;

use redis::{ClientTlsConfig, TlsCertificates};
use tidegate_testkit::{Certificates, ClientCertificates, Program, Redis};

use crate::exists;

#[test]
fn starts_answers_and_leaves_nothing_behind() {
    let redis = Redis::start();
    redis.query::<()>(&["SET", "a", "1"]);
    assert_eq!(redis.query::<i64>(&["INCR", "a"]), 2);
    let client = redis::Client::open(redis.url()).unwrap();
    let (_, folder): (String, String) = redis.query(&["CONFIG", "GET", "dir"]);
    let folder = PathBuf::from(folder);
    let pid = redis.pid();
    assert!(client.get_connection().is_ok() && exists(pid) && folder.is_dir());

    drop(redis);
    assert!(client.get_connection().is_err() && !exists(pid) && !folder.exists());
}

#[test]
fn tells_versions_apart() {
    let version = |program, field: &str| {
        let redis = Redis::options().program(program).start();
        redis.info("server").remove(field).unwrap()
    };
    assert!(version(Program::Debian, "redis_version").starts_with("7."));
    assert!(version(Program::Redis62, "redis_version").starts_with("6.2."));
    assert!(version(Program::Valkey, "valkey_version").starts_with("9.1."));
}

#[test]
fn counts_commands_and_finds_keys_that_stay() {
    let redis = Redis::start();
    assert_eq!(redis.command_calls("set"), 0);
    for key in 0..2_500 {
        redis.query::<()>(&["SET", &format!("brief-{key}"), "1", "PX", "600000"]);
    }
    redis.query::<()>(&["SET", "lasting", "1"]);
    assert_eq!(redis.command_calls("SET"), 2_501);
    assert!(redis.command_usec("set") > 0);
    assert_eq!(redis.keys_without_ttl(), ["lasting"]);
}

#[test]
fn hangs_crashes_and_comes_back_empty_on_its_port() {
    let redis = Redis::start();
    let (pid, address) = (redis.pid(), redis.address());
    redis.query::<()>(&["SET", "a", "1"]);

    redis.pause();
    let client = redis::Client::open(redis.url()).unwrap();
    // The kernel connects; nobody answers the first words.
    let hung = client.get_connection_with_timeout(Duration::from_millis(50));
    assert!(hung.err().unwrap().is_timeout());
    redis.resume();
    assert_eq!(redis.query::<i64>(&["GET", "a"]), 1);

    redis.kill();
    assert!(!exists(pid) && !redis.is_running());
    assert!(redis.try_query::<()>(&["PING"]).is_err());
    redis.restart();
    assert_eq!(redis.query::<Option<i64>>(&["GET", "a"]), None);
    assert_eq!(redis.address(), address);
    assert!(client.get_connection().is_ok());
}

#[test]
fn asks_for_passwords_and_users() {
    let redis = Redis::options().password("secret").args(["--maxmemory", "2mb"]).start();
    redis.query::<()>(&["PING"]);
    assert_eq!(redis.info("memory")["maxmemory"], "2097152");
    let mut anyone = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let refused = redis::cmd("PING").query::<()>(&mut anyone).unwrap_err();
    assert_eq!(refused.code(), Some("NOAUTH"));

    let users = ["--user", "default", "off", "--user", "admin", "on", ">secret", "~*", "&*", "+@all"];
    Redis::options().args(users).login("admin", "secret").start().query::<()>(&["PING"]);
}

#[test]
fn says_why_it_does_not_start() {
    let started = std::panic::catch_unwind(|| Redis::options().args(["--no-such-option", "1"]).start());
    let message = started.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("the end of its log") && message.contains("no-such-option"), "{message}");
}

#[test]
fn speaks_tls_with_clients_that_it_knows() {
    let certificates = Certificates::generate();
    let redis = Redis::options().tls(&certificates, ClientCertificates::Required).start();
    let read = |file: PathBuf| std::fs::read(file).unwrap();
    let ask = |authority: &Certificates, client_tls: Option<ClientTlsConfig>| {
        let tls = TlsCertificates { client_tls, root_cert: Some(read(authority.authority())) };
        let client = redis::Client::build_with_tls(redis.url(), tls)?;
        redis::cmd("PING").query::<String>(&mut client.get_connection()?)
    };
    let known = || ClientTlsConfig {
        client_cert: read(certificates.client_certificate()),
        client_key: read(certificates.client_key()),
    };
    assert_eq!(ask(&certificates, Some(known())).unwrap(), "PONG");
    assert!(ask(&certificates, None).is_err(), "a client without a certificate");
    assert!(ask(&Certificates::generate(), Some(known())).is_err(), "a server of another authority");
}
