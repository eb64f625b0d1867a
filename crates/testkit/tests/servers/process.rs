//! Processes end with their handle and with the test process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::{env, thread};

use tempfile::TempDir;
use tidegate_testkit::{Launch, Port, Redis, Signal, find_program, wait};

use crate::{SOON, exists};

/// Set for the test process that is to be killed.
const VICTIM: &str = "TIDEGATE_TESTKIT_VICTIM";

#[test]
fn servers_die_with_the_test_process() {
    if env::var_os(VICTIM).is_some() {
        let redis = Redis::start();
        println!("\npid {}", redis.pid());
        loop {
            thread::park();
        }
    }
    // What the victim cannot remove any more goes with this.
    let folder = TempDir::new().unwrap();
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "process::servers_die_with_the_test_process", "--nocapture"])
        .env(VICTIM, "1")
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let pid = lines.filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).next();
    let pid: u32 = pid.expect("the victim says its server's process id");
    assert!(exists(pid));
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait::until("the server is gone", SOON, || (!exists(pid)).then_some(()));
}

#[test]
fn servers_outlive_the_thread_that_started_them() {
    let redis = thread::spawn(Redis::start).join().unwrap();
    redis.query::<()>(&["PING"]);
}

#[test]
fn processes_take_signals_and_keep_a_log() {
    let folder = TempDir::new().unwrap();
    let script = "trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.01; done";
    let shell = find_program("sh", "dash");
    let process = Launch::new(shell, folder.path().join("log")).args(["-c", script]).start();
    wait::until("the script has started", SOON, || process.log().contains("hello").then_some(()));
    process.signal(Signal::TERM);
    assert_eq!(process.wait(SOON).unwrap().code(), Some(3));
    assert_eq!(process.log_tail(), "hello\nbye");
    assert!(!process.is_running());
}

#[test]
fn clocks_can_be_wrong() {
    let folder = TempDir::new().unwrap();
    let date = find_program("date", "coreutils");
    let year = |offset: Option<&str>| {
        let launch = Launch::new(&date, folder.path().join(offset.unwrap_or("none"))).args(["+%Y"]);
        let process = offset.into_iter().fold(launch, Launch::clock_offset).start();
        assert!(process.wait(SOON).unwrap().success());
        process.log().trim().parse::<u32>().unwrap()
    };
    assert_eq!(year(Some("+730d")), year(None) + 2);
}

#[test]
fn ports_are_given_out_once() {
    let ports: Vec<Port> = (0..100).map(|_| Port::claim()).collect();
    let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ports.len());
}

#[test]
#[should_panic(expected = "no-such-server is not installed; apt-get install its-package")]
fn missing_programs_are_named_with_their_package() {
    let _ = find_program("no-such-server", "its-package");
}
