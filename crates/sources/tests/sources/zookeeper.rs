//! Znodes in a real ZooKeeper, which crashes and hangs.

use tidegate_sources::{Event, ZookeeperSource};
use tidegate_testkit::{Port, Proxy, Zookeeper};
use tokio::time::timeout;

use crate::scene::{DEADLINE, Scene, bad_among_two, names, texts};

fn open(url: &str) -> Scene {
    Scene::new(ZookeeperSource::new(url.parse().unwrap()))
}

/// A source that reads `/t/rules` in a ZooKeeper in which `/t/rules/a` is `one`.
async fn with_one(zookeeper: &Zookeeper) -> Scene {
    zookeeper.put("/t/rules/a", "one");
    let mut scene = open(&url(zookeeper));
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    scene
}

fn url(zookeeper: &Zookeeper) -> String {
    format!("zookeeper://{}/t/rules", zookeeper.address())
}

#[tokio::test]
async fn all_documents_are_told_at_once_and_after_every_change() {
    let zookeeper = Zookeeper::start();
    for (path, data) in [("/t/rules/b", "3"), ("/t/rules/a", "2"), ("/t/rules", "1"), ("/t/other", "x")] {
        zookeeper.put(path, data);
    }
    let mut scene = open(&url(&zookeeper));
    let first = scene.loaded().await;
    assert_eq!(names(&first), ["/t/rules", "/t/rules/a", "/t/rules/b"]);
    assert_eq!(texts(&first), ["1", "2", "3"]);

    zookeeper.put("/t/other", "of no interest");
    zookeeper.put("/t/rules/a/below", "of no interest");
    let zxid = zookeeper.put("/t/rules/c", "4");
    let second = scene.loaded().await;
    assert_eq!((texts(&second), i64::try_from(second.version)), (vec!["1", "2", "3", "4"], Ok(zxid)));
    for text in ["22", "222"] {
        let zxid = zookeeper.put("/t/rules/a", text);
        let third = scene.loaded().await;
        assert_eq!((texts(&third), i64::try_from(third.version)), (vec!["1", text, "3", "4"], Ok(zxid)));
    }
    zookeeper.put("/t/rules", "");
    assert_eq!(texts(&scene.loaded().await), ["222", "3", "4"]);
    let before = scene.version;
    zookeeper.delete("/t/rules/b");
    assert_eq!(texts(&scene.loaded().await), ["222", "4"]);
    assert!(scene.version > before);
    zookeeper.put("/t/rules/b", "33");
    assert_eq!(texts(&scene.loaded().await), ["222", "33", "4"]);
}

#[tokio::test]
async fn many_znodes_are_read() {
    let zookeeper = Zookeeper::start();
    let paths: Vec<String> = (0..200).map(|name| format!("/t/rules/{name:05}")).collect();
    for path in &paths {
        zookeeper.put(path, "1");
    }
    let mut scene = open(&url(&zookeeper));
    assert_eq!(names(&scene.loaded().await), paths);
    // What nobody waited for is told as it is in the end.
    for count in 2..20 {
        zookeeper.put(&paths[count * 10], "2");
    }
    while scene.loaded().await.documents.iter().filter(|document| document.text.as_deref() == Ok("2")).count()
        < 18
    {}
}

/// Whoever waits for several things at once drops the future again and again.
#[tokio::test]
async fn giving_up_waiting_loses_nothing() {
    let zookeeper = Zookeeper::start();
    let mut scene = with_one(&zookeeper).await;
    for text in ["two", "three"] {
        zookeeper.put("/t/rules/a", text);
        let event = timeout(DEADLINE, async {
            loop {
                tokio::select! {
                    biased;
                    event = scene.source.next() => return event,
                    () = tokio::task::yield_now() => {}
                }
            }
        });
        let Event::Loaded(snapshot) = event.await.unwrap() else { panic!("failed") };
        assert_eq!(texts(&snapshot), [text]);
    }
}

#[tokio::test]
async fn a_crash_is_told_once_and_what_changed_meanwhile_is_found() {
    let zookeeper = Zookeeper::start();
    let mut scene = with_one(&zookeeper).await;
    zookeeper.kill();
    let why = scene.failed().await;
    assert!(why.contains(&zookeeper.address().to_string()) && why.contains("see that it runs"), "{why}");
    zookeeper.restart();
    assert_eq!(texts(&scene.loaded().await), ["one"], "told again although nothing changed");

    zookeeper.kill();
    scene.failed().await;
    // Whichever is first, the source or the change: it ends with the change.
    zookeeper.restart();
    zookeeper.put("/t/rules/a", "two");
    while texts(&scene.loaded().await) != ["two"] {}
    zookeeper.delete("/t/rules/a");
    assert!(scene.failed().await.contains("no rules at /t/rules"));
}

