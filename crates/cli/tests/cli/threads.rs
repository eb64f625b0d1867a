//! Two planes: threads that decide, and threads for everything else.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;

use crate::support::{PATIENCE, Server, run, wait_for};

const REQUEST: &str = r#"{"user":"alice","resource":"/nothing/in/particular"}"#;

/// Returns the name of each thread of a process, with the figures that follow it in its `stat`.
fn threads(pid: u32) -> Vec<(String, Vec<String>)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread may end while it is looked at.
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")).ok());
    let read = |stat: String| {
        let (name, figures) = stat.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") ")).unwrap();
        (name.to_owned(), figures.split(' ').map(str::to_owned).collect())
    };
    stats.map(read).collect()
}

/// Returns the processor time of each thread of a process in ticks of the kernel's clock, by the thread's name.
fn ticks(pid: u32) -> BTreeMap<String, u64> {
    let mut ticks = BTreeMap::new();
    for (name, figures) in threads(pid) {
        let time: u64 = figures[11].parse::<u64>().unwrap() + figures[12].parse::<u64>().unwrap();
        *ticks.entry(name).or_default() += time;
    }
    ticks
}

fn of_plane(ticks: &BTreeMap<String, u64>, prefix: &str) -> u64 {
    ticks.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, ticks)| ticks).sum()
}

#[test]
fn each_plane_does_its_own_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let mut rules = "rules:\n".to_owned();
    for number in 0..300 {
        writeln!(rules, "  - {{rule_id: r{number}, identifier_type: user_id, limit: 9, window: 1h}}")
            .unwrap();
    }
    fs::write(&path, rules).unwrap();
    let server = Server::start(&["--threads", "3", "--rules", path.to_str().unwrap()]);
    let before = ticks(server.pid());
    let names: Vec<&str> =
        before.keys().map(String::as_str).filter(|name| name.starts_with("data-")).collect();
    assert_eq!(names, ["data-0", "data-1", "data-2"]);

    // Administrators keep their own threads busy, and no others.
    let after = wait_for("administration to take some processor time", || {
        assert_eq!(server.admin("/v1/documents").0, 200);
        let now = ticks(server.pid());
        (of_plane(&now, "control") > of_plane(&before, "control") + 50).then_some(now)
    });
    let taken = of_plane(&after, "data-") - of_plane(&before, "data-");
    assert!(taken <= 2, "{taken} ticks on data threads: {before:?}, {after:?}");
    server.end();
}

#[test]
fn work_for_administrators_gives_way_to_all_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, "- {rule_id: one, identifier_type: user_id, limit: 9, window: 1h}\n").unwrap();
    let server = Server::start(&["--threads", "2", "--rules", path.to_str().unwrap()]);
    for path in ["/metrics", "/v1/rules", "/v1/documents"] {
        assert_eq!(server.admin(path).0, 200, "{path}");
    }
    let threads = threads(server.pid());
    let nice = |thread: &str| -> Vec<&str> {
        let named = threads.iter().filter(|(name, _)| name == thread);
        named.map(|(_, figures)| &*figures[16]).collect()
    };
    // The process that started it may have lowered the priority of all.
    let usual = nice("data-0")[0];
    assert_eq!(nice("data-1"), [usual]);
    assert!(nice("control").len() >= 2 && nice("control").iter().all(|nice| *nice == usual), "{threads:?}");
    assert_eq!(nice("control-work"), ["10"; 3]);
    server.end();
}

#[test]
fn requests_are_served_by_all_threads() {
    let server = Server::start(&["--threads", "2"]);
    let before = ticks(server.pid());
    // As many connections as an Envoy opens, used all the time.
    let mut connections: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(&server.http).unwrap()).collect();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        server.http,
        REQUEST.len()
    );
    let request = head + REQUEST;
    let mut answer = [0; 4_096];
    connections.iter().for_each(|stream| stream.set_read_timeout(Some(PATIENCE)).unwrap());
    let after = wait_for("both threads to work", || {
        for _ in 0..200 {
            for stream in &mut connections {
                stream.write_all(request.as_bytes()).unwrap();
            }
            for stream in &mut connections {
                let length = stream.read(&mut answer).unwrap();
                assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
            }
        }
        let now = ticks(server.pid());
        let worked = |name: &str| now[name] > before[name] + 10;
        (worked("data-0") && worked("data-1")).then_some(now)
    });
    // Half the connections are on each.
    let taken = ["data-0", "data-1"].map(|name| after[name] - before[name]);
    assert!(taken[0] < 4 * taken[1] && taken[1] < 4 * taken[0], "{taken:?}");
    server.end();
}

#[test]
fn bad_numbers_are_named() {
    run(["serve", "--threads", "0"]).complains(2, &["--threads is 0; give a number from 1 to 1024"]);
    run(["serve", "--threads", "9999"]).complains(2, &["--threads is 9999"]);
    let server = Server::start(&["--threads", "1000"]);
    let log = server.end();
    assert!(log.contains("--threads is more than the cores") && log.contains("threads=1000"), "{log}");
}