#[tokio::test]
async fn a_hang_is_noticed_and_survived() {
    let zookeeper = Zookeeper::start();
    let mut scene = with_one(&zookeeper).await;
    zookeeper.pause();
    let why = scene.failed().await;
    assert!(why.contains("see that it runs"), "{why}");
    zookeeper.resume();
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    zookeeper.put("/t/rules/a", "two");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
}

/// The source is cut off while others are not.
#[tokio::test]
async fn what_changed_behind_a_broken_line_is_found() {
    let zookeeper = Zookeeper::start();
    let proxy = Proxy::start(zookeeper.address());
    zookeeper.put("/t/rules/a", "one");
    zookeeper.put("/t/rules/b", "one");
    let mut scene = open(&format!("zookeeper://{}/t/rules", proxy.address()));
    assert_eq!(texts(&scene.loaded().await), ["one", "one"]);
    proxy.cut();
    scene.failed().await;
    zookeeper.put("/t/rules/a", "two");
    zookeeper.delete("/t/rules/b");
    zookeeper.put("/t/rules/c", "three");
    proxy.heal();
    assert_eq!(texts(&scene.loaded().await), ["two", "three"]);
    zookeeper.put("/t/rules/c", "four");
    assert_eq!(texts(&scene.loaded().await), ["two", "four"]);
}

/// Two ways to one server are two servers to the client; losing either is no trouble.
#[tokio::test]
async fn another_server_takes_over() {
    let zookeeper = Zookeeper::start();
    zookeeper.put("/t/rules/a", "one");
    let (nobody, ways) = (Port::claim(), [(); 2].map(|()| Proxy::start(zookeeper.address())));
    let servers = format!("{},{},{}", nobody.address(), ways[0].address(), ways[1].address());
    let mut scene = open(&format!("zookeeper://{servers}/t/rules"));
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    // One of them is the one in use.
    for (way, text) in ways.iter().zip(["two", "three"]) {
        way.cut();
        zookeeper.put("/t/rules/a", text);
        assert_eq!(texts(&scene.loaded().await), [text]);
        way.heal();
    }
}

#[tokio::test]
async fn what_is_no_text_is_told_as_such_and_harms_no_other() {
    let zookeeper = Zookeeper::start();
    let mut scene = with_one(&zookeeper).await;
    zookeeper.put("/t/rules/b", b"limit: \xff");
    let why = bad_among_two(&scene.loaded().await);
    assert!(why.contains("/t/rules/b:1:8") && why.contains("not UTF-8"), "{why}");
    zookeeper.put("/t/rules/b", vec![b' '; 1024 * 1024 + 1]);
    let why = bad_among_two(&scene.loaded().await);
    assert!(why.contains("/t/rules/b is larger than 1 MiB"), "{why}");
    zookeeper.put("/t/rules/b", "three");
    assert_eq!(texts(&scene.loaded().await), ["one", "three"]);
}

#[tokio::test]
async fn a_missing_path_is_told_until_it_is_there() {
    let zookeeper = Zookeeper::start();
    let mut scene = open(&url(&zookeeper));
    let why = scene.failed().await;
    assert!(why.contains("no znode /t/rules") && why.contains("create it"), "{why}");
    zookeeper.put("/t/rules", "one");
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    zookeeper.delete("/t/rules");
    assert!(scene.failed().await.contains("no znode /t/rules"));
    zookeeper.put("/t/rules", "two");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
}

#[tokio::test]
async fn a_wrong_address_is_named() {
    let nobody = Port::claim();
    let why = open(&format!("zookeeper://{}/t", nobody.address())).failed().await;
    assert!(why.contains(&nobody.address().to_string()) && why.contains("see that it runs"), "{why}");
    let why = open("zookeeper://no-such-host.invalid/t").failed().await;
    assert!(why.contains("no-such-host.invalid:2181") && why.contains("see that it runs"), "{why}");
}

#[tokio::test]
async fn users_and_passwords() {
    let zookeeper = Zookeeper::start();
    zookeeper.put("/t/rules", "");
    zookeeper.put_as(Some("ann:secret"), "/t/rules/a", "one");
    let with = |login: &str| open(&format!("zookeeper://{login}{}/t/rules", zookeeper.address()));
    let why = with("").failed().await;
    assert!(why.contains("everybody read or change /t/rules/a") && why.contains("user:password@"), "{why}");
    let mut wrong = with("ann:wrong@");
    let why = wrong.failed().await;
    assert!(why.contains("let ann read or change /t/rules/a") && !why.contains("wrong"), "{why}");
    let mut ann = with("ann:secret@");
    assert_eq!(texts(&ann.loaded().await), ["one"]);
    zookeeper.put_as(Some("ann:secret"), "/t/rules/a", "two");
    assert_eq!(texts(&ann.loaded().await), ["two"]);
    // What was refused is asked for again.
    zookeeper.delete("/t/rules/a");
    zookeeper.put("/t/rules/b", "three");
    while texts(&wrong.loaded().await) != ["three"] {}
}
